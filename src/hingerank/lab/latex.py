"""Text, numbers and marks as LaTeX has them."""

import math

MARKS = {"▲": r"$^{\blacktriangle}$", "▼": r"$^{\blacktriangledown}$"}  # of the package amssymb


def latex_text(text: str) -> str:
    r"""Text with LaTeX's special characters made harmless.

    >>> print(latex_text("50%_a"))
    50\%\_a
    """
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    special |= {c: "\\" + c for c in "&%$#_{}"}
    special |= {c: f"{{{c}}}" for c in "[]*"}  # else options of the row before
    return "".join(special.get(c, c) for c in text if c.isprintable())


def latex_number(value: float, bold: bool = False, signed: bool = False) -> str:
    """Four decimals with a minus sign of mathematics, or a dash where there is no number."""
    if not math.isfinite(value):
        return "--"
    text = f"{value:+.4f}" if signed else f"{value:.4f}"
    text = f"${text}$" if text[0] in "+-" else text
    return rf"\textbf{{{text}}}" if bold else text
