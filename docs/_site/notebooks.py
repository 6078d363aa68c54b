"""Examples as notebooks:  python docs/_site/notebooks.py  writes examples/shop.ipynb from examples/plot_shop.py."""

import json
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = {"shop.ipynb": "plot_shop.py"}


def notebook(script: Path) -> str:
    """The notebook of an example: its text as Markdown, its blocks as cells."""
    from sphinx_gallery.gen_gallery import DEFAULT_GALLERY_CONF
    from sphinx_gallery.notebook import jupyter_notebook
    from sphinx_gallery.py_source_parser import split_code_and_text_blocks

    _, blocks = split_code_and_text_blocks(str(script))
    content = jupyter_notebook(blocks, dict(DEFAULT_GALLERY_CONF), str(script.parent))
    content["metadata"].pop("language_info", None)  # names the version of Python here
    for number, cell in enumerate(content["cells"]):
        cell["id"] = f"cell-{number}"
    content["nbformat_minor"] = 5
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, script in NOTEBOOKS.items():
        (EXAMPLES / name).write_text(notebook(EXAMPLES / script), "utf-8")
