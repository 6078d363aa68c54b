"""The house is as it is drawn: imports flow one way and in no circle, files are of a readable length, parts have types.

Everything is read from the syntax trees, so imports inside functions and for type checkers count like any other. Names
of modules in strings ("hingerank.metrics", "rankers.linear:RankSVM") are no imports; where they may stand is listed in
REGISTRIES.
"""

import ast
import functools
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "hingerank"

# A room may import rooms of earlier lines and itself: not later ones, and not its neighbours in the line.
ORDER = [
    ["arrays", "notebook", "registry", "renaming", "watching"],
    ["kernels"],
    ["data"],
    ["preferences", "structures", "metrics"],
    ["losses", "features"],
    ["problem"],
    ["solvers"],
    ["export"],
    ["rankers"],
    ["search"],
    ["personal", "diversity", "clicks"],
    ["distributed"],
    ["lab"],
    ["papers"],
    ["cli"],
]
FREE = ["", "__main__"]  # the package itself names everything, and imports it when it is asked for
REGISTRIES = ["hingerank", "hingerank.lab.report.page", "hingerank.registry"]
LONGEST = 480
TYPED = ["preferences", "losses", "structures", "features", "problem", "solvers"]  # parts know each other by Protocols


def module_name(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


@functools.cache  # read by the first test that asks, not by each worker that collects tests
def sources():
    """Each module's syntax nodes, the whole module first."""
    return {module: [*ast.walk(ast.parse(path.read_text("utf-8")))] for module, path in FILES.items()}


def imported(nodes):
    """(module of this package, what is taken from it or None) of every import statement, wherever it stands."""
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path of a module"
            names = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in names:
            if module.partition(".")[0] == "hingerank":
                inner = f"{module}.{name}"
                yield (inner, None) if inner in FILES else (module, name)


@functools.cache
def graph_of_imports():
    return {module: {target for target, _ in imported(nodes)} for module, nodes in sources().items()}


def room(module):
    return module.split(".")[1] if "." in module else ""


def test_every_room_has_its_place():
    placed = [name for line in ORDER for name in line]
    assert {room(module) for module in FILES} <= {*placed, *FREE}, "give the new room a place in ORDER"
    assert len(placed) == len(set(placed))


def test_imports_flow_one_way():
    level = {name: number for number, line in enumerate(ORDER) for name in line}
    found = {
        f"{module} -> {target}"
        for module, targets in graph_of_imports().items()
        for target in targets
        if room(module) not in FREE and room(target) not in ("", room(module))
        if level.get(room(target), len(ORDER)) >= level[room(module)]
    }
    assert not found


def test_only_the_laboratory_imports_the_whole_package():
    """Elsewhere `from hingerank import __version__` is all, else `hingerank.RankSVM` would be a hidden import."""
    found = {
        module
        for module, nodes in sources().items()
        for target, name in imported(nodes)
        if target == "hingerank" and name != "__version__" and room(module) not in ("lab", "papers", "cli")
    }
    assert not found


def circles(graph):
    """Sets of modules that import each other, directly or not (Tarjan's strongly connected components)."""
    index, low, stack, found = {}, {}, [], []

    def visit(module):
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in graph[module]:
            if target not in index:
                visit(target)
            if target in stack:
                low[module] = min(low[module], low[target])
        if low[module] == index[module]:
            k = stack.index(module)
            found.append(sorted(stack[k:]))
            del stack[k:]

    for module in graph:
        if module not in index:
            visit(module)
    return sorted(members for members in found if len(members) > 1 or members[0] in graph[members[0]])


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": {"d"}, "f": {"f"}, "g": {"a"}}) == [
        ["b", "c"],
        ["d", "e"],
        ["f"],
    ]


def test_no_module_imports_itself_in_a_circle():
    assert circles(graph_of_imports()) == []


def defined(module):
    """Names that a module has when it is imported."""
    for node in sources()[module][0].body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def test_names_of_modules_stand_only_in_registries_and_are_right():
    places = set()
    for module, nodes in sources().items():
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                match = re.fullmatch(
                    r"(?:hingerank\.)?(\w+(?:\.\w+)+(?=:)|(?<=\.)\w+(?:\.\w+)*)(?::(\w+))?", node.value
                )
                if match:
                    places.add(module)
                    name = f"hingerank.{match[1]}"
                    assert name in FILES, f"{module} names {name}, which does not exist"
                    assert not match[2] or match[2] in defined(name), f"{module} names {node.value}"
    assert places == set(REGISTRIES)


def test_files_can_be_read_in_one_sitting():
    assert not {name for name, path in FILES.items() if len(path.read_text("utf-8").splitlines()) > LONGEST}


def probing(nodes):
    """Calls of hasattr and uses of __new__."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr":
            yield "hasattr"
        if isinstance(node, ast.Attribute) and node.attr == "__new__":
            yield "__new__"


def test_parts_are_known_by_their_types():
    found = {
        f"{module}: {how}" for module, nodes in sources().items() if room(module) in TYPED for how in probing(nodes)
    }
    assert not found


def test_no_text_is_run_as_code():
    """But for the module that an export to Python has just written, which is run to check it."""
    found = [
        (module, node.func.id)
        for module, nodes in sources().items()
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in ("eval", "exec", "compile", "__import__")
    ]
    assert sorted(found) == [("hingerank.export.code", "compile"), ("hingerank.export.code", "exec")]


def test_no_class_name_is_used_twice():
    homes = {}
    for module, nodes in sources().items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module)
    assert not {name: places for name, places in homes.items() if len(places) > 1}


# What reads and writes files, of which CONTRIBUTING's table says why it is our own.
FILE_LIBRARIES = re.compile(
    r"(bz2|csv|gzip|lzma|pyarrow|safetensors|tarfile|tomllib|urllib\.request|xml|zipfile|zlib)(\.|$)"
)
OTHER_USES = {  # check sums, results and tables of our own, and models for other programs
    "hingerank.export.lucene", "hingerank.export.pmml", "hingerank.kernels.numba_inside", "hingerank.lab.comparison",
    "hingerank.lab.leaderboard", "hingerank.lab.paper", "hingerank.lab.results", "hingerank.papers.diversity",
    "hingerank.papers.engine", "hingerank.papers.letor", "hingerank.papers.outcome", "hingerank.papers.personal",
}  # fmt: skip


def libraries(nodes):
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_contributing_names_what_reads_and_writes_files():
    text = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text("utf-8")
    table = text[text.index("## Kept libraries and own code") :].partition("\n## ")[0]
    named = {f"hingerank.{path.replace('/', '.')}" for path in re.findall(r"`(?!benchmarks/)(\w+/\w+)\.py`", table)}
    assert named <= set(FILES), "CONTRIBUTING names a module that does not exist"
    users = {module for module, nodes in sources().items() if any(map(FILE_LIBRARIES.match, libraries(nodes)))}
    assert users <= named | OTHER_USES, "say in CONTRIBUTING's table what it reads or writes, and why by own code"


def by_locale(call):
    """Whether a call reads or writes text in the machine's encoding."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if "encoding" in given or None in given:
        return False
    if isinstance(call.func, ast.Name) and name == "open":
        mode = call.args[1] if len(call.args) > 1 else given.get("mode", ast.Constant("r"))
        return isinstance(mode, ast.Constant) and "b" not in mode.value
    if isinstance(call.func, ast.Attribute) and name == "read_text":
        return not call.args
    if isinstance(call.func, ast.Attribute) and name == "write_text":
        return len(call.args) < 2
    return any(
        isinstance(value := given.get(word), ast.Constant) and value.value for word in ("text", "universal_newlines")
    )


def test_text_is_utf_8_whatever_the_locale_of_the_machine_is():
    found = {
        f"{module}, line {node.lineno}"
        for module, nodes in sources().items()
        for node in nodes
        if isinstance(node, ast.Call) and by_locale(node)
    }
    assert not found, "give encoding="
