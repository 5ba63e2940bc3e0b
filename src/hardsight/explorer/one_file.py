"""The page as one self-contained file: page.html with its style, scripts and packed data, under a policy that allows no more.

A report is such a file with its data inside; a notebook shows it in a frame and answers its requests (widget.py).

Numbers are stored in 16 bits between their lowest and highest value, and deflated; js/embedded.js unpacks them. The scripts
are the files of the page, each in its own scope.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import zlib
from importlib.resources import files
from typing import Any

import numpy as np

from hardsight.explorer.columns import Column

NONE, STEPS = 65535, 65534  # of a number in 16 bits: the code for no value, and the steps from the lowest to the highest


def packed_column(column: Column, rows: np.ndarray) -> dict[str, Any]:
    """The given rows of a column: codes as they are, numbers in 16 bits."""
    values = column.values[rows]
    if column.names is not None:
        return {"packed": packed(values.astype(values.dtype.newbyteorder("<")).tobytes())}
    low, high = (end or 0.0 for end in column.ends)
    step = (high - low) / STEPS or 1.0
    with np.errstate(invalid="ignore"):
        steps = np.where(np.isfinite(values), np.rint((values.astype(np.float64) - low) / step), NONE)
    return {"packed": packed(steps.astype("<u2").tobytes()), "low": low, "step": step}


def packed(content: bytes) -> str:
    """Bytes deflated, as base64."""
    return base64_text(zlib.compress(content, 9))


def base64_text(content: bytes) -> str:
    """Bytes as base64."""
    return base64.b64encode(content).decode()


def one_file(data: dict[str, Any] | None) -> str:
    """The page with `data` in it, self-contained: it makes no requests. Without data, whoever shows it answers them."""
    here = files("hardsight.explorer")
    html, style, script = (here / "page.html").read_text("utf-8"), (here / "page.css").read_text("utf-8"), one_script()
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    block = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    replacements = {
        '<link rel="icon" href="icon.svg" type="image/svg+xml">\n': '<link rel="icon" href="data:,">\n',
        '<link rel="stylesheet" href="page.css">\n': f"<style>{style}</style>\n",
        '<script type="module" src="js/main.js"></script>\n': "",
        '<meta charset="utf-8">\n': f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        "</body>\n": f'<script type="application/json" id="data">{block}</script>\n'
        f'<script type="module">{script}</script>\n</body>\n',
    }
    for old, new in replacements.items():
        assert html.count(old) == 1, f"page.html no longer holds {old!r}, which the report replaces"
        html = html.replace(old, new)
    return html


def _hash(content: str) -> str:
    return f"'sha256-{base64_text(hashlib.sha256(content.encode()).digest())}'"


IMPORT = re.compile(r'^import \{([^}]+)\} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


@functools.cache
def one_script() -> str:
    """The modules of the page as one script: each is a function that returns its exports, after those that it imports."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        source = (files("hardsight.explorer") / "js" / f"{name}.js").read_text("utf-8")
        for _, other in IMPORT.findall(source):
            add(other)
        exported = ", ".join(EXPORT.findall(source))
        body = IMPORT.sub(lambda match: f"const {{{match[1]}}} = module_{match[2]};\n", EXPORT.sub("", source))
        done[name] = f"const module_{name} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"

    add("main")
    script = "".join(done.values())
    assert "</script" not in script and not re.search(r"^(import|export)\b", script, re.MULTILINE)
    return script
