"""Write what `hardsight reproduce` found into the pages beside this file:

python papers/docs/make_papers.py [RUN ...]

papers.json    the latest outcome of every recipe, with --data and without; those of the given runs replace older ones.
               Of figures it lists those that papers.md shows
papers.md      every recipe: command, claims with verdict and rule, tables, figures
results.md     a row per claim: its verdict on real and on built-in data, and what was measured
reproduce.md   how long the recipes take
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardsight_papers.catalog import recipes
from hardsight_papers.page import TITLES
from hardsight_papers.recipe import VERDICTS, Table

DOCS = Path(__file__).resolve().parent
KEPT = DOCS / "papers.json"
FIGURES = DOCS / "images"
PHOTOGRAPHS = ("avh/fig1", "avh/fig21", "slides/disagreement")  # images of the data sets themselves: they stay out of the docs
SIGNS: dict[str, str] = dict(zip(VERDICTS, ("✓", "✗", "–"), strict=True))
LONG = 10  # seconds: recipes below that share a row
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A run directory of `hardsight reproduce`."""

    directory: Path
    outcomes: list[Outcome]
    with_data: bool

    @classmethod
    def read(cls, directory: Path) -> Run:
        """The outcomes that are there: of an interrupted run those of its finished recipes."""
        start = json.loads((directory / "start.json").read_text("utf-8"))
        files = {path.stem: path for path in (directory / "outcomes").glob("*.json")}
        names = [id.replace("/", "-") for id in start["arguments"]["ids"]]
        outcomes = [json.loads(files[name].read_text("utf-8")) for name in names if name in files]
        return cls(directory, outcomes, bool(start["inputs"]["data"]))


@dataclass(frozen=True)
class Finding:
    """One claim of a recipe, as judged on real data and on built-in data; either may be missing."""

    text: str
    real: dict[str, str] | None
    built_in: dict[str, str] | None


@dataclass(frozen=True)
class Reproduced:
    """The latest outcomes of a recipe; either may be missing."""

    id: str
    real: Outcome | None
    built_in: Outcome | None

    @property
    def findings(self) -> list[Finding]:
        """Every claim once, paired by its text."""
        real, built_in = (claims_by_text(outcome) for outcome in (self.real, self.built_in))
        return [Finding(text, real.get(text), built_in.get(text)) for text in real | built_in]


def best(found: Finding | Reproduced) -> dict[str, Any]:
    """The claim or the outcome on real data, or else on built-in data."""
    shown = found.real or found.built_in
    assert shown is not None
    return shown


def claims_by_text(outcome: Outcome | None) -> dict[str, dict[str, str]]:
    """The claims of an outcome; no two of a recipe may have the same text."""
    claims = [] if outcome is None else outcome["claims"]
    by_text = {claim["text"]: claim for claim in claims}
    assert len(by_text) == len(claims), f"{outcome['id'] if outcome else ''} makes a claim twice"
    return by_text


def update(kept: Sequence[Outcome], runs: Sequence[Run]) -> list[Outcome]:
    """What is kept, with the outcomes of `runs` in place of older ones of the same recipe."""
    latest = {(outcome["with_data"], outcome["id"]): outcome for outcome in kept}
    for run in runs:
        latest |= {(run.with_data, outcome["id"]): {"with_data": run.with_data, **outcome} for outcome in run.outcomes}
    return [latest[kind, id] for kind in (True, False) for id in recipes() if (kind, id) in latest]


def by_paper(kept: Sequence[Outcome]) -> dict[str, list[Reproduced]]:
    """Recipes in their order, under the title of their paper."""
    latest = {(outcome["with_data"], outcome["id"]): outcome for outcome in kept}
    papers: dict[str, list[Reproduced]] = {}
    for id in recipes():
        reproduced = Reproduced(id, latest.get((True, id)), latest.get((False, id)))
        if reproduced.real or reproduced.built_in:
            papers.setdefault(TITLES[id.partition("/")[0]], []).append(reproduced)
    return papers


# papers.md


def page(kept: Sequence[Outcome]) -> str:
    """Every recipe in full."""
    parts = [
        "# The papers, recipe by recipe",
        "Our numbers next to the printed ones, and every claim with the rule that decides it. Nothing was tuned to agree with a "
        "paper. All verdicts in one place: [results](results.md#the-papers-reproduced). How to run a recipe: "
        "[reproduce](reproduce.md). This page is generated from the runs by `python papers/docs/make_papers.py RUN ...`.",
    ]
    for title, reproduced in by_paper(kept).items():
        parts += [f"## {title}", *(section(each) for each in reproduced)]
    return "\n\n".join(parts) + "\n"


def section(reproduced: Reproduced) -> str:
    """One recipe: what was run, claims, tables, figures."""
    outcome = best(reproduced)
    data = " --data DIR" if reproduced.real else ""
    parts = [
        f"### {reproduced.id}",
        f"**{recipes()[reproduced.id].title}**",
        f"`hardsight reproduce {reproduced.id}{data}`",
        outcome["about"],
    ]
    parts += ["\n".join(bullet(finding) for finding in reproduced.findings)] if reproduced.findings else []
    for content in outcome["tables"]:
        shown = Table(**content)
        parts += [f"{shown.title}:", table(shown.header, shown.cells())] + ([shown.note] if shown.note else [])
    parts += [f"![{caption}](images/{name})" for caption, name in figures(outcome).items()]
    if outcome["commands"]:
        parts.append("On your own data: " + "; ".join(f"`{command}`" for command in outcome["commands"]) + ".")
    return "\n\n".join(parts)


def bullet(finding: Finding) -> str:
    """A claim with its verdicts and its rule."""
    claim = best(finding)
    lines = [f"- {SIGNS[claim['verdict']]} **{finding.text}** {claim['verdict'].capitalize()}: {claim['found']}"]
    if finding.real and finding.built_in and finding.built_in["found"] != finding.real["found"]:
        lines.append(f"On built-in data: {finding.built_in['verdict']}. {finding.built_in['found']}")
    return "<br>\n  ".join([*lines, f"*Rule: {claim['rule']}*"])


def only_shown(kept: Sequence[Outcome]) -> list[Outcome]:
    """Outcomes with the figures that the docs show: no photographs, and of a recipe that was run on real data only those."""
    with_data = {outcome["id"] for outcome in kept if outcome["with_data"]}

    def shown(outcome: Outcome) -> bool:
        return outcome["id"] not in PHOTOGRAPHS and outcome["with_data"] == (outcome["id"] in with_data)

    return [outcome if shown(outcome) else {**outcome, "figures": {}} for outcome in kept]


def figures(outcome: Outcome) -> dict[str, str]:
    """File names by caption."""
    return {caption: Path(path).name for caption, path in outcome["figures"].items()}


def missing_figures(kept: Sequence[Outcome]) -> list[str]:
    """Figures that are listed but not in papers/docs/images."""
    return [name for outcome in kept for name in figures(outcome).values() if not (FIGURES / name).is_file()]


# results.md


def summary(kept: Sequence[Outcome]) -> str:
    """How many claims hold in each paper, and a row per claim."""
    papers = by_paper(kept)
    kinds = {"real data": "real", "built-in data": "built_in"}
    tallies = {kind: tally(papers, kind) for kind in kinds.values()}
    counts = [[title, str(len(papers[title])), *(tallies[kind][title] for kind in tallies)] for title in papers]
    parts = [
        "Claims that hold / do not hold / are not comparable; one that several recipes share, with the same "
        "rule and finding, counts once:",
        table(["paper", "recipes", *kinds], counts),
    ]
    real = {each.id for group in papers.values() for each in group if each.real}
    missing = [f"`{id}`" for id in recipes() if id not in real]
    parts += [f"Not run on real data: {', '.join(missing)}."] if missing else []
    for title, reproduced in papers.items():
        rows = [row for each in reproduced for row in claim_rows(each)]
        parts += [f"### {title}", table(["recipe", "claim", *kinds, "measured"], rows)]
    return "\n\n".join(parts)


def tally(papers: dict[str, list[Reproduced]], kind: str) -> dict[str, str]:
    """How many claims of each paper have each verdict; what several recipes found by the same computation counts once."""
    seen: set[tuple[str, ...]] = set()
    cells = {}
    for title, reproduced in papers.items():
        outcomes = [outcome for each in reproduced if (outcome := getattr(each, kind))]
        claims = {tuple(claim.values()): claim["verdict"] for outcome in outcomes for claim in outcome["claims"]}
        verdicts = [verdict for key, verdict in claims.items() if key not in seen]
        seen |= claims.keys()
        cells[title] = " / ".join(str(verdicts.count(verdict)) for verdict in VERDICTS) if claims else ""
    return cells


def claim_rows(reproduced: Reproduced) -> list[list[str]]:
    """A row per claim; the recipe is named in the first."""
    name, rows = f"[{reproduced.id}](papers.md#{reproduced.id.replace('/', '')})", []
    for finding in reproduced.findings:
        verdicts = ["" if claim is None else claim["verdict"] for claim in (finding.real, finding.built_in)]
        verdicts = [f"**{verdict}**" if verdict == "does not hold" else verdict for verdict in verdicts]
        rows.append([name, finding.text, *verdicts, best(finding)["found"]])
        name = ""
    return rows


# reproduce.md


def cost(kept: Sequence[Outcome]) -> str:
    """What all recipes without data take together, in a sentence."""
    built_in = [outcome for outcome in kept if not outcome["with_data"]]
    total = sum(map(spent, built_in))
    return (
        f"`hardsight reproduce all --scale small -o run` without data, from an empty cache, takes {total:,.0f} s of CPU on one "
        f"thread for {len(built_in)} recipes: {total / 60:.0f} minutes of one core."
    )


def times(kept: Sequence[Outcome]) -> str:
    """Seconds of CPU of the recipes that take long, of all others together, and in all; a star: measured on the clock."""
    columns = [{outcome["id"]: outcome for outcome in kept if outcome["with_data"] == kind} for kind in (True, False)]
    long = [id for id in recipes() if any(id in column and spent(column[id]) >= LONG for column in columns)]
    rows = [[f"`{id}`", *(seconds([column[id]]) if id in column else "" for column in columns)] for id in long]
    rows.append(["all others", *(seconds([each for id, each in column.items() if id not in long]) for column in columns)])
    rows.append(["all", *(seconds(column.values()) for column in columns)])
    return table(["recipe", "with data (s)", "without data (s)"], rows)


def spent(outcome: Outcome) -> float:
    """Seconds of CPU, or on the clock where nothing else is known."""
    seconds: float = outcome["cpu_seconds"] if "cpu_seconds" in outcome else outcome["seconds"]
    return seconds


def seconds(outcomes: Collection[Outcome]) -> str:
    """The sum over recipes, with a star where some were measured on the clock."""
    star = "*" if any("cpu_seconds" not in outcome for outcome in outcomes) else ""
    return f"{sum(map(spent, outcomes)):.0f}{star}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    cells = ([cell.replace("|", "\\|") for cell in row] for row in (head, ["---"] * len(head), *rows))
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def replace_part(text: str, name: str, part: str) -> str:
    """A page with what stands between `<!-- name: begin -->` and `<!-- name: end -->` replaced.

    Example:
        >>> replace_part("a <!-- x: begin --> old <!-- x: end --> b", "x", "new")
        'a <!-- x: begin -->\\n\\nnew\\n\\n<!-- x: end --> b'
    """
    first, last = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = text.partition(first)
    return f"{before}{first}\n\n{part}\n\n{last}{rest.partition(last)[2]}"


def copy_figures(runs: Sequence[Run], kept: Sequence[Outcome]) -> None:
    """The figures of the given runs that are kept; any other file is removed."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    shown = {name for outcome in kept for name in figures(outcome).values()}
    kinds = {outcome["id"]: outcome["with_data"] for outcome in kept if outcome["figures"]}
    for run in runs:
        for outcome in run.outcomes:
            if kinds.get(outcome["id"]) == run.with_data:
                for name in figures(outcome).values():
                    shutil.copyfile(run.directory / "figures" / name, FIGURES / name)
    for path in FIGURES.glob("*.png"):
        if path.name not in shown:
            path.unlink()


def pages(kept: Sequence[Outcome]) -> dict[Path, str]:
    """Every page by its path."""
    if missing := missing_figures(kept):
        raise SystemExit(f"{KEPT.name} lists {len(missing)} figures that {FIGURES} does not hold, such as {missing[0]}.")
    written = {DOCS / "papers.md": page(kept)}
    for name, part in (("results", summary(kept)), ("reproduce", f"{cost(kept)}\n\n{times(kept)}")):
        path = DOCS / f"{name}.md"
        written[path] = replace_part(path.read_text("utf-8"), "papers", part)
    return written


def main(names: Sequence[str]) -> None:
    """Write the pages."""
    runs = [Run.read(Path(name)) for name in names]
    kept = only_shown(update(json.loads(KEPT.read_text("utf-8")), runs))
    copy_figures(runs, kept)
    lines = ",\n".join(json.dumps(outcome, ensure_ascii=False) for outcome in kept)  # one recipe per line
    KEPT.write_text(f"[\n{lines}\n]\n", "utf-8")
    for path, text in pages(kept).items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
