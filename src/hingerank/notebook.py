"""Values that show themselves in a notebook: small HTML tables, every text escaped; and figures."""

from collections.abc import Sequence
from html import escape
from numbers import Integral, Real
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def html_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with a title; numbers stand to the right, an empty row of names leaves the head out.

    >>> html_table("<data>", ["", ""], [["rows", 3]]).count("&lt;data&gt;")
    1
    """
    head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    thead = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
    return f"<div><b>{escape(title)}</b><table>{thead}<tbody>{body}</tbody></table></div>"


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> "Figure":
    """An empty matplotlib Figure; width and height are in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'hingerank[report]'") from None
    return Figure(figsize=(width, height), layout=layout)


def _cell(item: object) -> str:
    side = "right" if isinstance(item, Real) and not isinstance(item, bool) else "left"
    return f'<td style="text-align:{side}">{escape(shown(item))}</td>'


def shown(item: object) -> str:
    """A value for people: four digits of a number, thousands apart, - for nothing.

    >>> [shown(item) for item in (1234, 0.25, 1e-5, None, "rbf", {"C": 1, "loss": "hinge"}, [0.5, 2])]
    ['1,234', '0.2500', '1e-05', '-', 'rbf', 'C 1, loss hinge', '0.5000, 2']
    """
    if item is None or isinstance(item, bool | str):
        return "-" if item is None else str(item)
    if isinstance(item, Integral):
        return f"{int(item):,}"
    if isinstance(item, Real):
        number = float(item)
        return f"{number:.6g}" if number and (abs(number) < 1e-3 or abs(number) >= 1e5) else f"{number:.4f}"
    if isinstance(item, dict):
        return ", ".join(f"{name} {shown(value)}" for name, value in item.items()) or "-"
    if isinstance(item, list | tuple):
        return ", ".join(map(shown, item)) or "-"
    return str(item)
