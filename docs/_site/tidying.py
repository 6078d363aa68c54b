"""What docutils and napoleon make of docstrings, mended: no mail links for NDCG@10, no meanings set as types."""

from docutils import nodes
from sphinx import addnodes


def tidy(app, doctree):
    for link in list(doctree.findall(nodes.reference)):
        if link.get("refuri", "").startswith("mailto:"):
            link.replace_self(nodes.Text(link.astext()))
    for field in doctree.findall(nodes.field_body):
        for paragraph in field.findall(nodes.paragraph):
            if not isinstance(paragraph.parent, addnodes.desc_content):
                _plain_meaning(paragraph)


def _plain_meaning(paragraph):
    """ "**X** (*meaning*) – more" becomes "**X**: meaning. more", in plain letters."""
    parts = paragraph.children
    if len(parts) < 3 or not isinstance(parts[0], nodes.strong) or not parts[1].astext().startswith(" ("):
        return
    rest = [nodes.Text(part.astext()) if isinstance(part, nodes.emphasis) else part for part in parts[1:]]
    rest[0] = nodes.Text(": " + rest[0].astext()[2:])
    for place, part in enumerate(rest):
        if isinstance(part, nodes.Text) and ") – " in part:
            rest[place] = nodes.Text(part.replace(") – ", ". ", 1))
            break
    else:
        if isinstance(rest[-1], nodes.Text) and rest[-1].endswith(")"):
            rest[-1] = nodes.Text(rest[-1][:-1])
    paragraph.children = []
    paragraph.extend([parts[0], *rest])


def setup(app):
    app.connect("doctree-read", tidy)
