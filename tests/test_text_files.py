"""Text is UTF-8 wherever the package reads or writes it, whatever the locale of the machine is."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
FILES = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}


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


@pytest.mark.parametrize("name", FILES)
def test_text_is_utf_8(name):
    calls = [node for node in ast.walk(ast.parse(FILES[name].read_text("utf-8"))) if isinstance(node, ast.Call)]
    assert [call.lineno for call in calls if by_locale(call)] == [], "give encoding="
