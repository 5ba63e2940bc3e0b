"""A complete run of an earlier version is recognized when its command is repeated.

The arguments are those that hardsight recorded before options were defined once: some keys were not there yet, and an
option that was not given could be written as [], {} or "None".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardsight import RunError, adapt, generalize, training
from hardsight.cli import app
from hardsight.domains.opening import Features
from hardsight.files.run import Run

TRAIN = {
    "loss": "softmax", "loss_options": {}, "epochs": 1, "batch_size": 128, "optimizer": "sgd", "lr": 0.01, "head_rate": 1.0,
    "momentum": 0.9, "nesterov": False, "weight_decay": 0.0005, "schedule": "constant", "milestones": [], "gamma": 0.1,
    "warmup": 0.0, "clip": None, "augment": "none", "every": None, "seed": 0, "precision": "float32", "snapshot": True,
    "strict": False, "degradations": [], "at_start": False, "factory": "hardsight.models.sphere_mlp:sphere_mlp",
    "model_arguments": {"num_features": 4, "num_classes": 3}, "preprocessing": None, "device": "cpu", "processes": 1,
}  # fmt: skip
ADAPT = {
    "methods": ["cbst"], "seeds": [0], "rounds": 1, "epochs": 1, "source_epochs": 1, "portion": "0.2:0.05:0.5",
    "source_portion": "1:0:1", "standardize": "domain", "hidden": 8, "balance": True, "relabel": False, "ema": 0.0,
    "rule": "classification", "group_by": "predicted", "lrent": 0.25, "mrkld": 0.01, "optimizer": "sgd", "lr": 0.03,
    "source_lr": 0.03, "momentum": 0.9, "weight_decay": 0.05, "schedule": "constant", "batch_size": 256, "augment": "none",
    "device": "cpu", "pairs": ["source-to-target"], "model": None, "model_options": {}, "size": None,
}  # fmt: skip
GENERALIZE = {
    "losses": ["softmax", "avh"], "loss_options": {"softmax": {}, "avh": {}}, "scales": [], "seeds": [0], "epochs": 1,
    "batch_size": 128, "selection": "validation", "held_out": 0.2, "standardize": True, "hidden": 8, "lr": 0.01,
    "momentum": 0.9, "weight_decay": 0.0005, "augment": "none", "device": "cpu", "domains": ["a", "b", "c"], "size": None,
    "model": None, "model_options": {},
}  # fmt: skip
CORRELATE: dict[str, Any] = {
    "human": None, "against": "level", "hard": None, "scores": None, "bins": None, "level": 0.95, "replicates": 20,
    "permutations": 20, "splits": 100, "seed": 0, "split": None, "limit": None, "allow_missing": False, "class_names": None,
    "by": None, "top": 12, "epochs": False, "images": None, "superclasses": "None", "passes": [], "unseen": "None",
}  # fmt: skip


def features() -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(90) % 3
    return (np.eye(3)[labels] * 3 + np.random.default_rng(0).normal(size=(90, 3))).astype(np.float32), labels


def run_train(folder: Path, **options: Any) -> None:
    values, labels = features()
    np.savez(folder / "data.npz", features=values, labels=labels)
    model_options = {"num_features": 4}
    training.run(folder / "data.npz", "sphere_mlp", folder / "run", watch={}, epochs=1, model_options=model_options, device="cpu",
          **options)  # fmt: skip


def run_adapt(folder: Path, **options: Any) -> None:
    settings = {"methods": "cbst", "rounds": 1, "epochs": 1, "source_epochs": 1, "hidden": 8, "device": "cpu"}
    adapt.run(features(), features(), folder / "run", **settings, **options)


def run_generalize(folder: Path, **options: Any) -> None:
    values, labels = features()
    domains = np.array(["a", "b", "c"])[np.arange(90) // 30]
    data = Features(values, labels, [str(row) for row in range(90)], None, domains)
    generalize.run(data, folder / "run", losses="softmax,avh", epochs=1, hidden=8, device="cpu", **options)


def age(run: Path, arguments: dict[str, Any], *, complete: bool = True) -> None:
    """Rewrite start.json as the earlier version had it."""
    start = json.loads((run / "start.json").read_text())
    assert start["arguments"] != arguments
    (run / "start.json").write_text(json.dumps({**start, "arguments": arguments}))
    if not complete:
        (run / "run.json").unlink()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("command", "arguments"),
    [(run_train, TRAIN), (run_adapt, ADAPT), (run_generalize, GENERALIZE)],
    ids=["train", "adapt", "generalize"],
)
def test_an_old_run_is_recognized_if_complete_and_refused_if_not(
    command: Callable[..., None], arguments: dict[str, Any], tmp_path: Path
) -> None:
    command(tmp_path)
    age(tmp_path / "run", arguments)
    before = (tmp_path / "run" / "run.json").read_bytes()
    said: list[str] = []
    command(tmp_path, say=said.append)
    assert any("is complete already" in sentence for sentence in said)
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    with pytest.raises(RunError, match=r"other arguments: clip was not given and is 2\.0\. Use"):  # and nothing beside it
        command(tmp_path, clip=2.0)
    age(tmp_path / "run", {**arguments, "added": True})
    with pytest.raises(RunError, match="added was on and is not given"):
        command(tmp_path)
    age(tmp_path / "run", arguments, complete=False)  # interrupted
    with pytest.raises(RunError, match="was started by an earlier version of hardsight and is not complete"):
        command(tmp_path)


def test_an_old_correlation_is_recognized(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    table, rng = tmp_path / "scores.csv", np.random.default_rng(0)
    rows = [f"{number},{number % 3},{rng.random()},{rng.random()}" for number in range(40)]
    table.write_text("\n".join(["id,label,avh,level", *rows]))
    words = ["correlate", str(table), "--against", "level", "--replicates", "20", "--permutations", "20", "--scores", "avh"]
    words += ["-o", str(tmp_path / "run")]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.output
    age(tmp_path / "run", {**CORRELATE, "scores": ["avh"], "runs": [str(table)]})
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 0, again.output


def test_false_is_an_answer(tmp_path: Path) -> None:
    Run(tmp_path / "run", "hardsight demo", {"nesterov": None, "scales": [], "seed": 0}, {})
    with pytest.raises(RunError, match="nesterov was not given and is off"):
        Run(tmp_path / "run", "hardsight demo", {"nesterov": False, "scales": [], "seed": 0}, {})
    with pytest.raises(RunError, match=r"scales was not given and is 0"):
        Run(tmp_path / "run", "hardsight demo", {"nesterov": None, "scales": 0, "seed": 0}, {})
