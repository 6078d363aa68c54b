"""Code blocks of pages are run when the site is built, and what they print is shown below them.

Blocks of a page run in order, in one namespace and in an empty folder, as `tests/test_docs.py` runs them. Lines that
start with ``$ hingerank`` are commands. Blocks of ``>>>`` lines show their answers already.
"""

import contextlib
import io
import os
import shlex
import tempfile
import textwrap
import warnings

from docutils import nodes
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
MOST_LINES = 40
WIDTH = 96  # characters of a line that a block shows beside both lists of contents


def run_blocks(app, doctree):
    """Put a block with the output after every block that prints."""
    if app.env.docname.startswith(("api/", "auto_examples/")):
        return
    blocks = [node for node in doctree.findall(nodes.literal_block) if node.get("language") in ("python", "console")]
    blocks = [node for node in blocks if "force" not in node]  # a directive {code-block} is to be read only
    if not any(node["language"] == "python" for node in blocks):
        return
    names = {"__name__": "page"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for node in blocks:
            try:
                said = _output(node, names)
            except Exception as error:
                LOGGER.warning("a block failed: %s: %s", type(error).__name__, error, location=node)
                return
            if said.strip():
                node.parent.insert(node.parent.index(node) + 1, _block(said))


def _output(node, names):
    text, said = node.astext(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        if node["language"] == "console":
            return "" if not text.startswith("$ ") else _commands(text, said)
        if ">>>" in text:
            import doctest

            doctest.DocTestRunner(verbose=False).run(
                doctest.DocTestParser().get_doctest(text, names, "page", None, 0), clear_globs=False, out=lambda _: None
            )
            return ""
        exec(compile(text, "page", "exec"), names)
    return "\n".join(_wrapped(line) for line in said.getvalue().splitlines())


def _wrapped(line):
    return line if len(line) <= WIDTH else "\n".join(textwrap.wrap(line, WIDTH, subsequent_indent="    "))


def _commands(text, said):
    from hingerank.cli import main

    os.environ["COLUMNS"] = str(WIDTH)
    for line in text.splitlines():
        if line.startswith("$ ") and main(shlex.split(line.removeprefix("$ "))[1:]) != 0:
            raise ValueError(line)
    return said.getvalue()


def _block(said):
    lines = said.rstrip().splitlines()
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"… {len(lines) - MOST_LINES} more lines"]
    text = "\n".join(line.rstrip() for line in lines).strip("\n")
    block = nodes.literal_block(text, text, classes=["output"])
    block["language"] = "text"
    return block


def setup(app):
    app.connect("doctree-read", run_blocks)
