"""Commands that the docs only show: those of skipped blocks, of sentences and of notebooks have a command and its options."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from doc_blocks import PAGES, ROOT, blocks
from hardsight.cli import app
from hardsight.cli.command_options import UsageError

COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))


def skipped_commands(page: Path) -> Iterator[str]:
    """The `hardsight` lines of blocks that no test runs."""
    for block in blocks(page):
        if block.skip and block.language in ("bash", "console"):
            for line in block.text.replace("\\\n", " ").splitlines():
                yield from re.findall(r"(?:^|&& )(hardsight .+?)(?= && | \| |  #|$)", line.strip())


def said_commands(page: Path) -> Iterator[str]:
    """`hardsight ...` within sentences; words may be left out."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")
    for code in re.findall(r"`(hardsight [a-z][^`]*)`", text):
        yield " ".join(code.split())


def options_of(name: str) -> dict[str, Any]:
    """The options of a command, by each of their flags."""
    return {flag: option for option in COMMANDS[name].params for flag in option.opts if flag.startswith("-")}


def check_choices(words: list[str]) -> None:
    """Values of options that have a list of them are in it; TOOL stands for any."""
    known = options_of(words[0])
    for flag, value in zip(words, words[1:], strict=False):
        choices = re.fullmatch(r"\[([^\[\]]+\|[^\[\]]+)\]", (flag in known and known[flag].metavar) or "")
        if choices and not value.isupper():
            assert set(value.split(",")) <= set(choices[1].split("|")), f"{flag} {value}"


@pytest.mark.parametrize("page", [page for page in PAGES if any(skipped_commands(page))], ids=lambda page: page.name)
def test_commands_that_are_not_run_can_be_parsed(page: Path) -> None:
    for line in skipped_commands(page):
        name, *words = shlex.split(line)[1:]
        try:
            COMMANDS[name].make_context(name, list(words))
        except UsageError as error:
            pytest.fail(f"{line}: {error.format_message()}")
        check_choices([name, *words])


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda page: page.name)
def test_commands_in_sentences_exist(page: Path) -> None:
    for line in said_commands(page):
        name, *words = shlex.split(line)[1:]
        assert name in COMMANDS, line
        unknown = {word.partition("=")[0] for word in words if word.startswith("-")} - options_of(name).keys()
        assert not unknown, line
        check_choices([name, *words])


def test_a_command_that_does_not_exist_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- skip: no data -->\n```bash\nhardsight score RUN --fast && hardsight clean run | jq  # all\n```\n")
    assert list(skipped_commands(page)) == ["hardsight score RUN --fast", "hardsight clean run"]
    with pytest.raises(pytest.fail.Exception, match="--fast"):
        test_commands_that_are_not_run_can_be_parsed(page)
    page.write_text("`hardsight correlate RUN\n--as hardness`, `hardsight export RUN --to TOOL`")
    with pytest.raises(AssertionError, match="--as"):
        test_commands_in_sentences_exist(page)
    page.write_text("`hardsight export RUN --to huggingface`")
    with pytest.raises(AssertionError, match="--to huggingface"):
        test_commands_in_sentences_exist(page)
