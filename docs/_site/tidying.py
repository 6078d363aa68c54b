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
    """ "**X** (*meaning*) – more" becomes "**X**: meaning. More" of plain words."""
    parts = paragraph.children
    if len(parts) < 4 or not isinstance(parts[0], nodes.strong) or parts[1].astext() != " (":
        return
    end = next((k for k, part in enumerate(parts) if k > 1 and isinstance(part, nodes.Text) and part[0] == ")"), None)
    if end is None:
        return
    inside = [nodes.Text(part.astext()) if isinstance(part, nodes.emphasis) else part for part in parts[2:end]]
    rest = parts[end].astext()[1:]
    new = [parts[0], nodes.Text(": "), *inside]
    stop = "" if "".join(part.astext() for part in inside).endswith((".", ":", "?")) else "."
    if rest.startswith(" –"):
        new.append(nodes.Text(stop + rest[2:]))
    elif rest:
        new.append(nodes.Text(rest))
    paragraph.children = []
    paragraph.extend([*new, *parts[end + 1 :]])


def setup(app):
    app.connect("doctree-read", tidy)
