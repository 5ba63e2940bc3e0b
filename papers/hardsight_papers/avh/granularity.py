"""Figure 19: norm against people's frequency in coarser classes, of many fine classes, of a few, and of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardsight_papers.arrays import read_arrays
from hardsight_papers.avh import imagenet
from hardsight_papers.avh.panels import CONTRAST, Panel, cifar_panels, degraded_digits, imagenet_panels
from hardsight_papers.avh.wordnet import coarser, find_wordnet
from hardsight_papers.context import Context
from hardsight_papers.drawing import Figure, panels
from hardsight_papers.recipe import Claim, Outcome, Table, Value, claim, recipe
from hardsight_papers.seed_statistics import spearman_interval
from hardsight_papers.verdicts import CORRELATION, Effect

COARSE = 45
SIZES = (58, 7, 1)  # fine classes in the three that the paper shows
SAMPLES = 1000  # of the bootstrap
FEWEST = 20  # images: an interval of fewer reaches nearly from -1 to 1
ANIMALS = {2, 3, 4, 5, 6, 7}  # of CIFAR-10
NO_WORDNET = "No WordNet here (data.noun in --data, or Debian's wordnet-base)"


@dataclass(frozen=True)
class Coarse:
    """A coarser class: its name, how many fine classes it has, and norm and frequency of its samples."""

    name: str
    size: int
    norm: np.ndarray
    frequency: np.ndarray


PRINTED = {"coarser classes": COARSE, "fine classes": SIZES}
NEEDS = "ImageNet 5k with votes, WordNet"


@recipe("avh/fig19", "Norm against human selection frequency in coarser classes", printed=PRINTED, needs=NEEDS)
def figure_19(context: Context) -> Outcome:
    """Three coarser classes; Spearman of norm and frequency in each, with its interval."""
    about, shown, axis, why_not = _shown(context)
    rows: list[list[Value]] = []
    effects: list[Effect] = []
    for each in shown:
        if len(each.norm) < FEWEST:
            rows.append([each.name, each.size, len(each.norm), None, None])
            continue
        coefficient, low, high = spearman_interval(each.norm, each.frequency, replicates=SAMPLES, seed=context.seed)
        rows.append([each.name, each.size, len(each.norm), coefficient, f"[{low:+.3f}, {high:+.3f}]"])
        effects.append(not_above(each.name, coefficient, low, high, len(each.norm)))
    left_out = len(shown) - len(effects)
    header = ("coarser class", "fine classes", "images", "Spearman", "95 %")
    note = f"A dash: fewer than {FEWEST} images, whose interval says nothing."
    return Outcome(
        about=about,
        tables=[Table("Spearman of norm and frequency", header, rows, note=note if left_out else "")],
        figures={"Norm by frequency in three coarser classes": scatter(shown, axis)},
        claims=[not_in_proportion(effects, left_out, why_not)],
    )


def not_above(name: str, coefficient: float, low: float, high: float, n: int) -> Effect:
    """By how much a coefficient stays below the smallest correlation worth the name."""
    return Effect(CORRELATION - coefficient, CORRELATION - high, CORRELATION - low, 0.0, name, n, "images")


def not_in_proportion(effects: list[Effect], left_out: int, why_not: str = "") -> Claim:
    """Direct proportion: the norm grows with frequency. A coefficient below 0 is no direct proportion either."""
    few = f" {left_out} of {left_out + len(effects)} has fewer than {FEWEST} images." if left_out else ""
    flat = sum(effect.verdict == "holds" for effect in effects)
    return claim(
        "Norm and frequency are not in direct proportion, whatever the granularity of classes.",
        rule=f"Spearman's coefficient is not above {CORRELATION:g}, by its 95 % bootstrap interval, in each of the three with "
        f"at least {FEWEST} images.",
        effects=[] if why_not else effects,
        found=f"So in {flat} of {len(effects)}.{few}{why_not and f' {why_not}'}",
    )


def _shown(context: Context) -> tuple[str, list[Coarse], str, str]:
    """What is shown, three groups, what the frequency is, and why they are not the paper's coarser classes, if so."""
    wordnet = find_wordnet(context)
    if context.scale == "paper" and wordnet is not None:
        from hardsight_papers.avh.full_imagenet import with_people as with_frequencies

        return *_of_imagenet(context, with_frequencies(context), wordnet), ""
    if imagenet.has_imagenet(context) and wordnet is not None:
        return *_of_imagenet(context, imagenet_panels(context)[1], wordnet), ""
    with_people = cifar_panels(context)
    panel = with_people[0] if with_people else degraded_digits(context, CONTRAST)
    table = panel.tables[panel.best]
    norm, labels = table["norm"].to_numpy(), table["label"].to_numpy()
    groups = (
        [("animals", ANIMALS), ("vehicles", set(range(10)) - ANIMALS), ("cat", {3})]
        if with_people
        else [("all digits", set(range(10))), ("1, 4 and 7", {1, 4, 7}), ("8", {8})]
    )
    shown = []
    for name, classes in groups:
        rows = np.isin(labels, list(classes))
        shown.append(Coarse(name, len(classes), norm[rows], panel.target[rows]))
    why_not = "No ImageNet in --data" if wordnet is not None else NO_WORDNET
    why_not += ": these groups are ours, and people were not asked about them."
    return f"{panel.best} on {panel.name}, in groups of classes; {panel.axis}.", shown, panel.axis, why_not


def _of_imagenet(context: Context, panel: Panel, wordnet: Path) -> tuple[str, list[Coarse], str]:
    of_class_array, names = imagenet_coarser(wordnet, COARSE)
    table = panel.tables[panel.best]
    norm, labels = table["norm"].to_numpy(), table["label"].to_numpy()
    frequency, counted, axis = panel.target, "frequency of the given label", panel.axis  # all that is known at scale paper
    if context.scale != "paper":
        frequency = coarse_frequency(context, [str(id) for id in table["id"].to_pylist()], of_class_array, panel.target)
        counted, axis = "frequency counted in them", "share of people who choose a label of the coarser class"
    sizes = np.bincount(of_class_array, minlength=len(names))
    shown = []
    for wanted in SIZES:
        k = int(np.argmin(np.abs(sizes - wanted)))
        rows = of_class_array[labels] == k
        shown.append(Coarse(names[k], int(sizes[k]), norm[rows], frequency[rows]))
    return f"{panel.best} on {panel.name}; {_of_wordnet([each.size for each in shown], len(names))}, {counted}.", shown, axis


def imagenet_coarser(wordnet: Path, count: int) -> tuple[np.ndarray, list[str]]:
    """(1000,) the coarser class of each of ImageNet's classes, at least `count` in all, and their names."""
    info = imagenet.import_timm().data.ImageNetInfo()
    of_class, names = coarser([str(info.index_to_label_name(k)) for k in range(1000)], wordnet, count)
    return np.array(of_class), names


def _of_wordnet(sizes: list[int], count: int) -> str:
    """Which classes they are beside the paper's, and why they differ."""
    words = f"{count} coarser classes of WordNet"
    if count != COARSE:
        words += f" (the paper has {COARSE}; here the largest is split until there are at least as many, and a split can add "
        words += "several)"
    if sizes != list(SIZES):
        words += f", those of {sizes[0]}, {sizes[1]} and {sizes[2]} fine classes shown as the nearest to the paper's "
        words += f"{SIZES[0]}, {SIZES[1]} and {SIZES[2]}"
    return words


def coarse_frequency(context: Context, ids: list[str], of_class: np.ndarray, frequency: np.ndarray) -> np.ndarray:
    """(n,) the highest share of yes for any label of the given label's coarser class."""
    path = context.data.require("imagenet_votes", "this recipe")
    shapes = {"ids": "(n,)", "labels": "(n,)", "question_image": "(q,)", "question_label": "(q,)", "question_votes": "(q, 3)"}
    arrays = read_arrays(path, shapes)
    labels = arrays["labels"]
    highest = np.zeros(len(labels))
    image, label, votes = (arrays[f"question_{name}"] for name in ("image", "label", "votes"))
    same = of_class[label] == of_class[labels[image]]
    np.maximum.at(highest, image[same], votes[same, 2] / imagenet.PEOPLE)
    rows = imagenet.voted_rows(path, [str(id) for id in arrays["ids"]], ids)
    return np.maximum(frequency, highest[rows])


def scatter(shown: list[Coarse], axis: str) -> Figure:
    """One panel per coarser class."""
    figure, plots = panels(len(shown), width=11 / len(shown), height=3.4)
    jitter = np.random.default_rng(0)
    for axes, each in zip(plots, shown, strict=True):
        x = each.frequency + jitter.uniform(-0.02, 0.02, len(each.norm))
        axes.scatter(x, each.norm, s=7, alpha=0.4, color="#0072b2", linewidths=0)
        axes.set(title=f"{each.name}: {each.size} class{'es' * (each.size > 1)}", xlabel=axis, ylabel="norm")
    return figure
