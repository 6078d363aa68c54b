"""A model's score as an expression, for the languages whose `Words` say how they write numbers and choices."""

from collections.abc import Iterator, Sequence

from hingerank.export.forest import MISSING_LEFT, ZERO_IS_MISSING
from hingerank.export.forms import Affine, Form, Shapes, Trees
from hingerank.export.scalings import Words
from hingerank.features.curves import Curves


def score_expression(words: Words, form: Form, columns: dict[int, str]) -> str:
    """The score of a linear model, curves, surfaces or trees; columns: number -> expression of those it uses."""
    body = form.body
    if isinstance(body, Affine):
        terms = [f"{words.number(body.weights[j])} * {x}" for j, x in columns.items()]
        return total([words.number(body.offset), *terms])
    if isinstance(body, Trees):
        return total([words.number(body.start), *(_tree(words, body, root, columns) for root in body.roots.tolist())])
    assert isinstance(body, Shapes)
    curves = [_curve(words, body.curves, j, x) for j, x in columns.items()]
    return total([words.number(0.0), *curves, *_products(words, body, columns)])


def filled_expression(words: Words, form: Form, column: int, x: str) -> str:
    """A column as the model takes it, made of the feature x: filled if missing, or 1 if it is missing and else 0."""
    if form.filled is None:
        return x
    own = (form.filled.values[column], x) if column < form.n_features else (1.0, words.number(0.0))
    return words.choose(words.missing(x), words.number(own[0]), own[1])


def total(terms: Sequence[str]) -> str:
    """The sum of terms, bisected: engines limit the depth of expressions."""
    if len(terms) <= 8:
        return f"({' + '.join(terms)})"
    half = len(terms) // 2
    return f"({total(terms[:half])} + {total(terms[half:])})"


def _curve(words: Words, body: Curves, column: int, x: str) -> str:
    """The line of the segment that x is in, or those beyond the outermost knots."""
    number, (knots, heights) = words.number, body.of(column)
    slope = number(body.slopes[column])
    lines = [f"{number(heights[0])} + {slope} * ({x} - {number(knots[0])})"]
    for k in range(1, len(knots)):
        rise, length = number(heights[k] - heights[k - 1]), number(knots[k] - knots[k - 1])
        lines.append(f"{number(heights[k - 1])} + {rise} * (({x} - {number(knots[k - 1])}) / {length})")
    lines.append(f"{number(heights[-1])} + {slope} * ({x} - {number(knots[-1])})")
    return words.pieces(x, knots.tolist(), lines)


def _products(words: Words, body: Shapes, columns: dict[int, str]) -> Iterator[str]:
    """Products of two ramps."""
    for k, weight in enumerate(body.weights):
        ramps = []
        for j, begin, end in zip(body.columns[k].tolist(), body.begins[k], body.ends[k], strict=True):
            place = f"({columns[j]} - {words.number(begin)}) / {words.number(end - begin)}"
            ramps.append(words.pieces(columns[j], (begin, end), (words.number(0.0), place, words.number(1.0))))
        yield " * ".join((words.number(weight), *ramps))


def _tree(words: Words, body: Trees, node: int, columns: dict[int, str]) -> str:
    """Nested choices: a comparison with a missing value is not true, so these take the last branch."""
    if body.feature[node] < 0:
        return words.number(body.number[node])
    x, limit, first = columns[int(body.feature[node])], words.number(body.number[node]), int(body.child[node])
    left, right = _tree(words, body, first, columns), _tree(words, body, first + 1, columns)
    zero = f" AND {x} <> 0" if body.missing[node] & ZERO_IS_MISSING else ""  # in SQL; no other format has such trees
    if body.missing[node] & MISSING_LEFT:
        return words.choose(f"{x} > {limit}{zero}", right, left)
    return words.choose(f"{x} <= {limit}{zero}", left, right)
