"""One HTML page with every recipe that was run: claims with their verdicts, tables, figures, commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hardsight.render import captioned, escaped, page, paragraph, table
from hardsight_papers.data_folder import NAMES, missing
from hardsight_papers.outcome_files import file_name
from hardsight_papers.recipe import Claim, Outcome, Recipe, Table
from hardsight_papers.verdicts import VERDICTS, what_is_missing

STYLE = """
.contents td { padding: .1rem .6rem } .contents a { text-decoration: none } .contents td + td.word { white-space: normal }
.contents .paper { padding-top: 1rem }
.claims { list-style: none; padding: 0; max-width: 62rem }
.claims li { margin: .5rem 0; padding-left: .7rem; border-left: 3px solid #8886 }
.claims .holds { border-color: #0072b2 } .claims .does-not-hold { border-color: #d55e00 }
.verdict { font-weight: 600 } .holds .verdict { color: #0072b2 } .does-not-hold .verdict { color: #d55e00 }
.rule { color: #777; font-size: 14px }
h2 .id { font-family: ui-monospace, monospace; font-size: .85em; color: #777; font-weight: 400 }
h3 { font-size: 1rem; margin: 1rem 0 .2rem } p { max-width: 62rem }
figcaption { color: #777; font-size: 14px } section { border-top: 1px solid #8884; margin-top: 2rem }
"""

WORDS = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "inconclusive": ("is inconclusive", "are inconclusive"),
    "not comparable": ("is not comparable", "are not comparable"),
}
TITLES = {
    "avh": "Angular Visual Hardness (Chen et al., ICML 2020)",
    "slides": "Its slides and discussion",
    "lgm": "Rethinking Feature Distribution for Loss Functions: L-GM (Wan et al., CVPR 2018)",
    "losses": "Abstracts about losses",
}


def write_page(
    recipes: Sequence[Recipe], outcomes: Mapping[str, Outcome], skipped: Mapping[str, str], scale: str, data: Sequence[str] = ()
) -> str:
    """The page as text; `data` names the data sets that were there."""
    claims = [claim for outcome in outcomes.values() for claim in outcome.claims]
    sentence = (
        f"Tables and figures of the papers, run at scale {scale} on {_data(data)}: our numbers next to the printed ones, each "
        f"claim with the rule that decides it. {_counted(claims)}. Nothing was tuned to agree, and what an "
        "interval cannot tell is inconclusive."
    )
    papers = list(TITLES)
    done = [recipe for recipe in recipes if recipe.id in outcomes]
    done.sort(key=lambda each: papers.index(each.id.partition("/")[0]))
    left_out = [paragraph(f"Not run: {id}. {reason}", "quiet") for id, reason in skipped.items()]
    if data:
        left_out.append(paragraph(f"Not in --data: {', '.join(missing(data, scale)) or 'nothing'}.", "quiet"))
    contents = _contents(done, outcomes) if len(done) > 1 else ""
    sections = [_section(recipe, outcomes[recipe.id]) for recipe in done]
    return page("The papers, reproduced", sentence, contents, *left_out, *sections, style=STYLE)


def _data(names: Sequence[str]) -> str:
    """What the recipes were run on.

    Example:
        >>> _data(["mnist", "usps"]), _data([])
        ('mnist.npz, usps.npz, built-in and generated data', 'built-in and generated data')
    """
    return ", ".join([*(NAMES[name] for name in names), "built-in and generated data"])


def _counted(claims: Sequence[Claim]) -> str:
    """How many hold; a claim that several recipes share, with the same rule and finding, counts once."""
    distinct = set(claims)
    counts = [(sum(claim.verdict == verdict for claim in distinct), verdict) for verdict in VERDICTS]
    repeated = f", each counted once ({len(claims)} with repetitions)," if len(distinct) < len(claims) else ""
    words = [f"{count} {WORDS[verdict][count != 1]}" for count, verdict in counts]
    return f"Of {len(distinct)} claims{repeated} {', '.join(words)}"


def _contents(recipes: Sequence[Recipe], outcomes: Mapping[str, Outcome]) -> str:
    lines = ["<tr><th class='word'>id<th class='word'>what" + "".join(f"<th>{verdict}" for verdict in VERDICTS)]
    paper = ""
    for recipe in recipes:
        if recipe.id.partition("/")[0] != paper:
            paper = recipe.id.partition("/")[0]
            lines.append(f'<tr><th class="word paper" colspan="{2 + len(VERDICTS)}">{escaped(TITLES[paper])}')
        counts = [sum(claim.verdict == verdict for claim in outcomes[recipe.id].claims) for verdict in VERDICTS]
        link = f'<a href="#{file_name(recipe.id)}">{escaped(recipe.id)}</a>'
        cells = "".join(f"<td>{count or ''}" for count in counts)
        lines.append(f"<tr><td class='word'>{link}<td class='word'>{escaped(recipe.title)}{cells}")
    return '<div class="wide"><table class="contents">\n' + "\n".join(lines) + "\n</table></div>"


def _section(recipe: Recipe, outcome: Outcome) -> str:
    title = f'<h2 id="{file_name(recipe.id)}">{escaped(recipe.title)} <span class="id">{escaped(recipe.id)}</span></h2>'
    parts = [title, paragraph(outcome.about), _claims(outcome.claims), *map(_table, outcome.tables), _figures(outcome)]
    if outcome.commands:
        parts.append(f"<pre>{escaped(chr(10).join(outcome.commands))}</pre>")
    return "<section>\n" + "\n".join(part for part in parts if part) + "\n</section>"


def _claims(claims: Sequence[Claim]) -> str:
    items = [
        f'<li class="{file_name(claim.verdict)}"><span class="verdict">{claim.verdict}</span>: {escaped(claim.text)} '
        f'{escaped(claim.found)}{escaped(_missing(claim))}<br><span class="rule">Rule: {escaped(claim.rule)}</span></li>'
        for claim in claims
    ]
    return '<ul class="claims">\n' + "\n".join(items) + "\n</ul>" if items else ""


def _missing(claim: Claim) -> str:
    words = what_is_missing(claim)
    return f" ({words})" if words else ""


def _table(shown: Table) -> str:
    note = paragraph(shown.note, "quiet") if shown.note else ""
    return f"<h3>{escaped(shown.title)}</h3>\n{table(shown.header, shown.cells(), words=shown.words)}\n{note}"


def _figures(outcome: Outcome) -> str:
    return "\n".join(captioned(Path(str(path)), caption) for caption, path in outcome.figures.items())
