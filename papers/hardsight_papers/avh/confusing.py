"""Figure 1, and the slide "Nail / Golf Ball": images that are hard for people and easy for a network, and the reverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from hardsight.data import ImageData, degrade, open_data, parse_degradations
from hardsight_papers.avh import imagenet
from hardsight_papers.avh.panels import CONTRAST, Panel, cifar_panels, degraded_digits, imagenet_panels
from hardsight_papers.context import Context
from hardsight_papers.drawing import Figure
from hardsight_papers.recipe import Outcome, Table, Value, claim, recipe

SHOWN = 5
SURE, UNSURE = 0.9, 0.01  # softmax scores that the slide calls easy and hard
PRINTED = {"Nail": [0.93, 0.2], "Oil Filter": [0.998, 0.2], "Golf Ball": [0.001, 1.0], "Radio": [0.001, 1.0]}
Picture = tuple[Image.Image, str]


def judged(context: Context) -> tuple[Panel, ImageData, list[str] | None]:
    """The images to show with what people said of them: ImageNet, CIFAR-10, or digits by contrast."""
    if context.scale == "paper":
        from hardsight_papers.avh.full_imagenet import with_people

        return with_people(context), open_data(context.data.require("imagenet", "the full protocol")), class_names()
    if imagenet.has_imagenet(context):
        panel = imagenet_panels(context)[0]  # people were asked about these
        return panel, open_data(context.data.require("imagenet5k", "this recipe")), class_names()
    panels = cifar_panels(context)
    if panels:
        data = open_data(context.data.require("cifar10", "this recipe"))
        return panels[0], data, data.class_names
    return degraded_digits(context, CONTRAST), open_data("digits"), None


def class_names() -> list[str]:
    """ImageNet's 1,000 class names, as timm lists them."""
    info = imagenet.import_timm().data.ImageNetInfo()
    return [str(info.index_to_description(k)).partition(",")[0].partition(":")[0] for k in range(1000)]


@recipe("avh/fig1", "Images that confuse people: degraded ones, and ambiguous ones", needs="ImageNet 5k with votes, CIFAR-10H")
def figure_1(context: Context) -> Outcome:
    """Top: an easy image degraded. Bottom: the images whose label the fewest people choose."""
    panel, data, names = judged(context)
    if not panel.by_people:
        top = _levels(data.image(4), "4")
        return Outcome(about="Digits: no people here, so only degraded images are shown.", figures={"Degraded": grid([top])})
    table = panel.tables[panel.best]
    row_of = {id: row for row, id in enumerate(data.ids)}
    ids, labels = table["id"].to_pylist(), table["label"].to_numpy()

    def picture(at: int) -> Picture:
        return data.image(row_of[ids[at]]), f"{_name(names, labels[at])}\nfrequency {panel.target[at]:.2f}"

    easiest = int(np.argmax(panel.target + table["confidence"].to_numpy()))
    order = np.argsort(panel.target, kind="stable")
    bottom = [picture(int(at)) for at in _of_different_classes(order, labels)]
    top = _levels(data.image(row_of[ids[easiest]]), _name(names, labels[easiest]))
    return Outcome(
        about=f"{panel.name}. Top: one image that everybody recognizes, degraded. Bottom: those whose label the fewest "
        "people choose.",
        figures={"Degraded and ambiguous images": grid([top, bottom])},
    )


def _levels(image: Image.Image, name: str) -> list[Picture]:
    degradations = parse_degradations(["contrast=0.1,0.3", "noise=0.2,0.4", "blur=0.15"])
    return [(degrade(image, each, "shown"), f"{name}\n{each}") for each in degradations]


def _of_different_classes(order: np.ndarray, labels: np.ndarray) -> list[int]:
    """The first few, no class twice."""
    picked: dict[int, int] = {}
    for at in order:
        picked.setdefault(int(labels[at]), int(at))
        if len(picked) == SHOWN:
            break
    return list(picked.values())


@recipe(
    "slides/disagreement",
    "Hard for people and easy for the network, and the reverse (Nail, Golf Ball)",
    printed=PRINTED,
    needs="ImageNet 5k with votes, CIFAR-10H",
)
def disagreement(context: Context) -> Outcome:
    """By softmax, as the slide does: both quarters counted, and their clearest images."""
    panel, data, names = judged(context)
    table = panel.tables[panel.best]
    confidence, labels = table["confidence"].to_numpy(), table["label"].to_numpy()
    easy = panel.target >= 1.0 if panel.by_people else panel.target >= 0.6
    hard = panel.target <= 0.2
    quarters = {
        "hard for people, easy for the network": hard & (confidence >= SURE),
        "easy for people, hard for the network": easy & (confidence <= UNSURE),
    }
    of, who = (int(hard.sum()), int(easy.sum())), "people" if panel.by_people else "level"
    row_of = {id: row for row, id in enumerate(data.ids)}
    ids = [str(id).partition("#")[0] for id in table["id"].to_pylist()]
    rows: list[list[Value]] = [[f"{name} (printed)", *values] for name, values in PRINTED.items()]
    pictures = []
    for words, inside in quarters.items():
        order = np.argsort(confidence if words.startswith("easy") else -confidence, kind="stable")
        shown = _of_different_classes(order[inside[order]], labels)
        rows += [[f"{_name(names, labels[at])}: {words}", float(confidence[at]), float(panel.target[at])] for at in shown]
        seen = [f"network {100 * confidence[at]:.0f} %, {who} {100 * panel.target[at]:.0f} %" for at in shown]
        captions = [f"{_name(names, labels[at])}\n{said}" for at, said in zip(shown, seen, strict=True)]
        pictures.append([(data.image(row_of[ids[at]]), caption) for at, caption in zip(shown, captions, strict=True)])
    counts = [int(inside.sum()) for inside in quarters.values()]
    return Outcome(
        about=f"{panel.best} on {panel.name}; {panel.axis}.",
        tables=[Table("Softmax score and people", ("image", "softmax", "frequency"), rows)],
        figures={"The clearest images of both kinds": grid(pictures, list(quarters))},
        claims=[
            claim(
                "There are images that are hard for people and easy for the network, and the reverse.",
                rule=f"Frequency of at most 0.2 with a softmax score of at least {SURE}, and frequency 1 with one of at "
                f"most {UNSURE}: both exist.",
                holds=min(counts) > 0 if panel.by_people else None,
                found=f"{counts[0]} of {of[0]} hard ones, and {counts[1]} of {of[1]} easy ones.",
            )
        ],
    )


def _name(names: list[str] | None, label: Any) -> str:
    return str(label) if names is None else names[int(label)]


def grid(rows: list[list[Picture]], headings: Sequence[str] = ()) -> Figure:
    """Rows of pictures with words above each, and a heading above the row."""
    from matplotlib.figure import Figure

    headings = [*headings, *[""] * (len(rows) - len(headings))]
    shown = [(row, heading) for row, heading in zip(rows, headings, strict=True) if row]
    figure = Figure(figsize=(2.1 * SHOWN, 2.7 * max(1, len(shown))), layout="constrained")
    parts = np.atleast_1d(np.asarray(figure.subfigures(max(1, len(shown)), 1)))
    for part, (row, heading) in zip(parts, shown, strict=False):
        part.suptitle(heading, fontsize=11, fontweight="bold")
        for column, (image, words) in enumerate(row):
            axes = part.add_subplot(1, SHOWN, column + 1)
            pixels = np.asarray(image)  # (h, w) or (h, w, 3)
            axes.imshow(pixels, cmap="gray" if pixels.ndim == 2 else None, vmin=0, vmax=255)
            axes.set_title(words, fontsize=8)
            axes.axis("off")
    return figure
