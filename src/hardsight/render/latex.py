"""LaTeX: escaped text, and plain `tabular` tables that need no package."""

from __future__ import annotations

import re
from collections.abc import Sequence

ESCAPES = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "–": "--", "−": "$-$", "±": r"$\pm$", "→": r"$\to$", "×": r"$\times$", "≤": r"$\leq$", "…": r"\dots{}",
}  # fmt: skip
SPECIAL = re.compile("[" + re.escape("".join(ESCAPES)) + "]")


def escaped(text: str) -> str:
    r"""Text escaped for LaTeX.

    Example:
        >>> escaped("norm_in_class, 95 %")
        'norm\\_in\\_class, 95 \\%'
    """
    return SPECIAL.sub(lambda match: ESCAPES[match[0]], "".join(c for c in text if c.isprintable()))


def numbers(text: str) -> str:
    r"""Text escaped for LaTeX, its numbers as they are set: a minus instead of a hyphen, and powers of ten.

    Example:
        >>> numbers("-25.2 [-31.0, 1e-05]")
        '$-$25.2 [$-$31.0, $10^{-5}$]'
    """
    minus = re.sub(r"(?<![\w.-])-(?=[.\d])", "−", text)
    return re.sub(r"(?<![\w.])(\d[\d.]*)e([+-]\d+)(?!\w)", _power, escaped(minus))


def _power(number: re.Match[str]) -> str:
    times = "" if number[1] == "1" else rf"{number[1]} \times "
    return f"${times}10^{{{int(number[2])}}}$"


def tabular(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str, words: int = 1) -> str:
    """A table environment from cells that are already LaTeX; the first columns hold text, the others numbers."""
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\begin{{tabular}}{{{'l' * words}{'r' * (len(header) - words)}}}",
        r"\hline",
    ]
    lines += [_row(header), r"\hline", *map(_row, rows)]
    return "\n".join([*lines, r"\hline", r"\end{tabular}", r"\end{table}", ""])


def _row(cells: Sequence[str]) -> str:
    first, *others = cells
    guarded = f"{{}}{first}" if first.startswith("[") else first  # after \\, a bracket would be read as a length
    return " & ".join([guarded, *others]) + r" \\"
