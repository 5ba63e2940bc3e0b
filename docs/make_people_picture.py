"""Draw the pictures of docs/people.md and docs/human-agreement.md, and print the tables of people.md:

    python docs/make_people_picture.py disagreement DATA   # images/disagreement.png
    python docs/make_people_picture.py h3                  # images/people-h3.png, from papers/docs/outcomes.json
    python docs/make_people_picture.py people RUN.json     # images/people-curve.png, people.json and the tables

DATA is a folder with cifar10_test.npz, cifar10h_counts.npy and cifar10_resnet20.safetensors. Above: of the images
whose label all people choose and the network does not, those with the lowest confidence. Below: of the images whose label at most
40 % of the people choose while the network is at least 97 % sure of it, those that the fewest people choose. No class twice.

RUN.json is what `python -m benchmarks people --parts reference,answers --data DATA --json` prints. Default: people.json as it is.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from make_photos_picture import GRAY, GREEN, RED, heading, photo, save
from matplotlib.figure import Figure

import hardsight
from hardsight.render import COLORS
from hardsight.stats import selection_frequency

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
SHOWN = 7
DOUBTED, SURE = 0.4, 0.97  # at most so many people choose the label; at least so sure is the network of it
ALONE, COMPETITOR = ("avh", "own_angle", "own_logit"), ("avh_nearest", "angular_gap", "logit_margin", "probability_margin")
H3 = {("ImageNet, contested", "1,000"): 3, ("ImageNet, all", "1,000"): 3, ("CIFAR-10H", "10"): 2}  # networks shown
Found = dict[str, dict[str, list[float]]]  # [value, low, high] or [value], by case, and by what and coefficient


def disagreement(data: Path) -> None:
    photos, counts = np.load(data / "cifar10_test.npz")["images"], np.load(data / "cifar10h_counts.npy")
    with tempfile.TemporaryDirectory() as folder:
        weights = data / "cifar10_resnet20.safetensors"
        snapshot = hardsight.extract("cifar_resnet20", data / "cifar10_test.npz", f"{folder}/run", weights=weights)
        table = hardsight.score(snapshot, scores=["confidence"]).table.to_pandas()
        names = [name.replace("automobile", "car") for name in snapshot.class_names or []]  # short enough for a caption
    rows = table.id.astype(int).to_numpy()
    label, predicted, confidence = (table[name].to_numpy() for name in ("label", "predicted", "confidence"))
    people = selection_frequency(counts[rows], label)

    figure = Figure(figsize=(10.4, 4.7), dpi=130)
    halves: Any = figure.subfigures(2, 1)
    surprised = (people == 1) & (predicted != label)
    doubted = (people <= DOUBTED) & (confidence >= SURE)
    shown = {
        f"All people agree, the network does not ({surprised.sum()} of 10,000 images)": clearest(confidence, surprised, label),
        f"The network is sure, most people are not ({doubted.sum()} of 10,000 images)": clearest(people, doubted, label),
    }
    for half, (words, picked) in zip(halves, shown.items(), strict=True):
        heading(half, words)
        for axes, at in zip(half.subplots(1, SHOWN), picked, strict=True):
            votes = counts[rows[at]]
            said, share = int(votes.argmax()), votes.max() / votes.sum()
            lines = [
                (f"labeled {names[label[at]]}", GRAY),
                (f"network: {names[predicted[at]]}", GREEN if predicted[at] == label[at] else RED),
                (f"people: {names[said]}{f' {100 * share:.0f} %' if share < 1 else ''}", GREEN if said == label[at] else RED),
            ]
            photo(axes, photos[rows[at]], lines)
        half.subplots_adjust(left=0.01, right=0.99, top=0.885, bottom=0.25, wspace=0.06)
    save(figure, IMAGES / "disagreement.png")


def clearest(values: np.ndarray, inside: np.ndarray, label: np.ndarray) -> list[int]:
    """The samples with the smallest values, no class twice."""
    order = np.argsort(values, kind="stable")
    first: dict[int, int] = {}
    for at in order[inside[order]]:
        first.setdefault(int(label[at]), int(at))
    return list(first.values())[:SHOWN]


# ---- hypothesis 3 ----


def h3() -> None:
    """Scores without and with the competitor, less confidence: a panel per set of images, a dot per network."""
    outcomes = json.loads((DOCS.parent / "papers" / "docs" / "outcomes.json").read_text(encoding="utf-8"))
    tables = next(each["tables"] for each in outcomes if each["id"] == "avh/h3" and each["with_data"])
    table = next(table for table in tables if table["title"] == "Paired differences from confidence")
    rows = [dict(zip(table["header"], row, strict=True)) for row in table["rows"]]
    figure = Figure(figsize=(10.4, 3.9), dpi=130)
    plots = figure.subplots(1, len(H3), sharex=True, sharey=True)
    for axes, ((images, classes), networks) in zip(plots, H3.items(), strict=True):
        shown = [row for row in rows if (row["images"], row["classes"]) == (images, classes)][:networks]
        for k, row in enumerate(shown):
            found = [[float(end) for end in re.findall(r"[-+][\d.]+", row[name])] for name in (*ALONE, *COMPETITOR)]
            value, low, high = np.array(found).T
            heights = np.arange(len(found)) + 0.2 * (k - (len(shown) - 1) / 2) + 0.5 * (np.arange(len(found)) >= len(ALONE))
            axes.errorbar(value, heights, xerr=[value - low, high - value], fmt="o", ms=4, color=COLORS[k], label=row["network"])
        axes.axvline(0, color="#888888", linewidth=0.8)
        axes.axhline(len(ALONE) - 0.25, color="#cccccc", linewidth=0.8)
        axes.set_title(f"{images}, {classes} classes", fontsize=10.5)
        axes.legend(frameon=False, fontsize=8.5, loc="lower left")
        axes.spines[["top", "right"]].set_visible(False)
    places = [k + 0.5 * (k >= len(ALONE)) for k in range(len(ALONE) + len(COMPETITOR))]
    plots[0].set_yticks(places, [*ALONE, *COMPETITOR])
    plots[0].invert_yaxis()
    for height, words in ((0, "own class alone,\nor all classes"), (len(ALONE) + 0.5, "against the nearest\nother class")):
        plots[-1].text(-0.18, height, words, va="center", fontsize=8.5, color=GRAY)
    figure.supxlabel("Spearman with people, less that of confidence (95 % intervals)", fontsize=10)
    figure.subplots_adjust(left=0.14, right=0.99, top=0.92, bottom=0.15, wspace=0.06)
    save(figure, IMAGES / "people-h3.png")


# ---- people ----


def people(run: Path | None = None) -> None:
    """The learning curves and the tables."""
    stored = DOCS / "people.json"
    found = json.loads(stored.read_text(encoding="utf-8"))
    if run is not None:  # perhaps of one part
        for case, numbers in taken_over(json.loads(run.read_text(encoding="utf-8"))).items():
            found.setdefault(case, {}).update(numbers)
        stored.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    curves(found)
    print("\n".join([*answers_table(found), "", *reference_table(found)]))


def taken_over(run: dict[str, Any]) -> Found:
    """The numbers of a run of the benchmark, with both ends of intervals beside them."""
    found: Found = {}
    for line in run["measurements"]:
        what = re.sub(", (low|high) end$", "", line["what"])
        found.setdefault(line["case"], {}).setdefault(f"{what}, {line['unit']}", []).append(round(line["value"], 4))
    return found


def learned(found: Found) -> Iterator[tuple[str, str, dict[str, float], dict[int, dict[str, list[float]]]]]:
    """Each study of several sizes: its name, the best score without answers, its coefficients, what answers teach by number."""
    for case, numbers in found.items():
        best = {what: value for what, (value, *_) in numbers.items() if what.startswith("best score")}
        if not best:
            continue
        score = re.sub(".*: |, .*", "", next(iter(best)))
        sizes = {
            int(other.split()[-2]): of for other, of in found.items() if re.fullmatch(rf"{re.escape(case)}, \d+ answers", other)
        }
        if len(sizes) > 1:
            yield case, score, {what.rpartition(", ")[2]: value for what, value in best.items()}, sizes


def curves(found: Found) -> None:
    """A panel per study: `people` with its interval, a plain ridge, and the best score without answers."""
    studies = list(learned(found))
    figure = Figure(figsize=(10.4, 3.1), dpi=130)
    plots = figure.subplots(1, len(studies), width_ratios=[1] * len(studies))
    for axes, (case, score, best, sizes) in zip(plots, studies, strict=True):
        ours, ridge = (np.array([of[f"{what}, Spearman"] for of in sizes.values()]).T for what in ("people", "ridge"))
        axes.fill_between(list(sizes), ours[1], ours[2], color=COLORS[0], alpha=0.18, linewidth=0)
        axes.plot(list(sizes), ours[0], "o-", ms=4, color=COLORS[0], label="people (95 %)")
        axes.plot(list(sizes), ridge[0], "x:", ms=5, color=COLORS[1], label="plain ridge")
        axes.axhline(best["Spearman"], color="#777777", linewidth=1)
        axes.text(max(sizes), best["Spearman"], score, color=GRAY, fontsize=7.5, ha="right", va="bottom")
        axes.set_xscale("log")
        axes.set_xticks(list(sizes), [f"{size / 1000:g}k" if size >= 1000 else str(size) for size in sizes], fontsize=8)
        axes.minorticks_off()
        axes.tick_params(axis="y", labelsize=8)
        axes.set_ylim(*((0.26, 0.52) if case.startswith("CIFAR") else (0.18, 0.65)))
        axes.set_title(case.replace(", ", "\n", 1), fontsize=9.5)
        axes.spines[["top", "right"]].set_visible(False)
    plots[0].legend(frameon=False, fontsize=8, loc="lower right")
    plots[0].set_ylabel("Spearman with people", fontsize=9.5)
    figure.supxlabel("answered images; scored on the others", fontsize=9.5)
    figure.subplots_adjust(left=0.065, right=0.985, top=0.86, bottom=0.17, wspace=0.28)
    save(figure, IMAGES / "people-curve.png")


def answers_table(found: Found) -> Iterator[str]:
    """What `people` adds to a ridge, by the number of answered images."""
    yield "| | answered | Spearman, ridge | `people` | less ridge | Pearson, ridge | `people` | less ridge |"
    yield "|---|---|---|---|---|---|---|---|"
    for case, score, best, sizes in learned(found):
        yield f"| {case} | none: `{score}` | | {short(best['Spearman'])} | | | {short(best['Pearson'])} | |"
        for size, of in sizes.items():
            cells = []
            for unit in ("Spearman", "Pearson"):
                value, low, high = (-end for end in of[f"ridge less people, {unit}"])
                cells += [short(of[f"{what}, {unit}"][0]) for what in ("ridge", "people")]
                cells.append(signed([value, high, low]))
            yield f"| | {size:,} | {' | '.join(cells)} |"


def reference_table(found: Found) -> Iterator[str]:
    """What `human_hardness` adds to `angular_gap`, and its coefficients."""
    yield "| | one pass each | flip pass, over one of the gap | flip pass each | all images, one pass | with a flip pass |"
    yield "|---|---|---|---|---|---|"
    one, flip = "one pass", "with a flip pass"
    for case, numbers in found.items():
        if not any(what.startswith("human_hardness") for what in numbers):
            continue
        cells = []
        for ours, gap in ((one, one), (flip, one), (flip, flip)):
            value, low, high = (
                -end for end in numbers[f"angular_gap, {gap}, less human_hardness, {ours}, held-out half, Spearman"]
            )
            cells.append(signed([value, high, low]))
        for passes in (one, flip):
            of = (numbers[f"human_hardness, all images, {passes}, {unit}"][0] for unit in ("Spearman", "Pearson"))
            cells.append(" / ".join(map(short, of)))
        yield f"| {case.removeprefix('CIFAR-10H, ')} | {' | '.join(cells)} |"


def short(value: float) -> str:
    """A coefficient with three digits: .385."""
    return f"{value:.3f}".replace("0.", ".", 1)


def signed(interval: list[float]) -> str:
    """A difference with its interval: +.025 [.016, .034]."""
    value, low, high = interval
    return f"{'+' if value >= 0 else ''}{short(value)} [{short(low)}, {short(high)}]"


if __name__ == "__main__":
    pictures: dict[str, Callable[..., None]] = {"disagreement": disagreement, "h3": h3, "people": people}
    pictures[sys.argv[1]](*map(Path, sys.argv[2:]))
