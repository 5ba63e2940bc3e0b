"""A wrong input is refused before torch is loaded or anything is trained, in one line, and nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hardsight.errors import MissingExtra, RunError, require_installed
from hardsight.files.run import Run, check_run_directory

FEATURES = ["features.npz:a", "features.npz:b"]
REFUSED: dict[str, tuple[list[str], str]] = {
    "extract, weights": (["extract", "timm:resnet18", "photos", "--weights", "no.pt"], "there is no weights file no.pt"),
    "extract, damaged weights": (["extract", "timm:resnet18", "photos", "--weights", "bad.safetensors"], "as safetensors"),
    "extract, data": (["extract", "timm:resnet18", "nothing"], "got 'nothing': there is none"),
    "extract, no file of a table": (["extract", "timm:resnet18", "moved.csv"], "none of the 1 files named exists below"),
    "extract, ids": (
        ["extract", "timm:resnet18", "photos", "--labels-from", "labels.csv"],
        "whose ids look like 'cat/0.png'; its own look like 'bird/7.png'",
    ),
    "extract, degradation": (["extract", "timm:resnet18", "photos", "--degrade", "fog=1"], "fog"),
    "train, weights": (["train", "photos", "--model", "timm:resnet18", "--weights", "no.pt"], "there is no weights file no.pt"),
    "train, data": (["train", "nothing", "--model", "lenet"], "got 'nothing': there is none"),
    "train, no file of a table": (["train", "moved.csv", "--model", "lenet"], "none of the 1 files named exists below"),
    "train, loss": (["train", "photos", "--model", "lenet", "--loss", "sofmax"], "Did you mean softmax?"),
    "train, model": (["train", "photos", "--model", "lenett"], "lenett is not a network to train"),
    "train, no teacher": (["train", "photos", "--model", "lenet", "--loss", "dual_head"], "needs a teacher"),
    "train, teacher": (["train", "photos", "--model", "lenet", "--loss", "dual_head", "--teacher", "nobody"], "nobody"),
    "train, watched data": (["train", "photos", "--model", "lenet", "--watch", "test=nothing"], "got 'nothing': there is none"),
    "adapt, weights": (["adapt", "photos", "photos", "--model", "lenet", "--weights", "no.pt"], "there is no weights file no.pt"),
    "adapt, data": (["adapt", "features.npz:a", "nothing"], "got 'nothing': there is none"),
    "adapt, images": (["adapt", *FEATURES, "--images", "nothing"], "got 'nothing': there is none"),
    "adapt, ids of images": (
        ["adapt", *FEATURES, "--images", "photos"],
        "photos: no image has the id of a target sample; its ids look like 'cat/0.png', the samples' like '20'",
    ),
    "adapt, model": (["adapt", "photos", "photos"], "images need a model"),
    "adapt, unknown model": (["adapt", "photos", "photos", "--model", "lenett"], "lenett is not a network to train"),
    "generalize, weights": (["generalize", "photos", "--model", "lenet", "--weights", "no.pt"], "there is no weights file no.pt"),
    "generalize, data": (["generalize", "nothing"], "got 'nothing': there is none"),
    "generalize, loss": (["generalize", "features.npz", "--losses", "softmax,drm+ahv"], "Did you mean avh?"),
    "generalize, model": (["generalize", "domains", "--model", "cnn11"], "cnn11 is not a network to train"),
    "generalize, domains": (["generalize", "photos", "--model", "lenet"], "takes three or more"),
    "generalize, one domain": (["generalize", "one.npz"], "the data's domain column has a."),
    "generalize, a domain of one class": (["generalize", "one_class.npz"], "the domain c has samples of one class only, 1:"),
    "generalize, no class in common": (["generalize", "apart.npz"], "no class of the domain c (2, 3) is in any other domain"),
    "generalize, lists": (["generalize", "features.npz", "--lists", "nothing"], "there is no folder nothing of lists"),
}
OUTPUTS = {
    "file": "letter.txt is a file",
    "letter.txt/x": "letter.txt is a file",
    "full": "full is not empty and not a hardsight run (it holds letter.txt)",
    "other": "other holds a run with other command: was 'another command' and is 'hardsight ",
}
COMMANDS = {
    "extract": ["extract", "timm:resnet18", "photos"],
    "train": ["train", "photos", "--model", "lenet"],
    "adapt": ["adapt", *FEATURES],
    "generalize": ["generalize", "features.npz"],
    "demo": ["demo"],
}
# Each command in turn, as the shell would start it; then whether any of them loaded torch.
SCRIPT = """
import contextlib, io, json, sys
from hardsight.cli import main
said = []
for words in json.load(sys.stdin):
    sys.argv, err = ["hardsight", *words], io.StringIO()
    with contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code
    said.append([code, err.getvalue(), "torch" in sys.modules])
print("said:" + json.dumps(said))
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for row in range(4):
        path = tmp_path / "photos" / ("cat", "dog")[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (row, 0, 0)).save(path)
    for row in range(12):
        path = tmp_path / "domains" / "abc"[row % 3] / ("cat", "dog")[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (row, 0, 0)).save(path)
    rng = np.random.default_rng(0)
    domain = np.repeat(["a", "b", "c"], 20)
    np.savez(tmp_path / "features.npz", features=rng.normal(size=(60, 4)), labels=np.arange(60) % 2, domain=domain)
    values, labels, last = rng.normal(size=(60, 4)), np.arange(60) % 2, domain == "c"
    np.savez(tmp_path / "one.npz", features=values, labels=labels, domain=np.repeat("a", 60))
    np.savez(tmp_path / "one_class.npz", features=values, labels=np.where(last, 1, labels), domain=domain)
    np.savez(tmp_path / "apart.npz", features=values, labels=labels + 2 * last, domain=domain)
    (tmp_path / "bad.safetensors").write_bytes(b"no tensors at all")
    (tmp_path / "labels.csv").write_text("id,label\nbird/7.png,bird\n")
    (tmp_path / "moved.csv").write_text("path,label\ncat/0.png,cat\n")
    (tmp_path / "letter.txt").write_text("precious")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("precious")
    Run(tmp_path / "other", "another command", {}, {})
    return tmp_path


def everything(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_before_torch_is_loaded(here: Path) -> None:
    cases = {name: ([*words, "-o", "run"], message) for name, (words, message) in REFUSED.items()}
    for output, message in OUTPUTS.items():
        place = "letter.txt" if output == "file" else output
        cases |= {f"{name}, {output}": ([*words, "-o", place], message) for name, words in COMMANDS.items()}
    before = everything(here)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps([words for words, _ in cases.values()]), cwd=here,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said: list[Any] = json.loads(done.stdout.rpartition("said:")[2])
    for (name, (_, message)), (code, error, torch_loaded) in zip(cases.items(), said, strict=True):
        assert code == 2 and message in error and error.count("\n") == 1, (name, code, error)
        assert not torch_loaded, name
    assert everything(here) == before


def test_a_directory_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    with pytest.raises(RunError, match="is not yours to write to. Give another -o"):
        check_run_directory(tmp_path / "run", "a command")


def test_what_is_not_installed_is_said_first() -> None:
    with pytest.raises(MissingExtra, match=r"a thing needs no_such_library: pip install 'hardsight\[torch\]'"):
        require_installed("no_such_library", extra="torch", purpose="a thing")
