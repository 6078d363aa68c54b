"""How large the package is, room by room: files, lines, what the lines are, functions, and lines with `Any`.

    python benchmarks/sizes.py [FOLDER ...]

FOLDER: the package's folder, src/hingerank of this checkout by default; those of other checkouts beside it show what
has grown. Code is what is neither a docstring, a comment, an import nor blank; `Any` counts lines of code and imports.
"""

import argparse
import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / "src" / "hingerank"
COLUMNS = ["files", "lines", "code", "imports", "docstrings", "functions", "Any"]
BLANK = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def spanned(nodes: list[ast.stmt]) -> set[int]:
    return {line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def count(text: str) -> dict[str, int]:
    """The columns of one file."""
    nodes = list(ast.walk(ast.parse(text)))
    texts = spanned([node.body[0] for node in nodes if isinstance(node, DOCUMENTED) and ast.get_docstring(node)])
    imports = spanned([node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)])
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in BLANK]
    used = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - texts
    lines = text.splitlines()
    return {
        "files": 1,
        "lines": len(lines),
        "code": len(used - imports),
        "imports": len(imports),
        "docstrings": len(texts),
        "functions": sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes),
        "Any": sum(bool(re.search(r"\bAny\b", lines[number - 1])) for number in used),
    }


def sizes(package: Path) -> dict[str, dict[str, int]]:
    """The columns of every room, of the files beside the rooms, and of all."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COLUMNS, 0))
    for path in sorted(package.rglob("*.py")):
        below = path.relative_to(package).parts
        counted = count(path.read_text(encoding="utf-8"))
        for room in ("all", below[0] if len(below) > 1 else "beside the rooms"):
            for column, value in counted.items():
                found[room][column] += value
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[HERE], metavar="FOLDER")
    for folder in parser.parse_args().folders:
        print(f"{'':16s}" + "".join(f"{column:>11s}" for column in COLUMNS))
        for room, values in sorted(sizes(folder).items(), key=lambda pair: (pair[0] == "all", pair[0])):
            print(f"{room:16s}" + "".join(f"{values[column]:11,d}" for column in COLUMNS))


if __name__ == "__main__":
    main()
