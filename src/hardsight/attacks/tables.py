"""What an attack says: how inputs are verified, a row per input and attack, a row per attack, detectors, and paths.

A verification score is low where something is wrong with an input, and made of its feature alone. The L-GM paper gives each loss
its own, with p the predicted class:

    softmax      z_p = w_p . x + b_p                    the logit
    center       -1/2 |x - center_p|^2                  the centers that the loss moved, saved in loss.safetensors
    GM, L-GM     -1/2 (x - mean_p)' S_p^-1 (x - mean_p) the head's own means

It prints the last two as exponentials, which round to 0 for the inputs of interest; their logarithms rank the same.
The likelihood is that of all models alike: log N(x; mean_p, S_p), of the head's Gaussians or of Gaussians that are fitted.
Detectors are scores that need no label; ROC curves and AUROC say how well they do.

A path is that of an attacked sample in angle and norm, as Figure 22 of the AVH paper draws it: gradient ascent on the loss of the
given class, in small steps. The paper sees one sample first shrink its norm and then turn away from its class;
`describe_paths` counts how many do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import to_numpy
from hardsight.head import Head
from hardsight.scores.likelihood import DiagonalGaussians, head_variance
from hardsight.scoring.score import score
from hardsight.stats import wilson
from hardsight.stats.open_set import Auroc, auroc

VARIANCE_FLOOR = 1e-9  # of the mean variance: a dimension that never varies must not divide by zero


def fitted_gaussians(features: np.ndarray, labels: np.ndarray, num_classes: int) -> DiagonalGaussians:
    """Means of the given classes, and one variance per dimension for all of them; a class without samples has no mean."""
    features = features.astype(np.float64)  # (n, d)
    count = np.bincount(labels, minlength=num_classes)  # (c,)
    total = np.zeros((num_classes, features.shape[1]))
    np.add.at(total, labels, features)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / count[:, None]  # (c, d)
    variance = ((features - mean[labels]) ** 2).mean(0)  # (d,)
    return DiagonalGaussians(mean, np.maximum(variance, VARIANCE_FLOOR * (variance.mean() or 1.0)))


@dataclass(frozen=True)
class VerificationScore:
    """The score of a loss, and the Gaussians that the likelihood is taken of.

    Attributes:
        head: what predicts.
        name: what the score is, in words.
        around: what the score is a distance to; None where it is the logit.
        gaussians: the head's own or fitted ones.
    """

    head: Head
    name: str
    around: DiagonalGaussians | None
    gaussians: DiagonalGaussians

    def score(self, features: np.ndarray, predicted: np.ndarray, max_logit: np.ndarray) -> np.ndarray:
        """(n,) verification score: low is abnormal."""
        return max_logit if self.around is None else -self.around.distance(features, predicted)

    def likelihood(self, features: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """(n,) log-likelihood under the Gaussian of the predicted class."""
        return self.gaussians.log_density(features, predicted)


def verification(
    head: Head, centers: np.ndarray | None, reference: tuple[np.ndarray, np.ndarray] | None, clean: tuple[np.ndarray, np.ndarray]
) -> VerificationScore:
    """How this model's inputs are verified.

    Args:
        centers: of the center loss, if it was trained with it.
        reference: features and labels of the training data, where they are at hand: Gaussians are fitted to them.
        clean: features and labels of the clean inputs, which take their place where they are not.
    """
    if head.kind == "gaussian":
        own = DiagonalGaussians(to_numpy(head.weight).astype(np.float64), head_variance(head))
        return VerificationScore(head, "-distance to the mean of the predicted class", own, own)
    fitted = fitted_gaussians(*(clean if reference is None else reference), head.num_classes)
    if centers is None:
        return VerificationScore(head, "logit of the predicted class", None, fitted)
    around = DiagonalGaussians(centers, np.ones(centers.shape[1]))
    return VerificationScore(head, "-distance to the center of the predicted class", around, fitted)


MEDIANS = ("avh", "norm", "confidence", "likelihood", "score")
SCORES = ("avh", "own_angle", "nearest_angle", "norm", "confidence", "predicted_confidence", "avc_predicted", "max_logit")


def attack_table(samples: pa.Table, features: np.ndarray, verification: VerificationScore) -> pa.Table:
    """attack.parquet: id, label, method, epsilon, predicted, correct, and what the features say.

    Args:
        samples: id, base_id, label, degradation (the method, null for clean) and level (epsilon) of the rows.
        features: (n, d), one per row.
    """
    labels = samples.column("label").to_numpy().astype(np.int64)
    scored = score(features, verification.head, labels, scores=list(SCORES))
    predicted = scored.column("predicted").to_numpy().astype(np.int64)
    max_logit = scored.column("max_logit").to_numpy().astype(np.float64)
    columns: dict[str, Any] = {
        "id": samples.column("base_id"),
        "label": pa.array(labels),
        "method": pc.fill_null(samples.column("degradation"), "clean"),
        "epsilon": pc.fill_null(samples.column("level"), 0.0),
        "predicted": pa.array(predicted),
        "correct": pa.array(predicted == labels),
        **{name: scored.column(name) for name in SCORES if name != "max_logit"},
        "likelihood": pa.array(verification.likelihood(features, predicted)),
        "score": pa.array(verification.score(features, predicted, max_logit)),
    }
    table = pa.table(columns)
    method, epsilon = table.column("method").to_numpy().astype(str), table.column("epsilon").to_numpy()
    order = np.lexsort((epsilon, method, method != "clean"))  # clean inputs first, then the attacks; each as it was read
    return table.take(order).combine_chunks()


def epsilon_table(table: pa.Table) -> pa.Table:
    """One row per attack, clean first: error with a 95 % interval, and the medians of the scores: likelihoods have long tails."""
    clean = table.filter(pc.equal(table.column("method"), "clean"))
    first = {name: clean.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
    rows = [_row("clean", 0.0, first)]
    rows += [_row(attack.method, attack.epsilon, attack.attacked) for attack in attacks_of(table)]
    return pa.Table.from_pylist(rows)


def _row(method: str, epsilon: float, columns: dict[str, np.ndarray]) -> dict[str, Any]:
    wrong, n = int((~columns["correct"].astype(bool)).sum()), len(columns["correct"])
    low, high = wilson(wrong, n)
    row: dict[str, Any] = {"method": method, "epsilon": epsilon, "n": n, "error": wrong / n, "low": low, "high": high}
    for name in MEDIANS:
        values = columns[name].astype(np.float64)
        row[name] = float(np.median(values[np.isfinite(values)])) if np.isfinite(values).any() else None
    return row


# ---- attacked inputs beside clean ones ----

DETECTORS = ("score", "likelihood", "predicted_confidence", "avc_predicted", "norm")  # low is taken for attacked
MOST_POINTS = 400  # of a curve


class Attacked(NamedTuple):
    """The rows of one attack beside those of the clean inputs, in the same order."""

    method: str
    epsilon: float
    clean: dict[str, np.ndarray]
    attacked: dict[str, np.ndarray]


def attacks_of(table: pa.Table) -> Iterator[Attacked]:
    """Each method and epsilon of attack.parquet, with the clean rows. All have the same inputs in the same order."""
    columns = {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
    clean = columns["method"] == "clean"
    pairs = dict.fromkeys(zip(columns["method"][~clean].tolist(), columns["epsilon"][~clean].tolist(), strict=True))
    for method, epsilon in pairs:
        rows = (columns["method"] == method) & (columns["epsilon"] == epsilon)
        yield Attacked(
            method, epsilon, {name: x[clean] for name, x in columns.items()}, {name: x[rows] for name, x in columns.items()}
        )


def detection_table(table: pa.Table) -> pa.Table:
    """One row per attack, kind of attacked inputs and detector: AUROC with an interval that counts each image once.

    `inputs` is "all", or "fooled" for those that were classified rightly before the attack and wrongly after it.
    """
    rows = []
    for attack in attacks_of(table):
        fooled = attack.clean["correct"].astype(bool) & ~attack.attacked["correct"].astype(bool)
        for inputs, chosen in (("all", np.ones(len(fooled), bool)), ("fooled", fooled)):
            for name in DETECTORS:
                area = detected(attack.clean[name], attack.attacked[name], chosen)
                values = (None, None, None) if area is None else (area.value, area.low, area.high)
                rows.append((attack.method, attack.epsilon, inputs, name, *values, 0 if area is None else area.unseen))
    names = ("method", "epsilon", "inputs", "detector", "auroc", "low", "high", "attacked")
    kinds: list[Any] = [pa.string(), pa.float64(), pa.string(), pa.string(), *[pa.float64()] * 3, pa.int64()]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)


def detected(clean: np.ndarray, attacked: np.ndarray, chosen: np.ndarray) -> Auroc | None:
    """How well low values mark attacked inputs, (n,) in pairs, among the chosen ones; None with fewer than two of them."""
    finite = np.isfinite(clean)
    rows = np.flatnonzero(chosen & finite & np.isfinite(attacked))
    if len(rows) < 2:
        return None
    place = np.cumsum(finite) - 1  # of each input among those whose clean value is finite
    return auroc(-clean[finite], -attacked[rows], made_from=place[rows])


def roc_curve(clean: np.ndarray, attacked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of clean inputs that are rejected and share of attacked ones that are, as a threshold on the score rises.

    Example:
        >>> [share.round(2).tolist() for share in roc_curve(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.5]))]
        [[0.0, 0.0, 0.33, 0.33, 0.67, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0, 1.0]]
    """
    clean, attacked = (np.sort(x[np.isfinite(x)]) for x in (clean, attacked))
    thresholds = np.unique(np.concatenate([clean, attacked]))
    if len(thresholds) > MOST_POINTS:
        thresholds = thresholds[np.linspace(0, len(thresholds) - 1, MOST_POINTS).astype(int)]
    shares = [np.searchsorted(x, thresholds, side="right") / max(1, len(x)) for x in (clean, attacked)]
    rejected_clean, rejected_attacked = (np.concatenate([[0.0], share]) for share in shares)
    return rejected_clean, rejected_attacked


# ---- paths ----

PATH_COLUMNS = pa.schema(
    [("id", pa.string()), ("label", pa.int64()), ("step", pa.int64()), ("epsilon", pa.float64()), ("predicted", pa.int64()),
     ("own_angle", pa.float64()), ("other_angle", pa.float64()), ("avh", pa.float64()), ("norm", pa.float64())]
)  # fmt: skip


def path_table(ids: list[str], labels: np.ndarray, features: np.ndarray, head: Head, epsilon: float) -> pa.Table:
    """One row per sample and step.

    `other_angle` is the angle to the class that the sample ends in, or to the nearest other one if it stays in its own.

    Args:
        ids, labels: of n samples.
        features: (n, steps + 1, d), the clean ones first.
        epsilon: how far a pixel may have moved at the end.
    """
    n, count, d = features.shape
    flat = features.reshape(-1, d).astype(np.float64)
    angles = to_numpy(head.angles(flat)).reshape(n, count, -1)  # (n, steps + 1, c)
    predicted = to_numpy(head.logits(flat)).reshape(n, count, -1).argmax(2)  # (n, steps + 1)
    norm = np.linalg.norm(to_numpy(head.around_origin(flat)), axis=1).reshape(n, count)
    end = angles[:, -1].copy()  # (n, c)
    end[np.arange(n), labels] = np.inf
    other = np.where(predicted[:, -1] != labels, predicted[:, -1], end.argmin(1))  # (n,)
    steps = np.arange(count)
    own_angle = angles[np.arange(n)[:, None], steps, labels[:, None]]
    columns: dict[str, Any] = {
        "id": np.repeat(ids, count),
        "label": np.repeat(labels, count),
        "step": np.tile(steps, n),
        "epsilon": np.tile(epsilon * steps / max(1, count - 1), n),
        "predicted": predicted.ravel(),
        "own_angle": own_angle.ravel(),
        "other_angle": angles[np.arange(n)[:, None], steps, other[:, None]].ravel(),
        "avh": (own_angle / angles.sum(2)).ravel(),
        "norm": norm.ravel(),
    }
    return pa.table({name: pa.array(column) for name, column in columns.items()}).cast(PATH_COLUMNS)


def paths(table: pa.Table) -> dict[str, np.ndarray]:
    """The columns of trajectories.parquet as (samples, steps + 1) arrays."""
    count = int(table.column("step").to_numpy().max()) + 1
    return {name: table.column(name).to_numpy(zero_copy_only=False).reshape(-1, count) for name in table.column_names}


def describe_paths(table: pa.Table) -> dict[str, Any]:
    """What the paths have in common, over the samples that change class.

    Returns:
        followed, switched: numbers of samples.
        norm_at_switch: median norm where the prediction changes, as a share of the clean one.
        least_norm: median of the least norm on the path, as a share of the clean one.
        own_angle, own_angle_at_switch, own_angle_at_end: medians in degrees.
        shrunk_at_switch: share of samples whose norm is below the clean one where the prediction changes.
        shrink_first: share whose norm has done half of its fall before the angle to the own class has done half of its rise.
    """
    if len(table) == 0:
        return {"followed": 0, "switched": 0}
    path = paths(table)
    away = path["predicted"] != path["label"]  # (n, steps + 1)
    switched = np.flatnonzero(away.any(1) & ~away[:, 0])
    summary: dict[str, Any] = {"followed": len(away), "switched": len(switched)}
    if len(switched) == 0:
        return summary
    norm, angle = path["norm"][switched], np.degrees(path["own_angle"][switched])  # (m, steps + 1)
    switch = away[switched].argmax(1)  # (m,) the step of the switch
    rows = np.arange(len(switch))
    fall, rise = norm[:, :1] - norm.min(1, keepdims=True), angle.max(1, keepdims=True) - angle[:, :1]
    half_fall = (norm <= norm[:, :1] - fall / 2).argmax(1)
    half_rise = (angle >= angle[:, :1] + rise / 2).argmax(1)
    return summary | {
        "norm_at_switch": float(np.median(norm[rows, switch] / norm[:, 0])),
        "least_norm": float(np.median(norm.min(1) / norm[:, 0])),
        "own_angle": float(np.median(angle[:, 0])),
        "own_angle_at_switch": float(np.median(angle[rows, switch])),
        "own_angle_at_end": float(np.median(angle[:, -1])),
        "shrunk_at_switch": float((norm[rows, switch] < norm[:, 0]).mean()),
        "shrink_first": float(((half_fall < half_rise) & (fall[:, 0] > 0)).mean()),
    }
