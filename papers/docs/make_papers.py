"""Write what `hardsight reproduce` found into the files beside this one:

python papers/docs/make_papers.py [RUN ...]

papers.json     every claim with its effect and verdict: the latest with --data, and without; those of the given runs replace
                older ones. reproduce.md says what its fields mean
outcomes.json   the tables and figures of every recipe. Of figures it lists those that papers.md shows
papers.md       every recipe: command, claims with verdict and rule, figures, and the tables that stand in a paper
results.md      a row per claim: its verdict on real and on built-in data
reproduce.md    how long the recipes take
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from hardsight_papers.catalog import recipes
from hardsight_papers.outcome_files import read_claim
from hardsight_papers.page import TITLES
from hardsight_papers.recipe import Table
from hardsight_papers.verdicts import VERDICTS, Claim, what_is_missing

DOCS = Path(__file__).resolve().parent
CLAIMS, OUTCOMES = DOCS / "papers.json", DOCS / "outcomes.json"
FIGURES = DOCS / "images"
PHOTOGRAPHS = ("avh/fig1", "avh/fig21", "slides/disagreement")  # images of the data sets themselves: they stay out of the docs
SIGNS: dict[str, str] = dict(zip(VERDICTS, ("✓", "✗", "?", "–"), strict=True))
LONG = 10  # seconds: recipes below that share a row
SMALL = "small"  # the scale of what does not say another one
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A run directory of `hardsight reproduce`."""

    directory: Path
    outcomes: list[Outcome]
    with_data: bool
    scale: str = SMALL

    @classmethod
    def read(cls, directory: Path) -> Run:
        """The outcomes that are there: of an interrupted run those of its finished recipes."""
        start = json.loads((directory / "start.json").read_text("utf-8"))
        files = {path.stem: path for path in (directory / "outcomes").glob("*.json")}
        names = [id.replace("/", "-") for id in start["arguments"]["ids"]]
        outcomes = [json.loads(files[name].read_text("utf-8")) for name in names if name in files]
        return cls(directory, outcomes, bool(start["inputs"]["data"]), start["arguments"]["scale"])


@dataclass(frozen=True)
class Finding:
    """One claim of a recipe, as judged on real data and on built-in data; either may be missing."""

    text: str
    real: Claim | None
    built_in: Claim | None

    @property
    def best(self) -> Claim:
        """The claim on real data, or else on built-in data."""
        claim = self.real or self.built_in
        assert claim is not None
        return claim


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

    @property
    def best(self) -> Outcome:
        """The outcome on real data, or else on built-in data."""
        outcome = self.real or self.built_in
        assert outcome is not None
        return outcome


def claims_by_text(outcome: Outcome | None) -> dict[str, Claim]:
    """The claims of an outcome; no two of a recipe may have the same text."""
    claims = [] if outcome is None else [read_claim(claim) for claim in outcome["claims"]]
    by_text = {claim.text: claim for claim in claims}
    assert len(by_text) == len(claims), f"{outcome['id'] if outcome else ''} makes a claim twice"
    return by_text


def update(kept: Sequence[Outcome], runs: Sequence[Run]) -> list[Outcome]:
    """What is kept, with the outcomes of `runs` in place of older ones of the same recipe."""
    latest = {(outcome["with_data"], outcome["id"]): outcome for outcome in kept}
    for run in runs:
        about = {"with_data": run.with_data} | ({} if run.scale == SMALL else {"scale": run.scale})
        latest |= {(run.with_data, outcome["id"]): {**about, **outcome} for outcome in run.outcomes}
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


# papers.json and outcomes.json


def claim_rows_of(outcome: Outcome) -> list[dict[str, Any]]:
    """The claims of an outcome as papers.json has them."""
    recipe, rows = recipes()[outcome["id"]], []
    for number, stored in enumerate(outcome["claims"], start=1):
        claim = read_claim(stored)
        deciding = claim.deciding
        seeds = [effect.n for effect in claim.effects if effect.unit in ("seeds", "draws")]
        rows.append(
            {
                "id": f"{recipe.id}#{number}",
                "paper": TITLES[recipe.id.partition("/")[0]],
                "sentence": claim.text,
                "rule": claim.rule,
                "smallest_effect": deciding and deciding.smallest,
                "estimate": deciding and deciding.estimate,
                "interval": deciding and [deciding.low, deciding.high],
                "verdict": claim.verdict,
                "found": claim.found,
                "missing": what_is_missing(claim),
                "effects": [{**stored_effect, "verdict": effect.verdict} for stored_effect, effect in
                            zip(stored["effects"], claim.effects, strict=True)],
                "post_hoc": claim.post_hoc,
                "real_data": outcome["with_data"],
                "data": outcome["about"],
                "seeds": max((n for n in seeds if n), default=None),
                "seconds": spent(outcome),
                "command": command(outcome),
            }
        )  # fmt: skip
    return rows


def command(outcome: Outcome) -> str:
    """What runs the recipe as it was run."""
    scale = f" --scale {outcome['scale']}" if "scale" in outcome else ""
    return f"hardsight reproduce {outcome['id']}{scale}{' --data DIR' if outcome['with_data'] else ''}"


def stored_claim(row: dict[str, Any]) -> dict[str, Any]:
    """A row of papers.json as an outcome keeps it."""
    effects = [{name: value for name, value in effect.items() if name != "verdict"} for effect in row["effects"]]
    return {"text": row["sentence"], **{name: row[name] for name in ("rule", "found", "verdict", "post_hoc")}, "effects": effects}


def read_kept() -> list[Outcome]:
    """Outcomes with their claims, from the two files."""
    outcomes: list[Outcome] = json.loads(OUTCOMES.read_text("utf-8"))
    rows = json.loads(CLAIMS.read_text("utf-8"))["claims"]
    for outcome in outcomes:
        own = [row for row in rows if row["id"].partition("#")[0] == outcome["id"] and row["real_data"] == outcome["with_data"]]
        outcome["claims"] = [stored_claim(row) for row in own]
    return outcomes


def write_kept(kept: Sequence[Outcome]) -> None:
    """The two files, a claim and a recipe per line."""
    claims = ",\n".join(json.dumps(row, ensure_ascii=False) for outcome in kept for row in claim_rows_of(outcome))
    CLAIMS.write_text(f'{{"schema": 1, "claims": [\n{claims}\n]}}\n', "utf-8")
    without = [{name: value for name, value in outcome.items() if name != "claims"} for outcome in kept]
    OUTCOMES.write_text("[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in without) + "\n]\n", "utf-8")


# papers.md


def page(kept: Sequence[Outcome]) -> str:
    """Every recipe in full."""
    parts = [
        "# The papers, recipe by recipe",
        "Our numbers next to the printed ones, and every claim with the rule that decides it. Nothing was tuned to agree with a "
        "paper. All verdicts in one place: [results](results.md#the-papers-reproduced). How to run a recipe: "
        "[reproduce](reproduce.md). This page is generated from the runs by `python papers/docs/make_papers.py RUN ...`.",
    ]
    shown: dict[str, str] = {}  # rule, or row of a table -> the recipe that states it first
    for title, reproduced in by_paper(kept).items():
        parts += [f"## {title}", *(section(each, shown) for each in reproduced)]
    return "\n\n".join(parts) + "\n"


def section(reproduced: Reproduced, shown: dict[str, str]) -> str:
    """One recipe: what was run, claims, figures, and the tables of a table."""
    outcome = reproduced.best
    parts = [
        f"### {reproduced.id}",
        f"**{recipes()[reproduced.id].title}** `{command(outcome)}`",
        outcome["about"],
    ]
    parts += ["\n".join(bullet(finding, reproduced.id, shown) for finding in reproduced.findings)] if reproduced.findings else []
    for content in outcome["tables"] if "/table" in reproduced.id else ():
        cells = Table(**content)
        rows = {" ".join(row): reproduced.id for row in cells.cells()}
        if not rows.keys() <= shown.keys():  # Tables 6 to 9 repeat rows of Table 2
            parts += [f"{cells.title}:", table(cells.header, cells.cells())] + ([cells.note] if cells.note else [])
        shown.update(rows)
    parts += [f"![{caption}](images/{name})" for caption, name in figures(outcome).items()]
    return "\n\n".join(parts)


def bullet(finding: Finding, id: str, shown: dict[str, str]) -> str:
    """A claim with its verdicts and its rule, or the recipe that has stated the rule already."""
    claim = finding.best
    first = shown.setdefault(claim.rule, id)
    rule = f"Rule: {claim.rule}" if first == id else f"Rule: that of {first}."
    missing = what_is_missing(claim)
    words = claim.found + (f" ({missing[0].upper()}{missing[1:]}.)" if missing else "")
    lines = [f"- {SIGNS[claim.verdict]} **{finding.text}** {claim.verdict.capitalize()}: {words}"]
    if finding.real and finding.built_in and finding.built_in.verdict != finding.real.verdict:
        lines.append(f"On built-in data: {finding.built_in.verdict}. {finding.built_in.found}")
    post_hoc = " Written, or changed, after a first result had been seen." if claim.post_hoc else ""
    return "<br>\n  ".join([*lines, f"*{rule}*{post_hoc}"])


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
    counts.append(["all", str(sum(map(len, papers.values()))), *(total(tally.values()) for tally in tallies.values())])
    parts = [
        "Claims that hold / do not hold / are inconclusive / are not comparable; one that several recipes share, with the same "
        "rule and finding, counts once:",
        table(["paper", "recipes", *kinds], counts),
        "A claim without an interval is arithmetic, or was seen once. Such are "
        + "; ".join(
            f"on {name} {without_interval([claim for claims in counted(papers, kind).values() for claim in claims])}"
            for name, kind in kinds.items()
        )
        + ".",
    ]
    real = {each.id for group in papers.values() for each in group if each.real}
    missing = [f"`{id}`" for id in recipes() if id not in real]
    parts += [f"Not run on real data: {', '.join(missing)}."] if missing else []
    for title, reproduced in papers.items():
        rows = [row for each in reproduced for row in claim_rows(each)]
        parts += [f"### {title}", table(["recipe", "claim", *kinds], rows)]
    return "\n\n".join(parts)


def tally(papers: dict[str, list[Reproduced]], kind: str) -> dict[str, str]:
    """How many claims of each paper have each verdict."""
    cells = {}
    for title, claims in counted(papers, kind).items():
        verdicts = [claim.verdict for claim in claims]
        known = any(getattr(each, kind) for each in papers[title])
        cells[title] = " / ".join(str(verdicts.count(verdict)) for verdict in VERDICTS) if known else ""
    return cells


def counted(papers: dict[str, list[Reproduced]], kind: str) -> dict[str, set[Claim]]:
    """The claims of each paper; what several recipes found by the same computation counts once."""
    seen: set[Claim] = set()
    claims_of = {}
    for title, reproduced in papers.items():
        outcomes = [outcome for each in reproduced if (outcome := getattr(each, kind))]
        claims = {claim for outcome in outcomes for claim in claims_by_text(outcome).values()}
        claims_of[title] = claims - seen
        seen |= claims
    return claims_of


def without_interval(claims: Collection[Claim]) -> str:
    """How many of those that hold, and of the inconclusive ones, have no interval.

    Example:
        >>> without_interval([Claim("It is.", "", "", "holds"), Claim("It may.", "", "", "inconclusive")])
        '1 of the 1 that hold and 1 of the 1 that are inconclusive'
    """
    parts = []
    for verdict, words in (("holds", "hold"), ("inconclusive", "are inconclusive")):
        bare = [claim.deciding is None or not isfinite(claim.deciding.low) for claim in claims if claim.verdict == verdict]
        parts.append(f"{sum(bare)} of the {len(bare)} that {words}")
    return " and ".join(parts)


def total(cells: Iterable[str]) -> str:
    """The sum of tallies.

    Example:
        >>> total(["1 / 2", "", "3 / 0"])
        '4 / 2'
    """
    numbers = [[int(part) for part in cell.split(" / ")] for cell in cells if cell]
    return " / ".join(str(sum(column)) for column in zip(*numbers, strict=True))


def claim_rows(reproduced: Reproduced) -> list[list[str]]:
    """A row per claim; the recipe is named in the first."""
    name, rows = f"[{reproduced.id}](papers.md#{reproduced.id.replace('/', '')})", []
    for finding in reproduced.findings:
        verdicts = ["" if claim is None else claim.verdict for claim in (finding.real, finding.built_in)]
        verdicts = [f"**{verdict}**" if verdict == "does not hold" else verdict for verdict in verdicts]
        rows.append([name, finding.text + (" †" if finding.best.post_hoc else ""), *verdicts])
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
    """Seconds of CPU: of recipes that take long, of all others together, in all; a star: on the clock."""
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
    """The sum over recipes, with a star where some were measured on the clock, and the scale if none is of scale small."""
    star = "*" if any("cpu_seconds" not in outcome for outcome in outcomes) else ""
    scales = {outcome.get("scale", SMALL) for outcome in outcomes}
    return f"{sum(map(spent, outcomes)):.0f}{star}" + (f" at `--scale {scales.pop()}`" if scales and SMALL not in scales else "")


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
        raise SystemExit(f"{OUTCOMES.name} lists {len(missing)} figures that {FIGURES} does not hold, such as {missing[0]}.")
    written = {DOCS / "papers.md": page(kept)}
    for name, part in (("results", summary(kept)), ("reproduce", f"{cost(kept)}\n\n{times(kept)}")):
        path = DOCS / f"{name}.md"
        written[path] = replace_part(path.read_text("utf-8"), "papers", part)
    return written


def main(names: Sequence[str]) -> None:
    """Write the pages."""
    runs = [Run.read(Path(name)) for name in names]
    kept = only_shown(update(read_kept(), runs))
    copy_figures(runs, kept)
    write_kept(kept)
    for path, text in pages(kept).items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
