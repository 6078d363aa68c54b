"""The documentation: its code runs, and the site builds without a single warning."""

import ast
import doctest
import inspect
import json
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

import hingerank as hr
from hingerank.cli import main

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src"
EXAMPLES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if re.search(r">>> (?!.*doctest: \+SKIP)", path.read_text("utf-8"))
]
PAGES = {path.name: path.read_text("utf-8") for path in sorted(DOCS.glob("*.md"))}


def code(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)


SLOW = "additive", "baselines", "comparing", "diversity", "no-better", "start-clicks", "tuning"
LONG = {f"{name}.md" for name in SLOW}  # about two seconds or more each


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if page in LONG else []) for page in PAGES if code(page, "python")],
)
def test_the_code_and_commands_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    """Blocks in the order of the page, in one namespace; blocks of >>> lines are compared with what they show."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for kind, block in re.findall(r"^```(python|console)\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL):
        if kind == "console":
            for line in filter(lambda line: line.startswith("$ "), block.splitlines()):
                program, *arguments = shlex.split(line.removeprefix("$ "))
                assert program == "hingerank"
                assert main(arguments) == 0, capsys.readouterr().err
        elif ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, page, None, 0)
            result = doctest.DocTestRunner().run(test, clear_globs=False)
            assert result.failed == 0, capsys.readouterr().out
            names = test.globs
        else:
            exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_of_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if module == "hingerank.rankers.tree_rankers":
        for library in ("lightgbm", "xgboost"):
            pytest.importorskip(library)
    failed, attempted = doctest.testmod(import_module(module))
    assert attempted > 0 and failed == 0


def described(docstring):
    """Names below the heading "Parameters" of a docstring in numpydoc form."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", docstring, re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^(\w+(?:, \w+)*)(?: :.*)?$", section[1] if section else "", re.MULTILINE)
    return {name for head in heads for name in head.split(", ")}


def test_public_docstrings_describe_parameters():
    """All that have more than two; what is described exists."""
    silent = set()
    for name in hr._HOME:
        thing = getattr(hr, name)
        if not (inspect.isclass(thing) and issubclass(thing, Exception)):
            has, says = set(inspect.signature(thing).parameters), described(inspect.getdoc(thing))
            assert says <= has, f"{name} describes {', '.join(says - has)}, which it does not take"
            if len(has) > 2 and not says:
                silent.add(name)
    assert not silent, "describe the parameters of these names"


def test_signatures_are_short():
    """`help` shows them: types are named, not spelled out as NumPy's unions."""
    for name in hr._HOME:
        thing = getattr(hr, name)
        for each in [thing, *vars(thing).values()] if inspect.isclass(thing) else [thing]:
            if inspect.isfunction(each):
                assert len(str(inspect.signature(each))) <= 1000, f"{name}: {inspect.signature(each)}"


def test_what_pages_name_exists():
    for page, text in PAGES.items():
        for script in re.findall(r"`((?:benchmarks|tests|docs|examples)/[\w/.]+\.\w+)`", text):
            assert (ROOT / script).exists(), f"{page} names {script}"
        for name in re.findall(r"\bhr\.([A-Za-z_]\w*)", text):
            assert name in hr.__all__, f"{page} names hr.{name}"


TEXTS = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in [ROOT / "README.md", *DOCS.glob("*.md")]} | {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for folder in ("src", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
}


@pytest.mark.parametrize(
    ("mistake", "remedy"),
    [
        (r"\\[dt]?frac(?!\s*\{)", r"braces around both parts: \frac{1}{2}"),
        (r"(?<!\\left)(?<!\\bigl)(\\\||\\[rl]?Vert)[\^_]", r"braces around the norm: {\|w\|}^2"),
    ],
    ids=["fractions", "norms"],
)
def test_equations_are_written_as_they_are_drawn(mistake, remedy):
    """Docutils draws what stands after \\frac without braces, or a power after a bar, at the wrong place."""
    found = [f"{name}: {m[0]}" for name, text in TEXTS.items() for m in re.finditer(mistake, text)]
    assert not found, remedy


ARCHAIC = r"\b(anew|hardly|for want of|told|reckon\w*|the road|\blest|whence|thereof)\b"
ONE_OF_ARCHAIC = r"anew|hardly|want|told|reckon|road|\blest|whence|thereof"  # of which a text in several pieces has one
OTHER_WORDS = "write stored, again, rarely, data unavailable, estimate, quickstart instead"


def test_pages_and_help_use_words_of_today():
    from typer.main import get_command

    from hingerank.cli.app import app

    texts = PAGES | {"README.md": (ROOT / "README.md").read_text("utf-8")}
    for name, command in get_command(app).commands.items():
        texts[f"hingerank {name}"] = " ".join(
            [command.help, *(getattr(one, "help", "") or "" for one in command.params)]
        )
    found = [f"{name}: {m[0]}" for name, text in texts.items() for m in re.finditer(ARCHAIC, text, re.IGNORECASE)]
    assert not found, OTHER_WORDS


def test_docstrings_and_messages_use_words_of_today():
    found, package = [], ROOT / "src" / "hingerank"
    for path in package.rglob("*.py"):
        place, source = path.relative_to(package), path.read_text("utf-8")
        if not re.search(ONE_OF_ARCHAIC, source, re.IGNORECASE):
            continue
        nodes = ast.walk(ast.parse(source))
        texts = (n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))
        found += [f"{place}: {m[0]}" for text in texts for m in re.finditer(ARCHAIC, text, re.IGNORECASE)]
    assert not found, OTHER_WORDS


def test_commands_in_running_text_have_the_options_that_they_name():
    from typer.main import get_command

    from hingerank.cli.app import app

    commands, found = get_command(app).commands, 0
    everywhere = {option for parameter in get_command(app).params for option in parameter.opts}
    for name, text in TEXTS.items():
        for command, rest in re.findall(r"`hingerank ([a-z-]+)((?:[ \n][^`]*)?)`", text):
            assert command in {*commands, *everywhere}, f"{name} names hingerank {command}"
            if command in everywhere:
                continue
            known = {option for parameter in commands[command].params for option in parameter.opts}
            asked = set(re.findall(r"(?<=\s)--?[a-zA-Z][a-z-]*", rest))
            unknown = asked - known - {"--help", "-h"}
            takes_more = commands[command].context_settings.get("ignore_unknown_options", False)
            assert takes_more or not unknown, f"{name} names hingerank {command} {', '.join(unknown)}"
            found += len(asked)
    assert found > 10


def test_the_notebook_of_the_shop_runs_and_is_that_of_its_example(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("agg")
    pytest.importorskip("sphinx_gallery", reason="sphinx-gallery is not installed: pip install 'hingerank[docs]'")
    monkeypatch.syspath_prepend(str(DOCS / "_site"))
    made = import_module("notebooks").notebook(ROOT / "examples" / "plot_shop.py")
    stored = (ROOT / "examples" / "shop.ipynb").read_text("utf-8")
    assert made == stored, "run python docs/_site/notebooks.py"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path.parent))
    names = {"__name__": "notebook"}
    for cell in json.loads(stored)["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "shop.ipynb", "exec"), names)
    names["plt"].close("all")
    assert capsys.readouterr().out.endswith("True\n") and not list(tmp_path.iterdir())


def test_meanings_of_parameters_are_not_set_as_types(monkeypatch):
    nodes = pytest.importorskip("docutils.nodes")
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS / "_site"))
    tidying = import_module("tidying")
    shown = []
    for parts in (
        [nodes.Text(" ("), nodes.emphasis("", "a grade per row"), nodes.Text(")")],
        [nodes.Text(" ("), nodes.emphasis("", "a weight (or none)"), nodes.Text(") – More.")],
        [nodes.Text(" (with "), nodes.literal("", "C"), nodes.Text(" the number of fits)")],
        [nodes.Text(" is not (a meaning)")],
    ):
        paragraph = nodes.paragraph("", "", nodes.strong("", "X"), *parts)
        tidying._plain_meaning(paragraph)
        shown.append(paragraph.astext())
        assert not list(paragraph.findall(nodes.emphasis))
    assert shown == [
        "X: a grade per row",
        "X: a weight (or none). More.",
        "X: with C the number of fits",
        "X is not (a meaning)",
    ]
