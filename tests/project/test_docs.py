"""The docs are correct: every block runs, and every command and score matches the code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from doc_blocks import PAGES, README, ROOT, doc_script, run_blocks
from hardsight.cli import app
from undrawn import undrawn

FIGURES: set[str] = set()  # of all pages: each is drawn once


@pytest.mark.parametrize("page", [page for page in PAGES if page != README], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any]) -> None:
    """README blocks run with the demo in test_demo.py."""
    monkeypatch.chdir(tmp_path)
    with undrawn(once=FIGURES):
        run_blocks(page, cli)


def test_no_help_is_cut_short_or_shows_types() -> None:
    whole: Any = get_command(app)
    for name, command in whole.commands.items():
        assert not command.get_short_help_str(62).endswith("..."), name  # what a terminal of 80 columns has room for
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert not re.search(r"<(str|int|path|list|float)\b|\{[A-Z]|\[\[[A-Z]", page)
    assert "Usage: hardsight adapt [OPTIONS] SOURCE [TARGET]\n" in page and "correlate [OPTIONS] RUN...\n" in page


def test_every_command_is_under_one_purpose() -> None:
    from hardsight.cli.command_options import PURPOSES

    whole: Any = get_command(app)
    assert sorted(name for names in PURPOSES.values() for name in names) == sorted(whole.commands)


@pytest.mark.parametrize("name", ["cli", "scores", "which-score"])
def test_generated_pages_are_fresh(name: str) -> None:
    script, page = ROOT / "docs" / f"make_{name.replace('-', '_')}.py", ROOT / "docs" / f"{name}.md"
    assert page.read_text(encoding="utf-8") == doc_script(script.stem).page(), f"run: python docs/{script.name} > docs/{name}.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_pages_stay_short_enough_to_be_read() -> None:
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in (README, *(ROOT / "docs").glob("*.md"))}
    assert words.pop("README.md") < 900
    assert sum(words.values()) <= 45_000, sorted(words.items(), key=lambda page: -page[1])[:5]


REFERENCE = {  # pages that are looked things up in, not read from top to bottom
    "cli.md": "every option", "scores.md": "every score", "losses.md": "every loss", "files.md": "every file and column",
    "output.md": "every output format", "correlate.md": "every form of answers, test and option",
    "scale.md": "every cluster and store", "decisions.md": "why it is as it is", "releasing.md": "a list for maintainers",
}  # fmt: skip


def test_a_guide_is_read_in_a_sitting_and_says_what_comes_next() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        if page.name not in REFERENCE:
            text = page.read_text(encoding="utf-8")
            assert 400 <= len(text.split()) <= 1500, page.name
            assert text.rpartition("\n## ")[2].startswith(("Next\n", "What to do next\n")), page.name


def test_every_picture_is_shown_and_small() -> None:
    shown = {Path(name).name for page in PAGES for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"))}
    pictures = list((ROOT / "docs" / "images").iterdir())
    assert [picture.name for picture in pictures if picture.name not in shown or picture.stat().st_size > 300_000] == []
