"""Hypothesis 3, settled: does the angle agree with people better than confidence, or is it the nearest competitor that counts?

Every score comes in two forms: against all classes (or none), and against the nearest other class. Four families, every network
at hand, ten to a thousand classes, the same images and answers: what the competitor adds, and what the angle adds, side by side.
ImageNet's classes are also joined into WordNet's coarser ones, as for Figure 19, and so are people's votes on them.
Names in h3_models.txt in --data, one a line (timm:resnet50.a1_in1k, a run, ...), are compared on the ImageNet images as well.
With CIFAR-10's training images, ResNet-20 also gets heads fitted by three losses, two of which know directions alone; at scale
cpu it is trained whole with each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hardsight import Head, Snapshot, score
from hardsight.render import COLORS
from hardsight.stats import bootstrap, noise_ceiling, selection_frequency, spearman
from hardsight_papers.arrays import open_labeled
from hardsight_papers.avh import imagenet
from hardsight_papers.avh.class_tables import ClassTables, margins_without_norms
from hardsight_papers.avh.granularity import COARSE, NO_WORDNET, coarse_frequency, imagenet_coarser
from hardsight_papers.avh.panels import CONTRAST, cifar_snapshot, cifar_with_people, digits_snapshot
from hardsight_papers.avh.trainings import ON_CIFAR, STAGES
from hardsight_papers.avh.wordnet import find_wordnet
from hardsight_papers.context import Context
from hardsight_papers.drawing import Figure, panels
from hardsight_papers.recipe import Outcome, Table, Value, recipe
from hardsight_papers.verdicts import DIFFERENCE, FITTED, Claim, Effect, claim

FAMILIES = {  # without the nearest competitor, and with it
    "angle over all angles": ("avh", "avh_nearest"),
    "angle": ("own_angle", "angular_gap"),
    "probability": ("confidence", "probability_margin"),
    "logit": ("own_logit", "logit_margin"),
}
PARTS = {  # angle or logit, over all classes (loss is in the order of confidence) or against the nearest
    "nearest instead of all, angle": ("angular_gap", "avh"),
    "nearest instead of all, logit": ("logit_margin", "loss"),
    "angle instead of logit, all": ("avh", "loss"),
    "angle instead of logit, nearest": ("angular_gap", "logit_margin"),
}
DRAWN = (10, 100)  # classes
NEAREST = (1, 10, 50)  # other classes that AVH takes into account
FEW = 10  # coarser classes, beside those of Figure 19
REPLICATES = 300
MODELS = "h3_models.txt"
LOSSES = {"softmax loss": "SoftmaxLoss", "cosine loss": "NormFaceLoss", "AVH loss": "AVHLoss"}
FITTED_ON, STEPS = 10_000, 400  # training images and steps of each loss
TRAINED: dict[str, Any] = {**ON_CIFAR, **{name: STAGES[name] for name in ("epochs", "schedule_options")}, "lr": 0.1, "size": 16}
FIXED_SCALE: dict[str, Any] = {"NormFaceLoss": {"loss_options": {"learn_scale": False}}}  # learned at this rate, it falls to 0
Interval = tuple[float, float, float]  # value, low, high


@dataclass(frozen=True)
class Judged:
    """Images that people judged, as one network sees them, with its classes as they are or joined."""

    images: str
    network: str
    classes: int
    scores: dict[str, np.ndarray]  # (n,) each, high is hard
    frequency: np.ndarray  # (n,) low is hard
    ceiling: float | None = None
    snapshot: Snapshot | None = None  # where the classes are the network's own
    rows: np.ndarray | None = None  # (n,) of the snapshot
    learned: float = 1.0  # share of its training images that a network trained here has right

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it apart from others, for tables."""
        return self.images, self.network, f"{self.classes:,}"

    @cached_property
    def differences(self) -> dict[str, Interval]:
        """Of every score from confidence."""
        others = [name for name in self.scores if name not in ("confidence", "loss")]
        return self.compared({name: (name, "confidence") for name in others}, self.scores)

    @cached_property
    def parts(self) -> dict[str, Interval]:
        """What the nearest competitor adds over all classes, and what the angle adds over the logit."""
        return self.compared(PARTS, self.scores)

    def spearman(self, scores: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Coefficients with people, above 0 where hard by the score is hard for people."""
        return {name: spearman(column, -self.frequency) for name, column in scores.items()}

    def compared(self, pairs: Mapping[str, tuple[str, str]], scores: Mapping[str, np.ndarray]) -> dict[str, Interval]:
        """Differences of two coefficients each, with the interval over images drawn again."""
        values, names = self.spearman(scores), list(scores)
        draws = bootstrap(np.stack(list(scores.values()), axis=1), -self.frequency, replicates=REPLICATES, seed=0).spearman
        found = {}
        for name, (first, second) in pairs.items():
            low, high = np.nanquantile(draws[:, names.index(first)] - draws[:, names.index(second)], [0.025, 0.975])
            found[name] = (values[first] - values[second], float(low), float(high))
        return found


@recipe("avh/h3", "Hypothesis 3 by families of scores, networks and numbers of classes",
        needs="ImageNet 5k with votes, CIFAR-10H, WordNet")  # fmt: skip
def hypothesis_3(context: Context) -> Outcome:
    """Paired differences from confidence, a two-way summary, the number of classes, and what is in the logit."""
    judged = list(_judged(context))
    by_people = judged[0].images != "Digits"
    return Outcome(
        about=_about(context, judged),
        tables=[
            _coefficients(judged),
            _difference_table(judged),
            _two_way(judged),
            *_nearest(judged),
            *_drawn(judged, context.seed),
            *_norms(judged),
            *_learned(judged),
        ],
        figures=_figures(judged),
        claims=_claims(judged, "" if by_people else "No people here: the level of contrast stands in for them."),
        commands=["hardsight correlate run --human votes.parquet --scores avh,avh_nearest,angular_gap,confidence,logit_margin"],
    )


def _about(context: Context, judged: list[Judged]) -> str:
    networks: dict[str, list[str]] = {}
    for each in judged:
        networks.setdefault(f"{each.images} ({len(each.frequency):,} images", []).append(each.network)
    words = "; ".join(f"{images}; {', '.join(dict.fromkeys(names))})" for images, names in networks.items())
    words += ". Coefficients are Spearman's, above 0 where hard by the score is hard for people."
    if not judged[0].images.startswith("ImageNet"):
        return words
    return f"{words} {imagenet.SELECTION}" + ("" if find_wordnet(context) else f" {NO_WORDNET}, so no coarser classes.")


# ---- images, networks and people ----


def _judged(context: Context) -> Iterator[Judged]:
    has_people = False
    for each in (*_imagenet(context), *_cifar(context)):
        has_people = True
        yield each
    if not has_people:
        snapshot = digits_snapshot(context, CONTRAST)
        level = snapshot.columns(["level"])["level"].to_numpy()
        yield Judged("Digits", "DigitsCNN", 10, ClassTables.of(snapshot).scores(), level)


def _imagenet(context: Context) -> Iterator[Judged]:
    """Contested images and all, with 1,000 classes and with WordNet's coarser ones."""
    if not imagenet.has_imagenet(context):
        return
    path = context.data.require("imagenet_votes", "this recipe")
    votes, networks = imagenet.read_votes(path), {**imagenet.snapshots(context), **_added(context)}
    first, wordnet = next(iter(networks.values())), find_wordnet(context)
    ids = [str(id) for id in first.ids]
    rows = imagenet.voted_rows(path, votes.ids, ids)
    frequency, contested = votes.frequency[rows], np.flatnonzero(votes.contested[rows])
    coarser = [] if wordnet is None else [imagenet_coarser(wordnet, count)[0] for count in (COARSE, FEW)]
    frequencies = [frequency, *(coarse_frequency(context, ids, of_class, frequency) for of_class in coarser)]
    for images, kept in (("ImageNet, contested", contested), ("ImageNet, all", np.arange(len(ids)))):
        for target, of_class in zip(frequencies, (None, *coarser), strict=True):
            ceiling = _ceiling_of_votes(target[kept]) if images.endswith("contested") else None
            for name, network in networks.items():
                tables = ClassTables.of(network)
                tables = tables if of_class is None else tables.joined(of_class)
                scores = {score: column[kept] for score, column in tables.scores().items()}
                own = network if of_class is None else None
                yield Judged(images, name, tables.num_classes, scores, target[kept], ceiling, own, kept)


def _ceiling_of_votes(frequency: np.ndarray) -> float:
    yes = np.rint(frequency * imagenet.PEOPLE).astype(np.int64)
    return noise_ceiling(np.stack([yes, imagenet.PEOPLE - yes], axis=1), np.zeros(len(yes), np.int64), seed=0).ceiling


def _added(context: Context) -> dict[str, Snapshot]:
    """The networks that the user names, on the ImageNet images."""
    file = None if context.data.directory is None else context.data.directory / MODELS
    if file is None or not file.is_file():
        return {}
    names = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    images = context.data.require("imagenet5k", "this recipe")
    return {name: context.extract(name, images) for name in names}


def _cifar(context: Context) -> Iterator[Judged]:
    if not context.data.has("cifar10", "cifar10_people", "cifar10_resnet20", "cifar10_resnet32"):
        return
    networks = {f"ResNet-{depth}": cifar_snapshot(context, depth) for depth in (20, 32)}
    networks |= _other_heads(context, networks["ResNet-20"])
    trained = _trained_whole(context)
    first, (_, counts) = networks["ResNet-20"], cifar_with_people(context)
    counts = counts[[int(id) for id in first.ids]]
    ceiling, frequency = noise_ceiling(counts, first.labels, seed=0).ceiling, selection_frequency(counts, first.labels)
    for name, (network, learned) in ({name: (network, 1.0) for name, network in networks.items()} | trained).items():
        scores, rows = ClassTables.of(network).scores(), np.arange(len(counts))
        yield Judged("CIFAR-10H", name, 10, scores, frequency, ceiling, network, rows, learned)


def _other_heads(context: Context, test: Snapshot) -> dict[str, Snapshot]:
    """ResNet-20 with heads that losses of logits, of cosines and of angles fit to its features of training images."""
    if not context.data.has("cifar10_train"):
        return {}
    train = cifar_snapshot(context, 20, images="cifar10_train", split=None, limit=FITTED_ON)
    return {
        f"ResNet-20, {name}": Snapshot(test.features, _fitted(loss, train), test.labels, ids=test.ids)
        for name, loss in LOSSES.items()
    }


def _trained_whole(context: Context) -> dict[str, tuple[Snapshot, float]]:
    """ResNet-20 at 16 pixels, trained whole with each of these losses, and the share of its training images it has learned."""
    if context.scale != "cpu":
        return {}
    train, (test, _) = open_labeled(context.data.require("cifar10_train", "scale cpu")), cifar_with_people(context)
    networks = {}
    for name, loss_class in LOSSES.items():
        loss = loss_class.removesuffix("Loss").lower()
        trained = context.train(train, "cifar_resnet20", loss=loss, **TRAINED, **FIXED_SCALE.get(loss_class, {}))
        learned = float(trained.history[-1]["train"]["accuracy"])
        networks[f"ResNet-20 at 16 pixels, {name}"] = context.extract(trained.run, test), learned
    return networks


def _fitted(loss: str, train: Snapshot) -> Head:
    """The head after a fixed number of steps with all samples."""
    import torch

    from hardsight import losses

    torch.manual_seed(0)
    assert train.features is not None and train.num_classes is not None
    features, labels = torch.as_tensor(np.asarray(train.features)), torch.as_tensor(train.labels)
    module = getattr(losses, loss)(features.shape[1], train.num_classes)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(STEPS):
        optimizer.zero_grad()
        module(features, labels).backward()
        optimizer.step()
    head: Head = module.head
    return head


# ---- shown ----


def _text(interval: Interval) -> str:
    return f"{interval[0]:+.3f} [{interval[1]:+.3f}, {interval[2]:+.3f}]"


COLUMNS = ("images", "network", "classes")


def _coefficients(judged: list[Judged]) -> Table:
    rows: list[list[Value]] = []
    for each in judged:
        values = each.spearman(each.scores)
        pairs = [f"{values[without]:.3f} / {values[with_it]:.3f}" for without, with_it in FAMILIES.values()]
        rows.append([*each.key, *pairs, each.ceiling])
    note = "The ceiling of coarser classes takes the label with most yes votes for the only one asked about."
    title = "Spearman with people, without and with the nearest competitor"
    return Table(title, (*COLUMNS, *FAMILIES, "noise ceiling"), rows, words=3, note=note)


def _difference_table(judged: list[Judged]) -> Table:
    rows: list[list[Value]] = [[*each.key, *map(_text, each.differences.values())] for each in judged]
    return Table("Paired differences from confidence", (*COLUMNS, *judged[0].differences), rows, words=3)


def _two_way(judged: list[Judged]) -> Table:
    rows: list[list[Value]] = [[*each.key, *map(_text, each.parts.values())] for each in judged]
    return Table("Two ways: the competitor, and the angle", (*COLUMNS, *PARTS), rows, words=3)


def _nearest(judged: list[Judged]) -> list[Table]:
    """AVH over the nearest classes alone, where there are many."""
    rows: list[list[Value]] = []
    for each in judged:
        if each.snapshot is not None and each.classes > max(NEAREST):
            table = score(each.snapshot, scores=[f"avh_nearest:{count}" for count in NEAREST]).table
            columns = {str(count): table[f"avh_nearest:{count}"].to_numpy()[each.rows] for count in NEAREST}
            rows.append([*each.key[:2], *each.spearman(columns | {"all": each.scores["avh"]}).values()])
    header = (*COLUMNS[:2], *map(str, NEAREST), "all")
    return [Table("AVH over that many nearest other classes: Spearman with people", header, rows, words=2)] if rows else []


def _learned(judged: list[Judged]) -> list[Table]:
    """What the networks trained here have learned."""
    rows: list[list[Value]] = []
    for each in judged:
        if each.learned < 1 and each.snapshot is not None:
            right = (ClassTables.of(each.snapshot).logits.argmax(1) == each.snapshot.labels).mean()
            rows.append([each.network, f"{100 * each.learned:.1f} %", f"{100 * right:.1f} %"])
    note = f"A network with less than {100 * FITTED:.0f} % of its training images right counts in no claim."
    return [Table("Trained here", ("network", "training images right", "test images right"), rows, note=note)] if rows else []


def _drawn(judged: list[Judged], seed: int) -> list[Table]:
    """The same with fewer classes, where there are many."""
    rows: list[list[Value]] = []
    for each in judged:
        if each.snapshot is None or each.classes <= max(DRAWN):
            continue
        tables = ClassTables.of(each.snapshot)
        for count in DRAWN:
            scores = {name: column[each.rows] for name, column in tables.drawn(count, seed).scores().items()}
            rows.append([*each.key[:2], count, *map(_text, each.compared(PARTS, scores).values())])
    note = "The own class of each image, and others drawn at random, the same for all images."
    return [Table("With fewer classes, drawn at random", (*COLUMNS, *PARTS), rows, words=2, note=note)] if rows else []


def _norms(judged: list[Judged]) -> list[Table]:
    """What the logit has and the angle has not: Spearman with people as its parts are removed one by one."""
    rows: list[list[Value]] = []
    for each in judged:
        if each.snapshot is None or each.snapshot.head is None or each.snapshot.head.kind != "linear":
            continue
        margins = {name: column[each.rows] for name, column in margins_without_norms(each.snapshot).items()}
        rows.append([*each.key[:2], *each.spearman(margins).values()])
    header = (*COLUMNS[:2], *margins) if rows else ()
    return [Table("From the logit margin to the angular gap", header, rows, words=2)] if rows else []


def _figures(judged: list[Judged]) -> dict[str, Figure]:
    """Contested images beside CIFAR-10H, and all images; without votes, one figure."""
    every = [each for each in judged if each.images == "ImageNet, all"]
    figures = {"Differences from confidence": [each for each in judged if each not in every], "All ImageNet images": every}
    return {name: _figure(some) for name, some in figures.items() if some}


def _figure(judged: list[Judged]) -> Figure:
    """A panel per set of images and classes: a row per score, a dot per network with its interval."""
    sets = list(dict.fromkeys((each.images, each.classes) for each in judged))
    figure, plots = panels(len(sets), width=3.3, height=3.6)
    ends = np.array([each.differences[name][1:] for each in judged for name in each.differences])  # one scale for all panels
    margin = 0.03 * np.ptp(ends)
    for axes, of in zip(plots, sets, strict=True):
        shown = [each for each in judged if (each.images, each.classes) == of]
        for k, each in enumerate(shown):
            places = np.arange(len(each.differences)) + min(0.15, 0.8 / len(shown)) * (k - (len(shown) - 1) / 2)
            value, low, high = np.array(list(each.differences.values())).T
            axes.errorbar(value, places, xerr=[value - low, high - value], fmt="o", ms=3.5, color=COLORS[k], label=each.network)
        axes.axvline(0, color="#888888", linewidth=0.8)
        names = list(shown[0].differences)
        axes.set_yticks(range(len(names)), names if axes is plots[0] else [""] * len(names))
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_title(f"{of[0]}, {of[1]:,} classes", fontsize=9)
        axes.set_xlabel("Spearman less that of confidence", fontsize=8)
        axes.set_xlim(ends.min() - margin, ends.max() + margin)
        if axes is plots[0] or of[0] != sets[0][0]:
            beside = {"bbox_to_anchor": (1, 0)} if len(shown) > 5 else {}
            axes.legend(frameon=False, fontsize=7, loc="lower left", **beside)
    return figure


def _claims(judged: list[Judged], why_not: str) -> list[Claim]:
    rule = f"The 95 % bootstrap interval of the paired difference lies above 0 and reaches {DIFFERENCE}, in every row."
    judged = [each for each in judged if each.learned >= FITTED]
    many = [each for each in judged if each.classes >= 1000]
    effects = {
        "AVH agrees with people more than confidence (hypothesis 3).": _by_key(judged, "avh"),
        "Against the nearest class alone, the angle agrees more than confidence.": _by_key(judged, "angular_gap"),
        "The nearest competitor adds to the angle.": _by_key(judged, "nearest instead of all, angle"),
        "With 1,000 classes the nearest competitor adds to the angle.": _by_key(many, "nearest instead of all, angle"),
        "The angle adds to the margin.": _by_key(judged, "angle instead of logit, nearest"),
    }
    claims = []
    for text, found in effects.items():
        if not found:  # no network of so many classes
            continue
        rows = [Effect(*interval, DIFFERENCE, key) for key, interval in found.items()]
        words = "; ".join(f"{key} {_text(interval)}" for key, interval in found.items())
        ahead, behind = sum(row.low > 0 for row in rows), sum(row.high < 0 for row in rows)
        words = f"Above 0 in {ahead} of {len(rows)}, below in {behind}. {words}.{why_not and f' {why_not}'}"
        claims.append(claim(text, rule=rule, effects=() if why_not else rows, found=words, post_hoc=True))
    return claims


def _by_key(judged: list[Judged], name: str) -> dict[str, Interval]:
    return {f"{each.images}, {each.network}, {each.classes:,} classes": (each.differences | each.parts)[name] for each in judged}
