"""Write what `hardsight reproduce` found into the docs, from its runs:

python docs/make_papers.py [RUN ...]

docs/papers.json    what each recipe found last, with data and without; recipes of the given runs replace what it held of them
docs/papers.md      claims, tables, figures, commands; of recipes that were run with data and without, the verdicts of the latter
docs/results.md     verdicts by recipe, and every claim that did not hold
docs/reproduce.md   verdicts of the abstracts about losses, and seconds by recipe
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardsight.paper.catalogue import recipes
from hardsight.paper.recipe import VERDICTS, Table

DOCS = Path(__file__).resolve().parent
KEPT = DOCS / "papers.json"
SHOWN = (  # of these the figures are in the docs: no photographs of others
    "avh/fig2", "avh/fig3", "avh/fig4", "avh/fig5", "avh/fig16", "avh/fig19", "avh/fig20", "avh/fig22", "slides/curriculum",
    "slides/discovery5", "slides/fairness", "slides/imbalance", "slides/open-set", "slides/theory", "lgm/calibration", "lgm/fig1",
    "lgm/fig2", "lgm/fig3", "lgm/fig4", "lgm/table6", "lgm/verification", "losses/collapse", "losses/comp-sum", "losses/ldr",
    "losses/temperature",
)  # fmt: skip
FIGURES = DOCS / "images" / "papers"
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """Outcomes in their order and what they were run on: those of a run, or the last of each recipe of many runs."""

    directory: Path
    outcomes: list[Outcome]
    data: list[str]

    @classmethod
    def read(cls, directory: Path) -> Run:
        """A run from disk."""
        start = json.loads((directory / "start.json").read_text("utf-8"))
        files = {path.stem: path for path in (directory / "outcomes").glob("*.json")}
        outcomes = [
            json.loads(files[name].read_text("utf-8")) for id in start["arguments"]["ids"] if (name := file_name(id)) in files
        ]
        return cls(directory, outcomes, start["inputs"]["data"])

    @property
    def title(self) -> str:
        """With or without data."""
        return "With data" if self.data else "Without data"

    @property
    def claims(self) -> list[dict[str, str]]:
        """All claims, each with the id of its recipe."""
        return [{"id": outcome["id"], **claim} for outcome in self.outcomes for claim in outcome["claims"]]

    @property
    def counted(self) -> str:
        """How many claims hold."""
        verdicts = [claim["verdict"] for claim in self.claims]
        return f"{len(verdicts)} claims: " + ", ".join(f"{name} {verdicts.count(name)}" for name in VERDICTS)


def last_of_each(kept: Sequence[Outcome], runs: Sequence[Run]) -> list[Outcome]:
    """What was kept with the outcomes of runs in the place of those of the same recipe; `with_data` tells the two kinds."""
    found = {(outcome["with_data"], outcome["id"]): outcome for outcome in kept}
    for run in runs:
        found |= {(bool(run.data), outcome["id"]): {"with_data": bool(run.data), **outcome} for outcome in run.outcomes}
    return [found[kind, id] for kind in (True, False) for id in recipes() if (kind, id) in found]


def as_runs(kept: Sequence[Outcome]) -> list[Run]:
    """What was kept, as a run with data and one without."""
    kinds = {kind: [outcome for outcome in kept if outcome["with_data"] == kind] for kind in (True, False)}
    return [Run(DOCS, outcomes, ["some"] if kind else []) for kind, outcomes in kinds.items() if outcomes]


def file_name(id: str) -> str:
    """The name of a recipe's files."""
    return id.replace("/", "-")


def page(runs: Sequence[Run]) -> str:
    """docs/papers.md."""
    parts = [
        "# What the papers' recipes found",
        "Made by `python docs/make_papers.py` from runs of [`hardsight reproduce`](reproduce.md): our numbers beside the printed "
        "ones, and each claim with the rule that decides it. Nothing was adjusted to agree.",
    ]
    told: set[str] = set()
    for run in runs:
        parts += [f"## {run.title}", f"{len(run.outcomes)} recipes, {run.counted}.{_not_run(run, recipes())}"]
        parts += [_section(run, outcome) for outcome in run.outcomes if outcome["id"] not in told]
        twice = [outcome for outcome in run.outcomes if outcome["id"] in told]
        if twice:
            parts += [f"### {run.title}: the recipes above", verdicts(Run(run.directory, twice, run.data))]
        told |= {outcome["id"] for outcome in run.outcomes}
    return "\n\n".join(parts) + "\n"


def _not_run(run: Run, ids: Iterable[str]) -> str:
    """A sentence that names the recipes without an outcome."""
    known = {outcome["id"] for outcome in run.outcomes}
    missing = [f"`{id}`" for id in ids if id not in known]
    return f" Not run {run.title.lower()}: {', '.join(missing)}." if missing else ""


def verdicts(run: Run) -> str:
    """One row per claim."""
    rows = [[f"`{claim['id']}`", claim["text"], claim["verdict"], claim["found"]] for claim in run.claims]
    return table(["id", "claim", "verdict", "found"], rows)


def about_losses(runs: Sequence[Run]) -> str:
    """The part of docs/reproduce.md on the abstracts about losses: the verdicts of runs without data."""
    measured = [outcome for run in runs if not run.data for outcome in run.outcomes if outcome["id"].startswith("losses/")]
    run, ids = Run(DOCS, measured, []), [id for id in recipes() if id.startswith("losses/")]
    counted = f"Without data, {len(measured)} of {len(ids)} recipes, {run.counted}.{_not_run(run, ids)}"
    return "\n\n".join([counted, verdicts(run)])


def _section(run: Run, outcome: Outcome) -> str:
    data = " --data DIR" if run.data else ""
    parts = [f"### {outcome['id']}: {outcome['title']}", f"`hardsight reproduce {outcome['id']}{data}`. {outcome['about']}"]
    claims = [
        f"- **{claim['verdict']}**: {claim['text']} {claim['found']} *Rule: {claim['rule']}*" for claim in outcome["claims"]
    ]
    parts += ["\n".join(claims)] if claims else []
    for content in outcome["tables"]:
        shown = Table(**content)
        parts += [f"{shown.title}:", table(shown.header, shown.cells())] + ([shown.note] if shown.note else [])
    names = {caption: Path(path).name for caption, path in outcome["figures"].items()} if outcome["id"] in SHOWN else {}
    parts += [f"![{caption}](images/papers/{name})" for caption, name in names.items() if (FIGURES / name).exists()]
    if outcome["commands"]:
        parts.append("Commands: " + "; ".join(f"`{command}`" for command in outcome["commands"]) + ".")
    return "\n\n".join(parts)


def summary(runs: Sequence[Run]) -> str:
    """The part of docs/results.md: a row per recipe, and every claim that did not hold; of recipes that were run with data,
    with data alone."""
    parts: list[str] = []
    told: set[str] = set()
    for run in runs:
        rows = []
        for outcome in run.outcomes:
            found = [claim["verdict"] for claim in outcome["claims"]]
            rows.append([f"`{outcome['id']}`", outcome["title"], *(str(found.count(name) or "") for name in VERDICTS)])
        failed = [
            f"- `{claim['id']}`: {claim['text']} {claim['found']}"
            for claim in run.claims
            if claim["verdict"] == VERDICTS[1] and claim["id"] not in told
        ]
        more = ", of recipes that were not run with data" if told else ""
        parts += [f"### {run.title}: {run.counted}", table(["id", "what", *VERDICTS], rows)]
        parts += [f"What did not hold{more}:", "\n".join(failed)] if failed else []
        told |= {outcome["id"] for outcome in run.outcomes}
    return "\n\n".join(parts)


def times(runs: Sequence[Run]) -> str:
    """The part of docs/reproduce.md: seconds by recipe, and their sum; of CPU time where all recipes of a column have it."""
    columns: dict[str, dict[str, float]] = {}
    for run in runs:
        kind = "cpu_seconds" if all("cpu_seconds" in outcome for outcome in run.outcomes) else "seconds"
        words = f"{run.title.lower()} ({'s of CPU' if kind == 'cpu_seconds' else 's on the clock'})"
        columns[words] = {outcome["id"]: outcome[kind] for outcome in run.outcomes}
    ids = dict.fromkeys(id for column in columns.values() for id in column)
    rows = [[f"`{id}`", *(f"{column[id]:.0f}" if id in column else "" for column in columns.values())] for id in ids]
    rows.append(["all", *(f"{sum(column.values()):.0f}" for column in columns.values())])
    return table(["id", *columns], rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    cells = ([cell.replace("|", "\\|") for cell in row] for row in (head, ["---"] * len(head), *rows))
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def replace_part(text: str, name: str, part: str) -> str:
    """A page with what stands between `<!-- name: begin -->` and `<!-- name: end -->` replaced, where it has such a place.

    Example:
        >>> replace_part("a <!-- x: begin --> old <!-- x: end --> b", "x", "new")
        'a <!-- x: begin -->\\n\\nnew\\n\\n<!-- x: end --> b'
    """
    first, last = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = text.partition(first)
    if not found:
        return text
    return f"{before}{first}\n\n{part}\n\n{last}{rest.partition(last)[2]}"


def copy_figures(runs: Sequence[Run], kept: Sequence[Outcome]) -> None:
    """The figures that docs/papers.md shows: of a recipe that was ever run with data, those with data."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    with_data = {outcome["id"] for outcome in kept if outcome["with_data"]}
    for run in runs:
        for outcome in run.outcomes:
            if outcome["id"] in SHOWN and bool(run.data) == (outcome["id"] in with_data):
                for path in outcome["figures"].values():
                    shutil.copyfile(run.directory / path, FIGURES / Path(path).name)


def main(names: Sequence[str]) -> None:
    """Write the pages."""
    given = [Run.read(Path(name)) for name in names]
    kept = last_of_each(json.loads(KEPT.read_text("utf-8")), given)
    copy_figures(given, kept)
    lines = ",\n".join(json.dumps(outcome, ensure_ascii=False) for outcome in kept)  # a recipe a line
    KEPT.write_text(f"[\n{lines}\n]\n", "utf-8")
    for path, text in pages(as_runs(kept)).items():
        path.write_text(text, "utf-8")


def pages(runs: Sequence[Run]) -> dict[Path, str]:
    """Every page by its path."""
    written = {DOCS / "papers.md": page(runs)}
    for name, parts in (
        ("results", {"papers": summary(runs)}),
        ("reproduce", {"losses": about_losses(runs), "papers": times(runs)}),
    ):
        place = DOCS / f"{name}.md"
        text = place.read_text("utf-8")
        for part, content in parts.items():
            text = replace_part(text, part, content)
        written[place] = text
    return written


if __name__ == "__main__":
    main(sys.argv[1:])
