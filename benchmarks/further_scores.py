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

from benchmarks.pictures import ImageSet, open_network, train
from benchmarks.scored import Scores, opened, probabilities
from hardsight import SCORES, score
from hardsight.scores import model_agreement, prediction_depth, vog
from hardsight.screen import Progress

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
    probs = [predictions(directory) for directory in (run, *others)]  # (n, c) each
    lambdas = score(aldr, scores=["aldr_lambda"]).column("aldr_lambda").to_numpy()
    scores = {
        (MODELS, "model_agreement"): model_agreement(probs),
        (KEPT, "vog"): vog(gradients(others[0], inputs, labels), labels),
        (OTHER_LOSS, "aldr_lambda"): lambdas[np.argsort(opened(aldr)[2])],
        (LAYERS, "prediction_depth"): prediction_depth(stages(run, inputs), labels, probs[0].argmax(axis=1)),
    }
    return {(what, name): values if SCORES[name].hard == "high" else -values for (what, name), values in scores.items()}


def predictions(run: Path) -> np.ndarray:
    """(n, c) probabilities in image order."""
    snapshot, features, ids = opened(run)
    return probabilities(snapshot.head, features)[np.argsort(ids)]


def gradients(run: Path, inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(e, n, ...) derivatives of the given class's logit in the pixels, for the kept epochs of a run."""
    import torch

    files = sorted((run / "epochs").glob("epoch=*.safetensors"))
    result = np.empty((len(files), *inputs.shape), np.float32)
    for epoch, file in enumerate(files):
        network = open_network(run, weights=file).eval()
        for start in range(0, len(labels), BATCH):
            rows = slice(start, start + BATCH)
            x = torch.from_numpy(inputs[rows]).requires_grad_()
            logits = network(x).gather(1, torch.from_numpy(labels[rows])[:, None])
            result[epoch, rows] = torch.autograd.grad(logits.sum(), x)[0]
    return result


def stages(run: Path, inputs: np.ndarray) -> list[np.ndarray]:
    """(n, d) outputs of every ReLU of a network, first to last, averaged over image positions."""
    import torch

    network = open_network(run).eval()
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
