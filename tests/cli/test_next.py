"""Every `next:` line that a command prints is run: all calls of `print_next` are found in the source, and each is reached."""

from __future__ import annotations

import ast
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import hardsight.cli
import hardsight_papers.command
from hardsight import screen
from hardsight.explorer.review import Review, review_file
from hardsight.explorer.server import Server
from hardsight_papers.catalog import single_recipe

Place = tuple[str, int]  # a module of the command line, and the number of a call in it


def calls() -> dict[Place, range]:
    """Every call of print_next in the source, with its lines."""
    found: dict[Place, range] = {}
    for path in [*sorted(Path(hardsight.cli.__file__).parent.glob("*.py")), Path(hardsight_papers.command.__file__)]:
        named = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
        lines = [(node.lineno, node.end_lineno) for node in named if getattr(node.func, "id", None) == "print_next"]
        found |= {(path.stem, at): range(first, (last or first) + 1) for at, (first, last) in enumerate(sorted(lines))}
    return found


def digits_in_folders(folder: Path) -> None:
    """Forty pictures of four digits, in a folder for each."""
    bunch = load_digits(n_class=4)
    for at in range(40):
        (folder / f"digit {bunch.target[at]}").mkdir(parents=True, exist_ok=True)
        Image.fromarray((bunch.images[at] * 15).astype(np.uint8)).resize((28, 28)).save(
            folder / f"digit {bunch.target[at]}" / f"{at}.png"
        )


def digits_as_table(path: Path) -> None:
    """A wide table whose labels are words in a column of their own."""
    bunch = load_digits(n_class=4)
    names = [f"f{k}" for k in range(64)]
    lines = [",".join([*names, "species"])]
    lines += [",".join([*map(str, row), f"digit {k}"]) for row, k in zip(bunch.data[:120], bunch.target[:120], strict=True)]
    path.write_text("\n".join(lines))


def test_every_next_line_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any], undrawn: None) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    digits_in_folders(Path("photos"))
    digits_as_table(Path("df.csv"))
    places, waiting, met, shapes = calls(), list[list[str]](), set[Place](), set[Any]()
    print_next = screen.print_next

    def noted(*words: Any) -> None:
        print_next(*words)
        caller = sys._getframe(1)
        here = [at for at, lines in places.items() if at[0] == Path(caller.f_code.co_filename).stem and caller.f_lineno in lines]
        met.add(here[0])
        line = shlex.split(screen._shown.next or "")
        shape = here[0], line[1], *(word for word in line if word.startswith("-"))
        if shape not in shapes:
            shapes.add(shape)
            waiting.append(line)

    def marked_meanwhile(started: Server, browser: bool) -> None:
        """A person opens the page, marks the hardest sample, and stops the server."""
        display = started.page.display
        assert started.page.about()["by"] == display.by and display.path is not None
        Review(review_file(display.path), display.class_names).put("tab", display.ids[0].as_py(), "wrong label", 1)
        started.socket.close()

    monkeypatch.setattr(screen, "print_next", noted)
    monkeypatch.setattr(Server, "run", marked_meanwhile)
    train = ["train", "photos", "--model", "mnist_cnn", "--epochs", "1", "-o"]

    def run(*words: str) -> None:
        done = cli(*words)
        assert done.code == 0, (words, done.err)

    def follow() -> None:
        """Run what was said, and what that says, and so on; lines of one call that differ in more than names are each run."""
        while waiting:
            words = waiting.pop(0)[1:]
            words = [{"DATA": "photos", "MODEL": "mnist_cnn"}.get(word, word) for word in words]  # what only a person knows
            if words[0] == "train":
                shutil.rmtree(words[-1], ignore_errors=True)  # one of an earlier line
                words += ["--epochs", "1"]
            if words[0] == "explore":
                words += ["--no-browser", "--port", "0"]
            if words[0] == "reproduce" and "-o" not in words:  # it is there; another one takes a tenth of the time
                assert single_recipe(words[1]).id == words[1]
                words[1] = "slides/theory"
            run(*words)

    run("check", "df.csv", "--features", "f*", "--label", "species", "-o", "checked")
    run("clean", "df.csv", "--label", "species")
    follow()
    assert Path("labels.csv").read_text().splitlines()[1].endswith('"digit 1"')  # the first sample, a 0, was marked as a 1
    run(*train, "run")
    run("extract", "run", "photos", "-o", "kept")
    run("score", "kept")
    run("score", "df.csv", "--label", "species")
    run("clean", "kept")
    follow()
    Review(Path("kept/review.parquet"), [f"digit {k}" for k in range(4)]).put("tab", "digit 0/0.png", "wrong label", 1)
    for output in ("corrected", "labels.parquet"):
        run("clean", "kept", "--apply", "kept/review.parquet", "-o", output)
    follow()
    run(*train, "dynamics", "--no-snapshot")
    shutil.copytree("kept", "later")
    run("drift", "kept", "later", "-o", "drift.parquet")
    run("select", "kept", "--budget", "20", "--method", "coverage", "-o", "subset.parquet")
    run("reproduce")
    follow()
    assert met == set(places)
