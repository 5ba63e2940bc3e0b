"""Scores that need more than one plain training: additional networks are trained on the same labels.

model_agreement    two more networks with other seeds
vog                the weights of every epoch of one of them
aldr_lambda        a training with the ALDR loss
prediction_depth   the features of every stage of the first network
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pictures import ImageSet, train
from benchmarks.scored import Scores
from hardsight import score
from hardsight.scores import SCORES
from hardsight.scores.depth import prediction_depth
from hardsight.scores.ensembles import model_agreement
from hardsight.scores.gradients import within_class
from hardsight.scoring.checkpoints import gradient_variance, kept_epochs
from hardsight.scoring.fitted_head import head_probs
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot

OTHER_SEEDS = (1000, 2000)  # added to the seed of a case; no case uses these
MODELS, KEPT, OTHER_LOSS, LAYERS = "three models", "kept epochs", "ALDR loss", "layers"
BATCH = 256  # images at a time


def further_scores(pictures: ImageSet, labels: np.ndarray, run: Path, seed: int, progress: Progress) -> Scores:
    """Scores of the images that the network in `run` was trained on with (n,) labels; more networks are trained next to it."""
    others = [run.with_name(f"{run.name}-{number}") for number in range(1, len(OTHER_SEEDS) + 1)]
    for directory, further in zip(others, OTHER_SEEDS, strict=True):
        train(pictures, labels, directory, seed + further, keep_epochs=directory == others[0], progress=progress)
    aldr = run.with_name(f"{run.name}-aldr")
    train(pictures, labels, aldr, seed, loss="aldr", progress=progress)
    inputs = pictures.inputs(pictures.images)
    probs = [probabilities(directory) for directory in (run, *others)]  # (n, c) each
    column = score(aldr, scores=["aldr_lambda"])
    scores = {
        (MODELS, "model_agreement"): model_agreement(probs),
        (KEPT, "vog"): _variance_of_gradients(others[0], inputs, labels),
        (OTHER_LOSS, "aldr_lambda"): column.column("aldr_lambda").to_numpy()[_in_order(column.column("id").to_pylist())],
        (LAYERS, "prediction_depth"): prediction_depth(stages(run, inputs), labels, probs[0].argmax(axis=1)),
    }
    return {(what, name): values if SCORES[name].hard == "high" else -values for (what, name), values in scores.items()}


def _in_order(ids: list[Any]) -> np.ndarray:
    """(n,) rows in image order; ids are row numbers."""
    return np.argsort(np.asarray(ids, dtype=np.int64))


def probabilities(run: Path) -> np.ndarray:
    """(n, c) probabilities in image order."""
    snapshot = Snapshot.load(run)
    assert snapshot.head is not None
    order = _in_order(snapshot.columns(["id"]).column("id").to_pylist())
    return head_probs(snapshot.head, np.asarray(snapshot.in_memory().values))[order]


def _variance_of_gradients(run: Path, inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n,) VoG over the kept epochs of a run, from (n, channels, h, w)."""
    from hardsight.models.trained import open_trained

    networks = [open_trained(run / "model", weights).module.eval() for weights in kept_epochs(run)]
    parts = [slice(start, start + BATCH) for start in range(0, len(labels), BATCH)]
    return within_class(np.concatenate([gradient_variance(networks, inputs[part], labels[part]) for part in parts]), labels)


def stages(run: Path, inputs: np.ndarray) -> list[np.ndarray]:
    """(n, d) outputs of every ReLU of a network, first to last, averaged over image positions."""
    import torch

    from hardsight.models.trained import open_trained

    network = open_trained(run / "model", run / "model" / "model.safetensors").module.eval()
    seen: list[list[np.ndarray]] = []

    def keep(_: Any, __: Any, output: torch.Tensor) -> None:
        seen[-1].append((output.flatten(2).mean(2) if output.ndim > 2 else output).numpy())

    for module in network.modules():
        if isinstance(module, torch.nn.ReLU):
            module.register_forward_hook(keep)
    with torch.inference_mode():
        for start in range(0, len(inputs), BATCH):
            seen.append([])
            network(torch.from_numpy(np.ascontiguousarray(inputs[start : start + BATCH])))
    return [np.concatenate(stage) for stage in zip(*seen, strict=True)]
