"""What the paper says of norms: they follow imbalance and granularity of classes, and are worse than angles on unseen classes."""

from __future__ import annotations

import numpy as np

from hardsight.data import ImageData
from hardsight.paper.avh.curve_claims import Watched, watched
from hardsight.paper.avh.panels import DIGITS
from hardsight.paper.avh.trainings import by_frequency
from hardsight.paper.context import Context
from hardsight.paper.recipe import Outcome, Table, Value, claim, recipe
from hardsight.snapshot import Snapshot

RARE = (0, 2, 4, 6, 8)  # classes of which a fifth is kept
UNSEEN = ((7, 8, 9), (0, 1, 2), (3, 5, 6))  # classes left out, one training each


@recipe("avh/imbalance", "Norms follow the imbalance and the granularity of classes (observation 4)", needs="MNIST")
def imbalance(context: Context) -> Outcome:
    """Train with five rare classes, and with three classes merged; look at held-out norms and AVH by class."""
    written = context.handwriting(train=3000, test=1000)
    train, test = written.train, written.test
    assert train.labels is not None and test.labels is not None
    rank = np.array([int((train.labels[:row] == train.labels[row]).sum()) for row in range(len(train))])  # within its class
    kept = np.flatnonzero(~np.isin(train.labels, RARE) | (rank % 5 == 0))
    counts = np.bincount(train.labels[kept], minlength=10)
    even, uneven = (_by_class(context, written.model, data, test) for data in (train, train.take(kept)))
    ratio = {name: uneven[name] / even[name] for name in ("norm", "avh")}  # (10,) of the uneven training to the even one
    rare = np.isin(np.arange(10), RARE)
    rows: list[list[Value]] = [
        [str(k), int(counts[k]), float(even["norm"][k]), float(uneven["norm"][k]), float(even["avh"][k]), float(uneven["avh"][k])]
        for k in range(10)
    ]
    norm_gap, avh_gap = (float(ratio[name][~rare].mean() / ratio[name][rare].mean() - 1) for name in ("norm", "avh"))
    return Outcome(
        about=f"{written.name}, {written.model}; of the digits {', '.join(map(str, RARE))} a fifth is kept for "
        "training. Held-out means by class.",
        tables=[
            Table("By class", ("class", "samples", "norm, even", "norm, uneven", "AVH, even", "AVH, uneven"), rows, digits=4)
        ],
        claims=[
            claim(
                "The norm of features follows the imbalance of the training data.",
                rule="From the even to the uneven training, the norm of frequent classes grows by at least 5 % more "
                "than that of rare ones.",
                holds=norm_gap >= 0.05,
                found=f"By {100 * norm_gap:+.1f} % more; AVH by {100 * avh_gap:+.1f} %.",
            )
        ],
    )


def _by_class(context: Context, model: str, train: ImageData, test: ImageData) -> dict[str, np.ndarray]:
    """(10,) mean norm and AVH of held-out samples of each class."""
    from hardsight.scoring.job import score

    network = "lenet" if model == "mnist_cnn" else model
    trained = context.train(train, network, snapshot=False, **DIGITS)
    table = score(context.extract(trained.directory, test), scores=["norm", "avh"])
    labels = table["label"].to_numpy()
    return {name: np.array([table[name].to_numpy()[labels == k].mean() for k in range(10)]) for name in ("norm", "avh")}


@recipe("avh/open-set", "Unseen classes: AVC against the norm (observation 4)", needs="MNIST")
def open_set(context: Context) -> Outcome:
    """Leave three classes out of training; tell their samples from the others by a score without labels."""
    from hardsight.scoring.job import score
    from hardsight.stats.open_set import auroc

    written = context.handwriting(train=3000, test=1000)
    network = "lenet" if written.name == "MNIST" else written.model
    scores = {"avc_predicted": -1, "norm": -1, "predicted_confidence": -1, "max_logit": -1}  # low on unseen inputs
    rows: list[list[Value]] = []
    ahead = []
    for unseen in UNSEEN:
        known_train, known_test, other = (
            _classes(data, unseen, inside)
            for data, inside in ((written.train, False), (written.test, False), (written.test, True))
        )
        trained = context.train(known_train, network, snapshot=False, **DIGITS)
        tables = [score(context.extract(trained.directory, data), scores=list(scores)) for data in (known_test, other)]
        areas = {name: auroc(*(sign * table[name].to_numpy() for table in tables)) for name, sign in scores.items()}
        ahead.append(areas["avc_predicted"].low > areas["norm"].high)
        rows.append([", ".join(map(str, unseen)), *(f"{a.value:.3f} [{a.low:.3f}, {a.high:.3f}]" for a in areas.values())])
    return Outcome(
        about=f"{written.name}, {network} trained on seven digits; held-out samples of the other three are unseen.",
        tables=[Table("AUROC for unseen classes", ("unseen", "AVC", "norm", "confidence", "largest logit"), rows)],
        claims=[
            claim(
                "Without the norm, AVH is the better measure on unseen classes.",
                rule="DeLong's 95 % interval of AVC's AUROC lies above that of the norm for every choice of unseen classes.",
                holds=all(ahead),
                found=f"So in {sum(ahead)} of {len(ahead)}.",
            )
        ],
    )


def _classes(data: ImageData, unseen: tuple[int, ...], inside: bool) -> ImageData:
    """The samples of the unseen classes without labels, or all others with classes counted from 0."""
    from dataclasses import replace

    assert data.labels is not None
    rows = np.flatnonzero(np.isin(data.labels, unseen) == inside)
    part = data.take(rows)
    known = [k for k in range(10) if k not in unseen]
    labels = None if inside else np.array([known.index(label) for label in part.labels])  # type: ignore[union-attr]
    return replace(part, labels=labels, class_names=None if inside else [str(k) for k in known])


@recipe(
    "slides/discovery5",
    "Norm and AVH against people, epoch by epoch: which correlation is consistent?",
    needs="CIFAR-10 and CIFAR-10H",
)
def discovery_5(context: Context) -> Outcome:
    """Spearman of both with the level of hardness in every epoch of the trainings of Figure 4 (Discoveries 4 and 5)."""
    runs = watched(by_frequency(context))
    found = {run.training.network: _by_epoch(run) for run in runs}
    everything = np.concatenate(list(found.values()), axis=1)  # (2, epochs of all networks)
    avh, norm = everything
    rows: list[list[Value]] = [
        [network, *(float(value) for row in both for value in (row[0], row.min(), row.max(), row[-1]))]
        for network, both in found.items()
    ]
    header = ("network", *(f"{name}, {moment}" for name in ("AVH", "norm") for moment in ("first", "lowest", "highest", "last")))
    return Outcome(
        about=f"{runs[0].training.about}. Spearman with the level, above 0 where hard samples have a high AVH or a small norm.",
        tables=[Table("Spearman over epochs", header, rows)],
        claims=[
            claim(
                "AVH's correlation with people holds across models throughout training (discovery 4).",
                rule="Spearman's coefficient is above 0 in every epoch of every network.",
                holds=bool((avh > 0).all()),
                found=f"From {avh.min():+.3f} to {avh.max():+.3f}.",
            ),
            claim(
                "The norm's correlation with people is not consistent (discovery 5).",
                rule="Its sign changes over epochs and networks.",
                holds=bool(norm.min() < 0 < norm.max()),
                found=f"From {norm.min():+.3f} to {norm.max():+.3f}.",
            ),
        ],
    )


def _by_epoch(run: Watched) -> np.ndarray:
    """(2, epochs) Spearman of AVH and of the norm with the level of hardness, above 0 where the hard look hard."""
    from hardsight.files.dynamics import moments, number_column, read_moment
    from hardsight.stats.coefficients import spearman

    groups, values = run.training.groups(), []
    for _, path in moments(run.training.run):
        table = read_moment(path, ["id", "label", "avh", "norm"], run.training.split)
        level = groups.of(table)  # 0 is the hardest
        rows = level >= 0
        avh, norm = (number_column(table, name)[rows] for name in ("avh", "norm"))
        values.append([spearman(-avh, level[rows].astype(float)), spearman(norm, level[rows].astype(float))])
    return np.array(values).T


@recipe("avh/uncertainty", "AVH against aleatoric and epistemic uncertainty", needs="MNIST")
def uncertainty(context: Context) -> Outcome:
    """An ensemble of three: what its members expect to stay (aleatoric), and what they disagree about (epistemic)."""
    from scipy.special import softmax

    from hardsight.scoring.job import score
    from hardsight.stats.coefficients import spearman
    from hardsight.stats.uncertainty import pass_scores

    written = context.handwriting(train=3000, test=1000)
    network = "lenet" if written.name == "MNIST" else written.model
    members: list[Snapshot] = []
    for seed in range(context.seed, context.seed + 3):
        trained = context.train(written.train, network, snapshot=False, **{**DIGITS, "seed": seed})
        members.append(context.extract(trained.directory, written.test))
    probs = np.stack([softmax(np.asarray(each.head.logits(each.in_memory().values), np.float64), axis=1) for each in members])  # type: ignore[union-attr]
    found = pass_scores(probs)
    epistemic = found["passes_information"]
    aleatoric = found["passes_entropy"] - epistemic  # the mean entropy of a member
    avh = score(members[0], scores=["avh"])["avh"].to_numpy()
    with_aleatoric, with_epistemic = spearman(avh, aleatoric), spearman(avh, epistemic)
    return Outcome(
        about=f"{written.name}, three {network}s with different seeds, {len(avh)} held-out samples.",
        tables=[
            Table(
                "Spearman with AVH",
                ("uncertainty", "coefficient"),
                [["aleatoric", with_aleatoric], ["epistemic", with_epistemic]],
            )
        ],
        claims=[
            claim(
                "AVH is connected to aleatoric rather than to epistemic uncertainty.",
                rule="Spearman of AVH with the mean entropy of the members is higher than with their mutual information.",
                holds=with_aleatoric > with_epistemic,
                found=f"{with_aleatoric:.3f} against {with_epistemic:.3f}.",
            )
        ],
    )
