"""Write docs/which-score.md from the measured table beside it: python docs/make_which_score.py > docs/which-score.md

The table, docs/which-score.json, is made of the files that `python -m benchmarks hardness` and `clean` print with --json. It may
be one of them itself, to keep what was not measured again:

python docs/make_which_score.py FILE [FILE ...] [docs/which-score.json]

Of a case that is in several files, the first counts; scores that only a later one has are added. The picture is drawn, too.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

LABEL_KINDS = ("uniform", "pair", "adjacent", "instance")
MEASURED = Path(__file__).with_name("which-score.json")
NUMBERS = ("auroc", "average_precision", "missed")
ALIKE = 0.02  # average precisions that differ by less are called as good
PEERS = ("cleanlab", "aum package", "datagnosis")
EVIDENCE = {  # in words; the order is that of the explanation
    "epochs": "means over the epochs of the training; the run has them",
    "final model": "the trained network alone",
    "out-of-sample heads": "heads on its features that were fitted without the sample",
    "reference": "fitted to the training set",
}


UNSEEN = "out-of-sample heads"
NO_COLUMN = ("clean", "near_duplicates")  # of the scores table
HAVING = {  # what one may have, and the evidence that it is
    "with the epochs of a training": ("epochs",),
    "with the final model alone": ("final model",),
    "with a reference, or heads that have not seen the sample": ("reference", UNSEEN),
}


class Job(NamedTuple):
    """Something to look for, and the kinds of injected hardness that stand for it."""

    name: str
    kinds: tuple[str, ...]
    about: str


JOBS = (
    Job("wrong labels, any class", ("uniform",), "labels changed to any other class, all alike"),
    Job("wrong labels, one class taken for another", ("pair",), "labels changed to the next class, always the same one"),
    Job("wrong labels among classes that look alike", ("adjacent",), "labels changed to the class whose mean image is nearest"),
    Job("wrong labels where a sample looks like another class", ("instance",), "labels changed to the class whose mean image the sample itself is nearest to, the nearer the likelier"),  # noqa: E501
    Job("inputs of a class never seen", ("near",), "images of two classes that the network was not trained on"),
    Job("inputs of no class", ("far",), "images whose pixels are in random order"),
    Job("atypical views", ("shift", "zoom", "crop"), "images moved by a quarter of their side, enlarged twice, or black but for a window"),  # noqa: E501
    Job("near duplicates", ("duplicate",), "copies with a little noise, and what they are copies of"),
)  # fmt: skip

HEAD = """\
# Which score for which job

<!-- Made by docs/make_which_score.py from docs/which-score.json, which `python -m benchmarks hardness` measured. -->

| you want to find | start with | keep in mind |
|---|---|---|
| wrong labels | `hardsight clean` | picks the evidence, and finds duplicates and outliers, too |
| wrong labels, by one score | `probability_margin`, `loss`; `aum` with epochs | of a model that has not seen the sample; AVH is not the best here |
| samples that people find hard, too | `angular_gap`, `avh_nearest`, `logit_margin` | with many classes `avh` is far behind: [human-agreement.md](human-agreement.md) |
| the same, with the training set at hand | `human_hardness` | `score TEST --reference TRAIN`: [people.md](people.md#without-answers) |
| the same, with answers about some hundred samples | `hardsight people` | better than any score: [people.md](people.md) |
| hard samples, whatever their contrast | `avh`, `avh_relative`, `angular_gap` | contrast and training time change the norm more than the angle |
| uncertain predictions, without labels | `entropy`, `predicted_confidence`, `avc_predicted` | a model can be confident and wrong |
| inputs of other classes, or of none | `gen`, `avc_predicted` | no label needed |
| atypical views | `angular_gap`, `vim` | many scores are about as good |
| near duplicates | `hardsight clean` | or [`near_duplicates`](scores.md#near-duplicates) |
| what to train on | `hardsight select` | [select.md](select.md) |

## Measured

No score is best at everything. We injected hardness of known kinds into images; every score had to find it.
**Average precision** is 1 for a perfect ranking, and the share of hard samples for guessing. **Missed** is the share of hard samples missed by reviewing as many samples as there are hard ones.
"""  # noqa: E501

PICTURE = """\
![Average precision by job: AVH, the best of our scores, and the best of other libraries](images/which-score.png)
"""

AVERAGED = """\
Numbers are average precisions, averaged over seeds, rates ({rates}) and data sets. Differences below {alike} may be chance. Bold
scores are as good as the best of their row; scores less than half as good are left out.
"""

HOW_TO = """\
Single scores are columns of the scores table:

<!-- skip: there are no such runs -->
```bash
hardsight score RUN --scores {epochs}  # needs a run of hardsight train
hardsight score RUN --scores {final}
hardsight score TEST --reference TRAIN --scores {reference}
```
"""

HOW = """\
## How it was measured

{sets}

Wrong labels are injected into the training set, and the training samples are scored. Everything else is injected into held-out
samples of a network that was trained on clean labels, without the last two classes. Other libraries get the same
out-of-sample probabilities, features or recorded margins as ours; datagnosis trains its own networks, of the same kind and for
as many epochs. {partial}These are small images and small networks. If much depends on it, repeat the benchmark on your own data.

{missing}<!-- skip: takes many minutes -->
```bash
python -m benchmarks hardness --data DIR --seeds 5 --json > bench.json
```
"""

NEXT = """\
## Next

Wrong labels: [clean.md](clean.md). What each score means: [scores.md](scores.md). What to train on: [select.md](select.md).
"""

WAYS = {  # that `clean` is called, as in the measured table, and in words
    "hardsight clean, of the run": "run",
    "hardsight clean, of the same probabilities": "probabilities",
    "hardsight clean, of features and labels": "features",
}
CLEAN = """\
## `hardsight clean` beside cleanlab

Average precision of the default ranking of `hardsight.clean`: from a run with its dynamics, from out-of-sample probabilities
alone, and from the run's features and labels alone (cross-validated heads and neighbors). The last column is the best of four
cleanlab rankings on the same probabilities. Ours is at least as good as cleanlab's best in {precise}.

{table}
How many labels `clean` expects to be wrong. Cases off by more than 20 % (mean over seeds): {off}.
"""


class Line(NamedTuple):
    """A score on a job: means over sets, kinds and rates."""

    score: str
    evidence: str
    auroc: float
    average_precision: float
    missed: float

    @property
    def ours(self) -> bool:
        return not self.score.startswith(PEERS)

    @property
    def title(self) -> str:
        name = f"`{self.score}`" if self.ours else self.score
        return f"{name} ({self.evidence})"


def page() -> str:
    """The whole page."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    ranked = {job: lines_of(measured["results"], job) for job in JOBS}
    ranked = {job: lines for job, lines in ranked.items() if lines}
    rates = sorted({rate for kinds in measured["results"].values() for by_rate in kinds.values() for rate in by_rate}, key=float)
    averaged = AVERAGED.format(rates=", ".join(f"{100 * float(rate):g} %" for rate in rates), alike=ALIKE)
    parts = [
        HEAD,
        overview(ranked),
        PICTURE,
        averaged,
        commands(ranked),
        "## Where AVH is not the one\n",
        *about_avh(ranked),
    ]
    parts += [
        evidence(),
        every_job(ranked),
        *filter(None, (partly(measured["results"], job) for job in ranked)),
        *beside_cleanlab(measured["clean"]),
        how(measured),
        NEXT,
    ]
    return "\n".join(parts)


def lines_of(results: dict[str, Any], job: Job) -> list[Line]:
    """The scores that were measured in every case of a job, the most precise first; every set of images counts the same."""
    by_set = [[cell for kind in job.kinds for cell in kinds.get(kind, {}).values()] for kinds in results.values()]
    by_set = [cells for cells in by_set if cells]
    names = [name for name in by_set[0][0] if all(name in cell for cells in by_set for cell in cells)] if by_set else []
    lines = []
    for name in names:
        means = [mean(mean(cell[name][at] for cell in cells) for cells in by_set) for at in range(len(NUMBERS))]
        evidence, _, score = name.partition(": ")
        lines.append(Line(score, evidence, *means))
    return sorted(lines, key=lambda line: (-round(line.average_precision, 4), not line.ours, line.score, line.evidence))


def overview(ranked: dict[Job, list[Line]]) -> str:
    """One row per job: the best score of ours by what one has, the best of other libraries, and AVH."""
    rows = []
    for job, lines in ranked.items():
        theirs, avh = [line for line in lines if not line.ours], first(lines, "avh")
        best_of_theirs = f"{theirs[0].title} {theirs[0].average_precision:.3f}" if theirs else "–"
        place = f"{avh.average_precision:.3f}, {lines.index(avh) + 1} of {len(lines)}" if avh else "needs a label"
        rows.append([job.name, *(_cell(lines, having) for having in HAVING), best_of_theirs, place])
    return table(["to find", *HAVING, "best of other libraries", "AVH, its rank"], rows)


def best_with(lines: Sequence[Line], having: str) -> Line | None:
    """The best of our scores by what one has, if it is of use: at least half as precise as the best of all."""
    line = next((line for line in lines if line.ours and line.evidence in HAVING[having]), None)
    return line if line is not None and 2 * line.average_precision >= lines[0].average_precision else None


def _cell(lines: Sequence[Line], having: str) -> str:
    """A score and its precision; bold if it is as good as the best."""
    line = best_with(lines, having)
    if line is None:
        return "–"
    words = f"`{line.score}` {line.average_precision:.3f}"
    return f"**{words}**" if lines[0].average_precision - line.average_precision <= ALIKE else words


def commands(ranked: dict[Job, list[Line]]) -> str:
    """How to get the scores of the overview: one line for each thing one may have."""
    names = []
    for having in HAVING:
        bests = [line for lines in ranked.values() if (line := best_with(lines, having)) is not None]
        asked = [line.score for line in bests if line.score not in NO_COLUMN and line.evidence != UNSEEN]
        names.append(",".join(dict.fromkeys(asked)))
    epochs, final, reference = names
    return HOW_TO.format(epochs=epochs, final=final, reference=reference)


def first(lines: Iterable[Line], score: str) -> Line | None:
    return next((line for line in lines if line.score == score), None)


def about_avh(ranked: dict[Job, list[Line]]) -> list[str]:
    """A sentence for each job on which AVH is clearly behind, and one for those on which it is not."""
    behind, level, without = [], [], []
    for job, lines in ranked.items():
        avh, best = first(lines, "avh"), lines[0]
        if avh is None:
            angle = first(lines, "avc_predicted")
            rank = f" ({angle.average_precision:.3f}, {lines.index(angle) + 1} of {len(lines)})" if angle else ""
            without.append(f"{job.name}{rank}")
        elif best.average_precision - avh.average_precision > ALIKE:
            behind.append(f"- {job.name}: {best.title} {best.average_precision:.3f}, AVH {avh.average_precision:.3f}")
        else:
            level.append(f"{job.name} ({avh.average_precision:.3f}, best {best.average_precision:.3f})")
    sentences = []
    if behind:
        sentences.append("Another score is clearly better, by average precision, for:\n\n" + "\n".join(behind) + "\n")
    if level:
        sentences.append(f"It is as good as the best, within {ALIKE}, for: {'; '.join(level)}.\n")
    if without:
        sentences.append(
            f"AVH needs a label. Its label-free counterpart, `avc_predicted`, was measured on: {'; '.join(without)}.\n"
        )
    return sentences


def evidence() -> str:
    """What the words in brackets mean."""
    words = "\n".join(f"- **{name}**: {meaning}" for name, meaning in EVIDENCE.items())
    return f"## Job by job\n\nThe same score can be computed from different evidence, named in brackets:\n\n{words}\n"


def every_job(ranked: dict[Job, list[Line]]) -> str:
    """What was injected for each job, and what a review by the best score and by AVH would miss."""
    rows = []
    for job, lines in ranked.items():
        avh = first(lines, "avh")
        best = f"{lines[0].missed:.3f}, {lines[0].title}"
        rows.append([job.name, job.about, best, "–" if avh is None else f"{avh.missed:.3f}"])
    return table(["to find", "injected", "missed by the best", "by AVH"], rows)


def partly(results: dict[str, Any], job: Job) -> str:
    """What was measured in some of a job's cases only: what trains networks of its own, where there was time."""
    cells = {
        (name, kind, rate): cell
        for name, kinds in results.items()
        for kind in job.kinds
        for rate, cell in kinds.get(kind, {}).items()
    }
    partial = {name for cell in cells.values() for name in cell if not all(name in other for other in cells.values())}
    sentences = []
    for (data, kind, rate), cell in cells.items():
        found = sorted(((cell[name][1], name.partition(": ")[2]) for name in partial & set(cell)), reverse=True)
        if found:
            useful = [f"{name} {precision:.3f}" for precision, name in found if 2 * precision >= found[0][0]]
            rest = [precision for precision, _ in found[len(useful) :]]
            words = ", ".join(useful) + (f"; {len(rest)} others at most {max(rest):.3f}" if rest else "")
            sentences.append(f"Measured on {data}, {kind}, {100 * float(rate):g} % alone, average precision: {words}.")
    return "".join(f"{sentence}\n" for sentence in sentences)


def beside_cleanlab(lines: list[dict[str, Any]]) -> list[str]:
    """What `python -m benchmarks clean` measured: precision, error counts, time."""
    if not lines:
        return []
    cases: dict[str, dict[str, dict[str, Any]]] = {}
    for line in lines:
        cases.setdefault(line["case"], {})[line["what"]] = line
    precise = {case: found for case, found in cases.items() if next(iter(WAYS)) in found}
    parts = [_precision(precise)] if precise else []
    timed = [line for case, found in cases.items() if case not in precise for line in found.values()]
    if timed:
        cells = [[line["case"], line["what"], f"{line['value'] / 1000:.1f} s", *_ratio_cells(line)] for line in timed]
        parts.append(table(["on", "what", "time", "ratio", "limit"], cells))
    return parts


def _precision(cases: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Precisions beside the best of cleanlab's, and error counts beside the true ones, by how `clean` is called."""
    ways = {way: words for way, words in WAYS.items() if all(way in found for found in cases.values())}
    total = len(cases)
    precise = [
        f"{sum((found[way]['ratio'] or math.inf) <= 1 for found in cases.values())} of {total} ({words})"
        for way, words in ways.items()
    ]
    counted = {way: f"{way}: expected errors" for way in ways}
    off = [f"{sum(not found[counted[way]]['within'] for found in cases.values())} of {total} ({ways[way]})" for way in ways]
    rows = []
    for case, found in cases.items():
        theirs = {name: line["value"] for name, line in found.items() if name.startswith("cleanlab")}
        best = max(theirs, key=lambda name: theirs[name]) if theirs else None
        said = "–" if best is None else f"{theirs[best]:.3f} ({best.removeprefix('cleanlab ')})"
        rows.append([case, *(f"{found[way]['value']:.3f}" for way in ways), said])
    return CLEAN.format(
        precise=", ".join(precise),
        off=", ".join(off),
        table=table(["labels", *(f"`clean`, {words}" for words in ways.values()), "cleanlab"], rows),
    )


def _ratio_cells(line: dict[str, Any]) -> list[str]:
    return ["–" if line[name] is None else f"{line[name]:.3g}" for name in ("ratio", "limit")]


def how(measured: dict[str, Any]) -> str:
    """Sets, networks, seeds, and what was not measured."""
    sets = [
        f"- {name}: {about['samples']} images, `{about['network'].rpartition(':')[2]}` trained for {about['epochs']} epochs, "
        f"{about['seeds']} seed{'s' if about['seeds'] != 1 else ''}, rates {', '.join(about['rates'])}"
        for name, about in measured["sets"].items()
    ]
    missing = []
    if measured["not_installed"]:
        missing.append(f"Not measured, because not installed: {', '.join(measured['not_installed'])}.")
    if measured["not_run"]:
        names = ", ".join(f"`{name}`" for name in measured["not_run"])
        missing.append(f"Not measured, because a plain training does not have what they need: {names}.")
    return HOW.format(
        sets="\n".join(sets),
        missing="".join(f"{sentence}\n\n" for sentence in missing),
        partial=measured_in_few(measured["results"]),
    )


def measured_in_few(results: dict[str, Any]) -> str:
    """A sentence on what was measured in some cases of wrong labels only, or with fewer seeds than all else."""
    cells = [cell for kinds in results.values() for kind in LABEL_KINDS for cell in kinds.get(kind, {}).values()]
    names = sorted({name for cell in cells for name in cell}, key=lambda name: name.partition(": ")[2])
    groups: dict[tuple[int, int | None], list[str]] = {}  # cases, seeds (None: as many as all others) -> scores
    for name in names:
        numbers = [cell[name] for cell in cells if name in cell]
        seeds = min((extra for _, _, _, *rest in numbers for extra in rest), default=None)
        if len(numbers) < len(cells) or seeds is not None:
            score = name.partition(": ")[2]
            peer = next((peer for peer in PEERS if score.startswith(peer)), None)
            group = groups.setdefault((len(numbers), seeds), [])
            group += [word for word in [peer or f"`{score}`"] if word not in group]
    if not groups:
        return ""
    parts = [
        f"{', '.join(words)} in {count}" + (f" ({seeds} seed{'s' if seeds != 1 else ''})" if seeds else "")
        for (count, seeds), words in sorted(groups.items(), key=lambda group: group[0][0])
    ]
    words = f"Of the {len(cells)} cases of wrong labels, some scores were measured in fewer, or with fewer seeds"
    return f"{words}: {'; '.join(parts)}.\n"


def _names(results: dict[str, Any]) -> set[str]:
    """Evidence and name of everything that was measured in some case."""
    return {name for kinds in results.values() for rates in kinds.values() for cell in rates.values() for name in cell}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)) + "\n"


def draw() -> None:
    """The overview as a picture: for each job AVH (or AVC), the best of our scores, and the best of other libraries."""
    import numpy as np
    from matplotlib.figure import Figure

    from hardsight.render.style import COLORS

    measured = json.loads(MEASURED.read_text(encoding="utf-8"))["results"]
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    axes = figure.subplots()
    for row, job in enumerate(reversed(JOBS)):
        lines = lines_of(measured, job)
        angle = first(lines, "avh") or first(lines, "avc_predicted")
        ours, theirs = (next(line for line in lines if line.ours is own) for own in (True, False))
        shown = [(ours, "D", COLORS[0], "best of ours"), (theirs, "s", "#7f7f7f", "best of other libraries")]
        for place, (line, marker, color, words) in enumerate([*shown, (angle, "o", COLORS[1], "AVH (AVC without labels)")]):
            if line is not None:
                height = row + 0.27 * (1 - place)  # a line for each, since many are as good
                axes.plot(line.average_precision, height, marker, color=color, markersize=5, label=words if row == 0 else None)
        axes.text(1.04, row, ours.score, va="center", fontsize=9, color=COLORS[0])
    axes.set_yticks(range(len(JOBS)), [job.name for job in reversed(JOBS)])
    axes.set_xlim(0, 1.38)
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    axes.set_xlabel("average precision")
    axes.grid(axis="x", color="#e5e5e5")
    axes.hlines(np.arange(len(JOBS) - 1) + 0.5, 0, 1.38, color="#e5e5e5", linewidth=0.8)
    axes.set_ylim(-0.5, len(JOBS) - 0.5)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.35, 1.0), ncols=3, columnspacing=1.0)
    figure.savefig(MEASURED.with_name("images") / "which-score.png", dpi=100, metadata={"Software": None})


def taken_over(files: Iterable[Path]) -> dict[str, Any]:
    """The measured table of the page, from the JSON files of one or several runs."""
    from benchmarks.peers import LIBRARIES
    from hardsight.scores import SCORES

    documents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    tables = [document for document in documents if isinstance(document.get("results"), dict)]  # made by this script
    read = [document for document in documents if document not in tables]
    runs = [run for run in read if "results" in run]
    results: dict[str, Any] = {}
    sets: dict[str, Any] = {}
    for run in runs:
        for name, about in run["sets"].items():
            rates = sorted({f"{row['rate']:g}" for row in run["results"] if row["data"] == name}, key=float)
            sets.setdefault(name, {**about, "seeds": len(run["seeds"]), "rates": rates})
        for row in run["results"]:
            cell = results.setdefault(row["data"], {}).setdefault(row["kind"], {}).setdefault(f"{row['rate']:g}", {})
            fewer = [row["seeds"]] if row["seeds"] < sets[row["data"]]["seeds"] else []  # said on the page
            cell.setdefault(f"{row['evidence']}: {row['score']}", [*(round(row[name], 4) for name in NUMBERS), *fewer])
    clean = [_rounded(line) for run in read for line in run.get("measurements", ())]
    installed = {name for run in runs for name in run["peers"]}
    for table in tables:
        sets = {**table["sets"], **sets}
        for data, kinds in table["results"].items():
            for kind, rates_of in kinds.items():
                for rate, cell in rates_of.items():
                    known = results.setdefault(data, {}).setdefault(kind, {}).setdefault(rate, {})
                    known.update({name: numbers for name, numbers in cell.items() if name not in known})
        cases = {line["case"] for line in clean}
        clean += [line for line in table["clean"] if line["case"] not in cases]
        installed |= set(LIBRARIES) - set(table["not_installed"])
    measured = {name.partition(": ")[2] for name in _names(results)}
    return {
        "sets": sets,
        "not_installed": [name for name in LIBRARIES if name not in installed],
        "not_run": [name for name in SCORES if name not in measured],
        "clean": clean,
        "results": results,
    }


def _rounded(line: dict[str, Any]) -> dict[str, Any]:
    return {**line, **{name: _short(line[name]) for name in ("value", "ratio")}}


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.5g}")


if __name__ == "__main__":
    if sys.argv[1:]:
        compact = json.dumps(taken_over(map(Path, sys.argv[1:])), separators=(",", ":"), ensure_ascii=False)
        MEASURED.write_text(compact.replace('},"', '},\n"') + "\n", encoding="utf-8")
    else:
        draw()
        sys.stdout.write(page())
