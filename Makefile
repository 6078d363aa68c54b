# Two commands from a fresh clone: `make demo` and `make test`. Both set up everything they need in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
CORES  ?= 2

.PHONY: demo test lint setup clean

setup: $(READY)

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(BIN)/python -m compileall -q src
	touch $(READY)

demo: $(READY)
	$(BIN)/hingerank warmup
	$(BIN)/hingerank demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n $(CORES)

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache dist
