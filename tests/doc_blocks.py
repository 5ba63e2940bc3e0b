"""The blocks of a docs page, and how to run them."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAPERS = [ROOT / "papers" / "README.md", *sorted((ROOT / "papers" / "docs").glob("*.md"))]
PAGES = [page for page in (README, *sorted((ROOT / "docs").glob("*.md")), *PAPERS) if page.is_file()]
BLOCK = re.compile(
    r"(?:<!-- skip: (?P<skip>.+?) -->\s*\n)?^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE
)


def doc_script(name: str) -> Any:
    """A script of docs/, or of papers/docs/, as a module."""
    path = next(folder / f"{name}.py" for folder in (ROOT / "docs", ROOT / "papers" / "docs") if (folder / f"{name}.py").exists())
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    skip: str | None
    line: int
    heads_section: bool  # whether a heading stands between it and the block before


def blocks(page: Path) -> Iterator[Block]:
    source = page.read_text(encoding="utf-8")
    before = 0
    for found in BLOCK.finditer(source):
        heading = re.search(r"^#", source[before : found.start()], re.MULTILINE) is not None
        before = found.end()
        yield Block(found["language"], found["text"], found["skip"], source[: found.start("text")].count("\n"), heading)


def _words(text: str) -> str:
    """A text with every number as 0 and single spaces; its lines stay apart."""
    lines = (" ".join(re.sub(r"[-+]?\d[\d,.]*(e-?\d+)?", "0", line).split()) for line in text.splitlines())
    return "\n".join(lines) + "\n"


def run_blocks(page: Path, cli: Callable[..., Any]) -> None:
    """The blocks of a page in order, here: Python in one namespace, `hardsight ...` lines with exit code 0.

    A text block after commands shows what they print: the same words; numbers may differ from machine to machine.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in blocks(page):
        if block.skip:
            printed = ""
            continue
        if block.language == "text" and printed and not block.heads_section:
            lines = [line for line in map(_words, block.text.splitlines()) if line.strip(" .─\n")]
            unsaid = [line for line in lines if line not in printed]
            assert not unsaid, f"{page.name}: line {block.line} shows what is not printed: {unsaid[0]}"
        printed = ""
        if block.language == "python":
            if re.search(r"^\s*(import|from) torch", block.text, re.MULTILINE):
                pytest.importorskip("torch")
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
        elif block.language in ("bash", "console"):
            for line in block.text.splitlines():
                words = shlex.split(line.removeprefix("$ "), comments=True)
                if words[:1] == ["hardsight"]:
                    if words[1] == "demo":
                        pytest.importorskip("torch")
                    done = cli(*words[1:])
                    assert done.code == 0, f"{page.name}: {line}\n{done.err}"
                    printed += _words(done.out)
