# From a fresh clone `make demo` and `make test` set up everything they need in .venv, as do the other targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
READY  := $(VENV)/.ready
CORES  ?= 2
# A worker begins with its own half of the tests: what one compiles, the other loads. With a thread of BLAS each, as
# more threads than cores wait for each other: that took ten times as long in the tests that multiply most.
# Bytecode is kept, whatever the shell says: without it a worker spends over half of its collection on compiling.
PYTEST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(CORES) --dist worksteal
ENGINES ?= $(CURDIR)/.engines
QUICK  := tests/test_architecture.py tests/test_import_light.py tests/kernels tests/metrics tests/solvers tests/export \
          $(addprefix tests/contracts/test_, losses.py list_losses.py) \
          $(addprefix tests/data/test_, blocks.py ranking_data.py reader_errors.py) \
          $(addprefix tests/rankers/test_, base_ranker.py baselines.py sparse_rankers.py)

.PHONY: demo check test test-all tests style types engines docs site wheel dist matrix bench lint setup clean

setup: $(READY)

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(BIN)/python -m compileall -q src
	touch $(READY)

$(VENV)/.demo: pyproject.toml  # the demo alone needs far less than the tests
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -e $(READY) || $(BIN)/python -m pip install --quiet --editable .
	touch $(VENV)/.demo

demo: $(VENV)/.demo
	$(BIN)/hingerank demo

lint: style types

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

check: lint  # while editing: what finds most mistakes, within a minute
	$(PYTEST) $(QUICK)

test: style  # all but the slow ones, within four minutes
	$(MAKE) -j 2 types tests MARKED="not slow"

test-all: style
	$(MAKE) -j 2 types tests

tests: $(READY)
	$(PYTEST) -m "$(MARKED)"

engines: $(READY)  # exports in the engines they are for, which are fetched once and started on loopback
	$(BIN)/python -m pip install --quiet "python-terrier>=0.13"
	HINGERANK_ENGINES="$(ENGINES)" $(BIN)/python -m pytest tests/engines -p no:cacheprovider

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -q -n docs docs/_build/html

site: docs  # a folder for each version of docs/versions.json, the older ones from their tags, as it is served
	$(BIN)/python docs/_site/assemble.py docs/_build/site

wheel: $(READY)  # and the source archive
	rm -rf dist
	$(BIN)/python -m build --outdir dist

dist: wheel  # then tried in a fresh environment
	$(BIN)/python tests/try_wheel.py dist

matrix: wheel  # tried with every Python that is found here, and with the lowest versions of what it needs
	$(BIN)/python tests/try_matrix.py dist $(filter-out tests/test_architecture.py, $(QUICK)) tests/test_command_options.py

bench: $(READY)  # stored benchmarks that fit into half an hour: what moved by more than the noise
	$(BIN)/python benchmarks/rerun.py --minutes 28
	HINGERANK_DATA="$${HINGERANK_DATA:-../shared/data}" $(BIN)/hingerank reproduce --check

clean:
	rm -rf $(VENV) .matrix .pytest_cache .ruff_cache .mypy_cache dist docs/_build
