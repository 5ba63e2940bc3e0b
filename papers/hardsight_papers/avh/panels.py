"""Networks beside people on the same images: what Tables 1, 2, 6 to 9 and Figures 5, 16 to 19 are computed from.

With --data: ImageNet images with votes, and CIFAR-10 with CIFAR-10H. Without: digits, where the level of degradation stands in
for people, as in the paper's appendix B. At scale paper: the paper's four networks on ImageNet's validation images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight import Snapshot, correlate, score
from hardsight.data import ImageData, open_data
from hardsight.stats import selection_frequency
from hardsight_papers.arrays import open_labeled, read_counts
from hardsight_papers.avh import imagenet
from hardsight_papers.context import Context

SCORES = ("avh", "confidence", "norm_in_class", "angular_gap", "avh_nearest")
WORDS = {
    "avh": "AVH",
    "confidence": "model confidence",
    "norm_in_class": "norm within its class",
    "angular_gap": "angular gap",
    "avh_nearest": "AVH against the nearest class alone",
}
CONTRAST, NOISE = "contrast=0.1,0.2,0.3,0.6,1.0", "noise=0.4,0.3,0.2,0.1,0.0"  # the levels of appendix B
DEGRADED = {"ImageNet": 200, "CIFAR-10": 500}  # images, each at five levels
REPLICATES = {"replicates": 200, "permutations": 20, "splits": 10}
DIGITS = {"epochs": 20, "batch_size": 32, "optimizer": "adamw", "lr": 2e-3, "weight_decay": 0.0}
Row = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """Scores of one or several networks on images of which people's answers, or levels of degradation, are known."""

    name: str
    tables: dict[str, pa.Table]  # by network, the weakest first; all have the same rows
    target: np.ndarray  # (n,) selection frequency, or level
    by_people: bool
    answers: np.ndarray | None = None  # (n,) people per image, where it is known

    @property
    def axis(self) -> str:
        """What the target is, for figures."""
        return "share of people who choose the label" if self.by_people else "level"

    @property
    def best(self) -> str:
        """The most accurate network."""
        return max(self.tables, key=lambda name: accuracy(self.tables[name]))


def accuracy(table: pa.Table) -> float:
    """Share of samples predicted as labeled."""
    return float(np.mean(table["label"].to_numpy() == table["predicted"].to_numpy()))


def panels(context: Context) -> list[Panel]:
    """Every panel that the data allow."""
    if context.scale == "paper":
        from hardsight_papers.avh.full_imagenet import with_people

        return [with_people(context)]
    judged = [*imagenet_panels(context), *cifar_panels(context)]
    return judged or [degraded_digits(context, degradation) for degradation in (CONTRAST, NOISE)]


def selection(shown: Sequence[Panel]) -> str:
    """Which images the people's answers are of, in words; what stands in for people where there are none."""
    if not shown[0].by_people:
        return "No people here: the level of degradation stands in for them. Give --data for people's answers."
    words = "Coefficients are absolute values, as printed; a minus marks agreement in the wrong direction."
    return f"{words} {imagenet.SELECTION}" if any(panel.name.startswith("ImageNet, ") for panel in shown) else words


def imagenet_panels(context: Context) -> list[Panel]:
    """ImageNet twice: the images that were put to a vote, and all of them with the others counted as chosen by everybody."""
    if not imagenet.has_imagenet(context):
        return []
    path = context.data.require("imagenet_votes", "this recipe")
    votes = imagenet.read_votes(path)
    tables = {name: scored(context, snapshot) for name, snapshot in imagenet.snapshots(context).items()}
    rows = imagenet.voted_rows(path, votes.ids, [str(id) for id in next(iter(tables.values()))["id"].to_pylist()])
    frequency, contested = votes.frequency[rows], votes.contested[rows]
    some = {name: table.filter(pa.array(contested)) for name, table in tables.items()}
    answers = np.full(len(frequency), imagenet.PEOPLE)
    return [
        Panel(f"ImageNet, the {contested.sum():,} contested images", some, frequency[contested], True, answers[contested]),
        Panel(f"ImageNet, all {len(frequency):,} images", tables, frequency, True, answers),
    ]


def cifar_panels(context: Context) -> list[Panel]:
    """CIFAR-10's test images with about 51 answers each, seen by two ResNets."""
    if not context.data.has("cifar10", "cifar10_people", "cifar10_resnet20", "cifar10_resnet32"):
        return []
    _, counts = cifar_with_people(context)
    tables = {f"ResNet-{depth}": scored(context, cifar_snapshot(context, depth)) for depth in (20, 32)}
    first = next(iter(tables.values()))
    rows = np.array([int(id) for id in first["id"].to_pylist()])
    frequency = selection_frequency(counts[rows], first["label"].to_numpy())
    return [Panel("CIFAR-10H, 10,000 test images", tables, frequency, True)]


def cifar_with_people(context: Context) -> tuple[ImageData, np.ndarray]:
    """CIFAR-10's test images, and (n, 10) people's answers about them."""
    data = open_labeled(context.data.require("cifar10", "this recipe"))
    return data, read_counts(context.data.require("cifar10_people", "this recipe"), len(data), 10)


def cifar_snapshot(context: Context, depth: int, images: str = "cifar10", **settings: Any) -> Snapshot:
    """What a ResNet saw of CIFAR-10's test images, or of others."""
    weights = context.data.require(f"cifar10_resnet{depth}", "this recipe")
    network = f"hardsight.models.networks:cifar_resnet{depth}"
    path = context.data.require(images, "this recipe")
    settings = {"weights": weights, "num_classes": 10, "split": "test", "scaling": "imagenet", **settings}
    return context.extract(network, path, **settings)


def degraded_digits(context: Context, degradation: str) -> Panel:
    """Held-out digits, each at five levels."""
    snapshot = digits_snapshot(context, degradation)
    return by_level(context, f"Digits, five levels of {degradation.partition('=')[0]}", {"DigitsCNN": snapshot})


def degraded_panels(context: Context, degradation: str) -> list[Panel]:
    """Images at five levels: of ImageNet by the smallest network, of CIFAR-10 by two ResNets; else digits."""
    if context.scale == "paper":
        from hardsight_papers.avh.full_imagenet import degraded

        return [degraded(context, degradation)]
    shown: dict[str, dict[str, Snapshot]] = {}
    options: dict[str, Any] = {"degradations": (degradation,)}
    if imagenet.has_imagenet(context):
        k = imagenet.networks()[0]
        shown["ImageNet"] = {f"EfficientNet-Lite{k}": imagenet.snapshot(context, k, limit=DEGRADED["ImageNet"], **options)}
    if context.data.has("cifar10", "cifar10_resnet20", "cifar10_resnet32"):
        few = {"limit": DEGRADED["CIFAR-10"], **options}
        shown["CIFAR-10"] = {f"ResNet-{depth}": cifar_snapshot(context, depth, **few) for depth in (20, 32)}
    names = {images: f"{DEGRADED[images]} {images} images, five levels of {degradation.partition('=')[0]}" for images in shown}
    by_images = [by_level(context, names[images], snapshots) for images, snapshots in shown.items()]
    return by_images or [degraded_digits(context, degradation)]


def by_level(context: Context, name: str, snapshots: Mapping[str, Snapshot]) -> Panel:
    """What networks saw of the same degraded images, whose level stands in for people."""
    level = next(iter(snapshots.values())).columns(["level"])["level"].to_numpy()
    return Panel(name, {network: scored(context, snapshot) for network, snapshot in snapshots.items()}, level, False)


def digits_snapshot(context: Context, degradation: str | None = None) -> Snapshot:
    """What a small CNN saw of held-out digits, degraded if asked for."""
    train, test = open_data("digits:train"), open_data("digits:test")
    trained = context.train(train, "DigitsCNN", watch={"test": test}, **DIGITS)
    return context.extract(trained.run, test, **({} if degradation is None else {"degradations": (degradation,)}))


def scored(context: Context, snapshot: Snapshot, scores: tuple[str, ...] = SCORES) -> pa.Table:
    """The scores of a snapshot, with base_id, degradation and level where it has them; computed once."""

    def make() -> pa.Table:
        table = score(snapshot, scores=[*scores, "norm"]).table
        known = [name for name in ("base_id", "degradation", "level") if name in snapshot.column_names]
        columns = snapshot.columns(known) if known else pa.table({})
        for name in known:
            table = table.append_column(name, columns[name])
        return table.combine_chunks()

    context.say(f"scoring {snapshot.name}")
    return context.cache.table("scores", {"snapshot": str(snapshot.name), "scores": scores}, make)


def compared(context: Context, panel: Panel) -> dict[str, list[Row]]:
    """`hardsight.correlate` for every network of a panel: its tables as rows, computed once."""

    def make() -> dict[str, list[Row]]:
        options: dict[str, Any] = {"scores": SCORES, **REPLICATES, "seed": context.seed}
        progress = context.progress(f"correlating: {panel.name}")
        if panel.by_people:
            ids = next(iter(panel.tables.values()))["id"].to_pylist()
            human: Any = {"id": ids, "frequency": panel.target.tolist()}
            if panel.answers is not None:
                human["answers"] = panel.answers.tolist()
            correlations = correlate(panel.tables, human, progress=progress, **options)
        else:
            correlations = correlate(panel.tables, against="level", progress=progress, **options)
        tables = correlations.tables()
        return {name: tables[name].to_pylist() for name in ("table1", "pairs", "hypotheses", "models")}

    ids = {name: len(table) for name, table in panel.tables.items()}
    key: dict[str, Any] = {"panel": panel.name, "rows": ids, "target": panel.target.tolist(), "scores": SCORES}
    key |= {"seed": context.seed, **REPLICATES}
    key["avh"] = [float(table["avh"].to_numpy().sum()) for table in panel.tables.values()]
    return context.cache.rows("correlate", key, make)


def total(rows: list[Row], network: str, score: str) -> Row:
    """The row of `table1` with Spearman's coefficient of one network and score over all samples."""
    wanted = {"model": network, "score": score, "kind": "spearman", "bin": "all"}
    return next(row for row in rows if wanted.items() <= row.items())


def pair(rows: list[Row], network: str, kind: str = "spearman") -> Row:
    """The row of `pairs` that compares AVH and confidence, turned so that AVH comes first."""
    wanted = {"avh", "confidence"}
    row = next(r for r in rows if r["model"] == network and r["kind"] == kind and {r["first"], r["second"]} == wanted)
    if row["first"] == "avh":
        return row
    turned = {"r_first": row["r_second"], "r_second": row["r_first"], "difference": -row["difference"]}
    for name in ("independent_z", "williams_t", "steiger_z", "meng_z"):
        turned[name] = -row[name]
    ends = {"trusted_low": -row["trusted_high"], "trusted_high": -row["trusted_low"]}
    return {**row, "first": "avh", "second": "confidence", **turned, **ends}
