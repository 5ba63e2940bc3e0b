"""Hypothesis 3, settled: does the angle agree with people better than confidence, or is it the nearest competitor that counts?

Every score comes in two forms: against all classes (or none), and against the nearest other class. Four families, every network
at hand, ten to a thousand classes, the same images and answers: what the competitor adds, and what the angle adds, side by side.
Names in h3_models.txt in --data, one a line (timm:resnet50.a1_in1k, a run, ...), are compared on the ImageNet images as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hardsight import Snapshot, score
from hardsight.render import COLORS
from hardsight.stats import bootstrap, noise_ceiling, selection_frequency
from hardsight_papers.avh import imagenet
from hardsight_papers.avh.panels import CONTRAST, cifar_snapshot, cifar_with_people, digits_snapshot
from hardsight_papers.context import Context
from hardsight_papers.drawing import Figure, panels
from hardsight_papers.recipe import Outcome, Table, Value, recipe
from hardsight_papers.verdicts import DIFFERENCE, Claim, Effect, claim

FAMILIES = {  # without the nearest competitor, and with it
    "angle over all angles": ("avh", "avh_nearest"),
    "angle": ("own_angle", "angular_gap"),
    "probability": ("confidence", "probability_margin"),
    "logit": ("own_logit", "logit_margin"),
}
CORNERS = ("avh", "angular_gap", "loss", "logit_margin")  # angle or logit, over all classes or the nearest
SCORES = ("avh", "avh_nearest", "own_angle", "angular_gap", "confidence", "probability_margin", "loss", "energy", "logit_margin")
LOW_IS_HARD = {"confidence", "probability_margin", "own_logit", "logit_margin"}
CLASSES = (10, 100, 1000)
REPLICATES = 300
MODELS = "h3_models.txt"


@dataclass(frozen=True)
class Judged:
    """Images that people judged, as several networks see them."""

    name: str
    networks: dict[str, Snapshot]
    frequency: np.ndarray  # (n,) low is hard
    rows: np.ndarray  # (m,) of the images that count
    ceiling: float | None = None


@recipe(
    "avh/h3", "Hypothesis 3 by families of scores, networks and numbers of classes", needs="ImageNet 5k with votes, CIFAR-10H"
)
def hypothesis_3(context: Context) -> Outcome:
    """Paired differences from confidence, a two-way summary, and the number of classes."""
    judged = _judged(context)
    found = [(each, name, _columns(network)) for each in judged for name, network in each.networks.items()]
    differences = {(each.name, name): _differences(columns, each, context.seed) for each, name, columns in found}
    effects = {(each.name, name): _effects(columns, each, context.seed) for each, name, columns in found}
    by_people = judged[0].name != "Digits"
    return Outcome(
        about=_about(judged),
        tables=[_coefficients(found), _difference_table(differences), _two_way(effects), *_by_classes(context, judged)],
        figures={"Differences from confidence": _figure(differences)},
        claims=_claims(differences, effects, "" if by_people else "No people here: the level of contrast stands in for them."),
        commands=["hardsight correlate run --human votes.parquet --scores avh,avh_nearest,angular_gap,confidence,logit_margin"],
    )


def _about(judged: list[Judged]) -> str:
    names = "; ".join(f"{each.name} ({len(each.rows):,} images; {', '.join(each.networks)})" for each in judged)
    selection = f" {imagenet.SELECTION}" if judged[0].name.startswith("ImageNet") else ""
    return f"{names}. Coefficients are Spearman's, above 0 where hard by the score is hard for people.{selection}"


# ---- images, networks and people ----


def _judged(context: Context) -> list[Judged]:
    judged = [*_imagenet(context), *_cifar(context)]
    if judged:
        return judged
    snapshot = digits_snapshot(context, CONTRAST)
    level = snapshot.columns(["level"])["level"].to_numpy()
    return [Judged("Digits", {"DigitsCNN": snapshot}, level, np.arange(len(level)))]


def _imagenet(context: Context) -> list[Judged]:
    if not imagenet.has_imagenet(context):
        return []
    path = context.data.require("imagenet_votes", "this recipe")
    votes, networks = imagenet.read_votes(path), {**imagenet.snapshots(context), **_added(context)}
    first = next(iter(networks.values()))
    rows = imagenet.voted_rows(path, votes.ids, [str(id) for id in first.ids])
    frequency, contested = votes.frequency[rows], np.flatnonzero(votes.contested[rows])
    yes = np.rint(frequency[contested] * imagenet.PEOPLE).astype(np.int64)
    ceiling = noise_ceiling(np.stack([yes, imagenet.PEOPLE - yes], axis=1), np.zeros(len(yes), np.int64), seed=context.seed)
    return [
        Judged("ImageNet, contested", networks, frequency, contested, ceiling.ceiling),
        Judged("ImageNet, all", networks, frequency, np.arange(len(frequency))),
    ]


def _added(context: Context) -> dict[str, Snapshot]:
    """The networks that the user names, on the ImageNet images."""
    file = None if context.data.directory is None else context.data.directory / MODELS
    if file is None or not file.is_file():
        return {}
    names = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    images = context.data.require("imagenet5k", "this recipe")
    return {name: context.extract(name, images, pretrained=True) for name in names}


def _cifar(context: Context) -> list[Judged]:
    if not context.data.has("cifar10", "cifar10_people", "cifar10_resnet20", "cifar10_resnet32"):
        return []
    networks = {f"ResNet-{depth}": cifar_snapshot(context, depth) for depth in (20, 32)}
    first, (_, counts) = networks["ResNet-20"], cifar_with_people(context)
    counts = counts[[int(id) for id in first.ids]]
    ceiling = noise_ceiling(counts, first.labels, seed=context.seed).ceiling
    return [Judged("CIFAR-10H", networks, selection_frequency(counts, first.labels), np.arange(len(counts)), ceiling)]


def _columns(network: Snapshot) -> dict[str, np.ndarray]:
    """(n,) each score, high is hard."""
    table = score(network, scores=list(SCORES)).table
    columns = {name: table[name].to_numpy().astype(np.float64) for name in SCORES}
    columns["own_logit"] = -columns["loss"] - columns.pop("energy")  # log p_y = z_y - log sum_k e^z_k
    return {name: -values if name in LOW_IS_HARD else values for name, values in columns.items()}


# ---- compared ----


def _draws(columns: Mapping[str, np.ndarray], each: Judged, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(k,) Spearman's coefficients of the columns with people, and (replicates, k) of resampled images."""
    matrix, target = np.stack([values[each.rows] for values in columns.values()], axis=1), -each.frequency[each.rows]
    ranks = [np.unique(column, return_inverse=True, return_counts=True)[1:] for column in [*matrix.T, target]]
    mean_ranks = np.stack([(np.cumsum(count) - (count - 1) / 2)[group] for group, count in ranks])  # (k + 1, m)
    values = np.asarray(np.corrcoef(mean_ranks))[-1, :-1]
    return values, bootstrap(matrix, target, replicates=REPLICATES, seed=seed).spearman


def _effect(value: float, draws: np.ndarray) -> tuple[float, float, float]:
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return value, float(low), float(high)


def _differences(columns: Mapping[str, np.ndarray], each: Judged, seed: int) -> dict[str, tuple[float, float, float]]:
    """Of every score from confidence, with the interval."""
    values, draws = _draws(columns, each, seed)
    base = list(columns).index("confidence")
    others = [(k, name) for k, name in enumerate(columns) if name not in ("confidence", "loss")]
    return {name: _effect(float(values[k] - values[base]), draws[:, k] - draws[:, base]) for k, name in others}


def _effects(columns: Mapping[str, np.ndarray], each: Judged, seed: int) -> dict[str, tuple[float, float, float]]:
    """What the nearest competitor adds over all classes, and what the angle adds over the logit."""
    values, draws = _draws({name: columns[name] for name in CORNERS}, each, seed)
    parts = {
        "nearest instead of all, angle": (1, 0),
        "nearest instead of all, logit": (3, 2),
        "angle instead of logit, all": (0, 2),
        "angle instead of logit, nearest": (1, 3),
    }
    return {name: _effect(float(values[i] - values[j]), draws[:, i] - draws[:, j]) for name, (i, j) in parts.items()}


def restricted(network: Snapshot, count: int, seed: int) -> dict[str, np.ndarray]:
    """The corner scores with so many classes: each image's own, and the others drawn once for all images."""
    features, labels, head = network.features, network.labels, network.head
    assert features is not None and head is not None
    drawn = np.random.default_rng(seed).permutation(head.num_classes)[: count - 1]
    rows, same = np.arange(len(labels)), drawn == labels[:, None]  # (n, count - 1)
    angles, logits = (np.asarray(table, np.float64) for table in (head.angles(features), head.logits(features)))
    angle, logit = angles[rows, labels], logits[rows, labels]
    others, rivals = np.where(same, np.nan, angles[:, drawn]), np.where(same, -np.inf, logits[:, drawn])
    top = np.maximum(rivals.max(1), logit)
    return {
        "avh": angle / (angle + np.nansum(others, axis=1)),
        "angular_gap": angle - np.nanmin(others, axis=1),
        "loss": top + np.log(np.exp(logit - top) + np.exp(rivals - top[:, None]).sum(1)) - logit,
        "logit_margin": rivals.max(1) - logit,
    }


# ---- shown ----


def _text(effect: tuple[float, float, float]) -> str:
    return f"{effect[0]:+.3f} [{effect[1]:+.3f}, {effect[2]:+.3f}]"


def _coefficients(found: list[tuple[Judged, str, dict[str, np.ndarray]]]) -> Table:
    rows: list[list[Value]] = []
    for each, name, columns in found:
        values = dict(zip(columns, _draws(columns, each, 0)[0], strict=True))
        pairs = [f"{values[without]:.3f} / {values[with_it]:.3f}" for without, with_it in FAMILIES.values()]
        rows.append([each.name, name, *pairs, each.ceiling])
    header = ("images", "network", *FAMILIES, "noise ceiling")
    return Table("Spearman with people, without and with the nearest competitor", header, rows, words=2)


def _difference_table(differences: Mapping[tuple[str, str], Mapping[str, tuple[float, float, float]]]) -> Table:
    names = list(next(iter(differences.values())))
    rows: list[list[Value]] = [[*key, *(_text(each[name]) for name in names)] for key, each in differences.items()]
    return Table("Paired differences from confidence", ("images", "network", *names), rows, words=2)


def _two_way(effects: Mapping[tuple[str, str], Mapping[str, tuple[float, float, float]]]) -> Table:
    names = list(next(iter(effects.values())))
    rows: list[list[Value]] = [[*key, *(_text(each[name]) for name in names)] for key, each in effects.items()]
    return Table("Two ways: the competitor, and the angle", ("images", "network", *names), rows, words=2)


def _by_classes(context: Context, judged: list[Judged]) -> list[Table]:
    """The same with fewer classes, where there are many."""
    rows: list[list[Value]] = []
    for each in judged:
        for name, network in each.networks.items():
            for count in [count for count in CLASSES if count <= (network.num_classes or 0) and (network.num_classes or 0) > 10]:
                effects = _effects(restricted(network, count, context.seed), each, context.seed)
                rows.append([each.name, name, count, *map(_text, effects.values())])
    if not rows:
        return []
    header = ("images", "network", "classes", *effects)
    note = "The own class of each image, and others drawn at random, the same for all images."
    return [Table("By number of classes", header, rows, words=2, note=note)]


def _figure(differences: Mapping[tuple[str, str], Mapping[str, tuple[float, float, float]]]) -> Figure:
    """A panel per set of images: a row per score, a dot per network with its interval."""
    images = list(dict.fromkeys(name for name, _ in differences))
    figure, plots = panels(len(images), width=3.6, height=3.4)
    for axes, name in zip(plots, images, strict=True):
        shown = {network: each for (of, network), each in differences.items() if of == name}
        scores = list(next(iter(shown.values())))
        for k, (network, each) in enumerate(shown.items()):
            places = np.arange(len(scores)) + 0.15 * (k - (len(shown) - 1) / 2)
            value, low, high = np.array([each[score] for score in scores]).T
            axes.errorbar(value, places, xerr=[value - low, high - value], fmt="o", ms=3.5, color=COLORS[k], label=network)
        axes.axvline(0, color="#888888", linewidth=0.8)
        axes.set_yticks(range(len(scores)), scores if axes is plots[0] else [""] * len(scores))
        axes.invert_yaxis()
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("Spearman less that of confidence", fontsize=8)
        axes.legend(frameon=False, fontsize=7)
    return figure


def _claims(
    differences: Mapping[tuple[str, str], Mapping[str, tuple[float, float, float]]],
    effects: Mapping[tuple[str, str], Mapping[str, tuple[float, float, float]]],
    why_not: str,
) -> list[Claim]:
    rule = (
        f"The 95 % bootstrap interval of the paired difference lies above 0 and reaches {DIFFERENCE}, for every network and set."
    )
    wanted = {
        "AVH agrees with people more than confidence (hypothesis 3).": (differences, "avh"),
        "Against the nearest class alone, the angle agrees more than confidence.": (differences, "angular_gap"),
        "The nearest competitor adds to the angle.": (effects, "nearest instead of all, angle"),
        "The angle adds to the margin.": (effects, "angle instead of logit, nearest"),
    }
    claims = []
    for text, (table, name) in wanted.items():
        found = "; ".join(f"{' '.join(key)} {_text(each[name])}" for key, each in table.items())
        effects_of = [Effect(*each[name], DIFFERENCE, " ".join(key)) for key, each in table.items()]
        words = f"{found}.{why_not and f' {why_not}'}"
        claims.append(claim(text, rule=rule, effects=() if why_not else effects_of, found=words, post_hoc=True))
    return claims
