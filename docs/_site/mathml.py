"""Equations as MathML, which browsers draw themselves: no script, no font and no network."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)


def _formula(node, as_block):
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        LOGGER.warning("cannot read the equation %r: %s", node.astext(), error, location=node)
        return node.astext()


def visit_math(self, node):
    self.body.append(f'<span class="formula">{_formula(node, False)}</span>')
    raise nodes.SkipNode


def visit_math_block(self, node):
    self.body.append(f'<div class="equation">{_formula(node, True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
