"""Pieces of a self-contained HTML page: headings, tables, figures. Text from data is escaped here and nowhere else."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Cell = str | tuple[str, str]  # text, or text and the name of its style: yes, no, quiet
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem }
h1 { margin-bottom: .2rem } h2 { margin: 2rem 0 .3rem; font-size: 1.25rem }
.wide { overflow-x: auto; background: linear-gradient(to left, Canvas 1rem, transparent) local right / 2rem 100% no-repeat,
  linear-gradient(to left, #8888, transparent) right / .8rem 100% no-repeat } /* a shadow where there is more to scroll to */
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; margin: .4rem 0 1rem }
td, th { padding: .22rem .6rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap }
th { font-weight: 600; vertical-align: bottom } .word { text-align: left; white-space: normal; max-width: 20rem }
.quiet { color: #777 } .yes { color: #0072b2; font-weight: 600 } .no { color: #d55e00; font-weight: 600 }
figure { margin: .5rem 0; display: inline-block; max-width: 100% }
figure img { max-width: 100%; background: #fff; border-radius: 4px }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(28rem, 1fr)); gap: 1rem }
.strip { display: flex; flex-wrap: wrap; gap: .6rem; margin: .4rem 0 1rem }
.strip figure { width: 5.3rem; margin: 0; font-size: 12px; line-height: 1.3; overflow-wrap: anywhere }
pre { overflow-x: auto; background: #8881; padding: .5rem .8rem; border-radius: 4px }
.strip img { width: 100%; display: block; margin-bottom: .2rem } .tiny { image-rendering: pixelated }
details { border: 1px solid #8884; border-radius: 6px; padding: .4rem 1rem; margin: .6rem 0 }
summary { cursor: pointer; font-weight: 600 }
@media (max-width: 600px) { /* words in figures stay readable: they scroll sideways */
  figure { overflow-x: auto } figure > img { max-width: none; width: 640px } .strip img { width: 100% }
  td, th { padding: .22rem .4rem } table { font-size: 13px }
}
"""


def page(title: str, sentence: str, *parts: str, style: str = "") -> str:
    """The whole file; `style` is further CSS."""
    head = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{escaped(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n'
    )
    body = "\n".join([f"<h1>{escaped(title)}</h1>", paragraph(sentence), *(part for part in parts if part)])
    return f"{head}<body>\n{body}\n</body>\n</html>\n"


def heading(text: str) -> str:
    """A section heading."""
    return f"<h2>{escaped(text)}</h2>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph, with a CSS class if `kind` is set."""
    return f'<p class="{kind}">{escaped(text)}</p>' if kind else f"<p>{escaped(text)}</p>"


def as_printed(lines: Sequence[str]) -> str:
    """Preformatted lines, as in a terminal."""
    return f"<pre>{escaped(chr(10).join(lines))}</pre>"


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]], *, words: int = 1) -> str:
    """A table whose first columns hold `words`."""
    lines = ["<tr>" + "".join(_cell("th", name, at < words) for at, name in enumerate(header))]
    lines += ["<tr>" + "".join(_cell("td", cell, at < words) for at, cell in enumerate(row)) for row in rows]
    return '<div class="wide"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _cell(tag: str, cell: Cell, is_word: bool) -> str:
    text, kind = (cell, "word" if is_word else "") if isinstance(cell, str) else cell
    return f'<{tag} class="{kind}">{escaped(text)}' if kind else f"<{tag}>{escaped(text)}"


def figures(paths: Sequence[Path], *, wide: bool = False) -> str:
    """The PNG files among these: side by side where there is room, or each on its own line."""
    shown = [drawn(path.read_bytes(), path.stem) for path in paths if path.suffix == ".png"]
    return f'<div class="{"" if wide else "figures"}">{"".join(shown)}</div>' if shown else ""


def captioned(path: Path, caption: str) -> str:
    """A PNG file with a caption below it."""
    return drawn(path.read_bytes(), caption, f"<figcaption>{escaped(caption)}</figcaption>")


def drawn(png: bytes, title: str, below: str = "") -> str:
    """A PNG image, with HTML below it."""
    return f'<figure><img alt="{escaped(title)}" src="data:image/png;base64,{_base64(png)}">{below}</figure>'


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def strip(pictures: Sequence[tuple[bytes, str, bool]]) -> str:
    """WebP pictures side by side, each with its caption; tiny ones keep their pixels sharp."""
    shown = [
        f'<figure><img class="{"tiny" if tiny else ""}" alt="" src="data:image/webp;base64,{_base64(image)}">'
        f"{escaped(caption)}</figure>"
        for image, caption, tiny in pictures
    ]
    return f'<div class="strip">{"".join(shown)}</div>' if shown else ""


def folded(summary: str, *parts: str) -> str:
    """Parts that a click on the summary opens."""
    return "\n".join([f"<details><summary>{escaped(summary)}</summary>", *parts, "</details>"])


def settings(start: Mapping[str, Any]) -> str:
    """How it was made, from a run's start.json: what decides the result, and with which versions."""
    rows = [(name.replace("_", " "), words(value)) for name, value in start["arguments"].items()]
    libraries = ", ".join(f"{name} {number}" for name, number in start["versions"].items())
    return folded("How it was made", table(("setting", "value"), rows, words=2), paragraph(libraries, "quiet"))


def again(*commands: Any) -> str:
    """How to do it again: command lines with the options that were used; nothing where Python called a function instead."""
    lines = [str(line) for line in commands if str(line).startswith("hardsight ")]
    return f"{heading('How to do it again')}\n{as_printed(lines)}" if lines else ""


def words(value: Any) -> str:
    """A setting's value as readable text; a dash where there is none."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {words(item)}" for name, item in value.items() if item not in ({}, None)) or "–"
    if isinstance(value, (list, tuple)):
        return ", ".join(words(item) for item in value) or "–"
    return "–" if value is None else ("no", "yes")[value] if isinstance(value, bool) else str(value)


def escaped(text: str) -> str:
    """Text with HTML characters escaped."""
    return html.escape(str(text))
