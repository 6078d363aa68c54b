"""Docstrings as they are written here, turned into reStructuredText.

A docstring is plain text: names such as coef_ and signs such as * mean themselves, words in backticks are code,
indented lines are a formula, "name : what it is" or "name: what it is" describes a parameter, ">>>" begins an example.
"""

import inspect
import re

HEADINGS = ("Parameters", "Attributes", "Example", "Examples", "Notes", "Returns")
NAMES = r"[A-Za-z_]\w*(?:, [A-Za-z_]\w*)*"
ENTRY = re.compile(rf"({NAMES}) ?: (?=\S)")
WITHIN = re.compile(rf"(?<=\.) ({NAMES})( ?): (?=\S)")  # a second entry on the line of the first
ROLE = re.compile(r":\w+:`~?([^`]+)`")
CODE = re.compile(r"``([^`]+)``|`([^`]+)`")


def escape(text):
    """Text that means itself, but for words in backticks, which become code."""
    text, pieces, end = ROLE.sub(r"`\1`", text), [], 0
    for match in CODE.finditer(text):
        glued = r"\ " if text[match.end() : match.end() + 1].isalnum() else ""
        pieces += [_plain(text[end : match.start()]), f"``{match[1] or match[2]}``{glued}"]
        end = match.end()
    return "".join([*pieces, _plain(text[end:])])


def _plain(text):
    return re.sub(r"([\\*_|`@])", r"\\\1", text)


def convert(lines, parameters=()):
    """The docstring's lines as reStructuredText; parameters: names that "name: " describes also within a line."""
    out, listed = [], False
    for block in _blocks(lines):
        if len(block) > 1 and block[0] in HEADINGS and set(block[1]) == {"-"}:
            listed = block[0] in ("Parameters", "Attributes")
            out += [f".. rubric:: {block[0]}", ""] * (listed or block[0] == "Returns")
            block = block[2:]
        if not block:
            continue
        if block[0].startswith(">>>"):
            out += block
        elif block[0].startswith(" "):
            out += ["::", "", *("    " + line for line in block)]
        elif listed or all(line.startswith(" ") or ENTRY.match(line) for line in block):
            out += _entries(block, parameters)
        else:
            out += [escape(line.strip()) for line in block]
        out.append("")
    return out


def _blocks(lines):
    block = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []


def _entries(block, parameters):
    """A definition list of "name : text" entries, of which several may share a line."""
    joined = []
    for line in block:
        begins = not line.startswith(" ") and ENTRY.match(line)
        if begins or not joined:
            joined.append(line.strip())
        else:
            joined[-1] += " " + line.strip()
    out = []

    def parted(match):
        known = match[2] or set(match[1].split(", ")) <= set(parameters)
        return f"\n{match[1]} : " if known else match[0]

    for text in joined:
        for part in WITHIN.sub(parted, text).split("\n"):
            match = ENTRY.match(part)
            if match:
                names = ", ".join(f"``{name}``" for name in match[1].split(", "))
                out += [names, f"    {escape(part[match.end() :])}"]
            else:
                out += [escape(part)]
    return out


def _parameters(obj):
    try:
        return list(inspect.signature(obj).parameters)
    except (TypeError, ValueError):
        return []


def setup(app):
    def change(app, what, name, obj, options, lines):
        lines[:] = convert(lines, _parameters(obj))

    app.connect("autodoc-process-docstring", change)
