"""`Checked`, what `check` found: its counts, the worst samples and why, and what the rules of a data test make of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa

from hardsight.checking.settings import RuleOutcome
from hardsight.data.image_quality import ISSUES
from hardsight.files.places import place
from hardsight.files.suspects import AMBIGUOUS, DUPLICATE_OF, HARD, OUTLIER, suspects_notes
from hardsight.files.writing import write_text
from hardsight.result import Result
from hardsight.screen import Sentence, ShownTable, line, printable

WORST = 5  # samples that are printed with why
SHOWN = 10  # samples in a notebook, and that a failure in JUnit names
KINDS = ("label_errors", "leaks", "outliers", "doubtful", "duplicates", "verdicts", "odd")  # of samples to look at, in order
COPIES = ("copy", "near copy")
COUNTED = {"duplicates": "duplicate{s}", "leaks": "leak{s} between splits", "outliers": "outlier{s}", "unreadable": "unreadable"}


class Checked(Result):
    """One row per sample: what is wrong with it, and why.

    Args:
        table: as `clean` gives it, with further columns `image_issues` and `leak`; how it leaks is in the explanation.
        figures: the counts that rules are about, None where they cannot be told.
        outcomes: of the rules.
        noun: what a sample is called.
        notes: what to know before anything else, one sentence each.
        run: the directory of the run and its report.
    """

    by, counted = "error_score", "verdict"
    shown = ("id", "given_label", "suggested_label", "verdict", "explanation", "image_issues")

    def __init__(
        self, table: pa.Table, figures: Mapping[str, float | None], outcomes: Sequence[RuleOutcome] = (), *,
        noun: str = "samples", notes: Sequence[str] = (), run: Path | None = None,
    ) -> None:  # fmt: skip
        super().__init__(table, notes, run)
        self.counts, self.outcomes, self.noun = dict(figures), list(outcomes), noun

    @property
    def failed(self) -> list[RuleOutcome]:
        """The rules that failed."""
        return [outcome for outcome in self.outcomes if outcome.failed]

    @property
    def report(self) -> Path | None:
        """The report, if one was written."""
        return None if self.run is None else self.run / "report.html"

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """What was found, the worst samples with why, and what the rules say."""
        yield line(self._of_labels(), **{name: value for name, value in self.counts.items() if value is not None})
        yield line(self._of_samples(), samples=len(self), rules=[outcome.record for outcome in self.outcomes])
        for row in self.worst(WORST):
            yield line(f"  {printable(str(row['id']))}: {self.why(row)}")
        for outcome in self.outcomes:
            yield line(outcome.sentence)

    def sentences(self) -> list[str]:
        """What was found in all, and what to know of it: the first lines of the report."""
        return [f"{words[0].upper()}{words[1:]}." for words in (self._of_labels(), self._of_samples())] + self.notes

    def _of_labels(self) -> str:
        flagged, notes = self.counts["label_errors"], suspects_notes(self.table)
        labeled = self.table.column("given_label").drop_null()
        classes = len(notes.get("class_names") or labeled.unique())  # also those that are not checked
        kinds = f" of {classes:,} {'classes' if classes != 1 else 'class'}"
        words = f"{len(self):,} {self.noun}" + (kinds if len(labeled) else ", unlabeled")
        if flagged is None:
            return f"{words}: no labels were checked"
        expected = f"{notes['expected_errors_low']:.0f} to {notes['expected_errors_high']:.0f} expected"
        precision = notes.get("precision")
        sure = f", about {precision * flagged:.0f} of them expected to be wrong" if isinstance(precision, float) else ""
        unseen = "the model says, if it was not trained on them"
        unseen = "a model that has not seen them says" if notes["evidence"] == "out-of-sample" else unseen
        agreement = f"{100 * notes['agreement']:.0f} % of the labels are what {unseen}"
        flags = f"{flagged:,.0f} {'label is' if flagged == 1 else 'labels are'} flagged{sure}"
        return f"{words}: {flags} ({expected} in all); {agreement}"

    def _of_samples(self) -> str:
        known = {name: self.counts[name] for name in COUNTED if self.counts[name] is not None}
        said = [f"{value:,.0f} {COUNTED[name].format(s='s' * (value != 1))}" for name, value in known.items()]
        quality = Counter(word for words in self.table.column("image_issues").to_pylist() for word in (words or "").split(", "))
        odd = [f"{quality[name]:,} {name}" for name in ISSUES if quality[name] and name not in (*COPIES, "unreadable")]
        return ", ".join(said) + (f"; images: {', '.join(odd)}" if odd else "")

    def worst(self, count: int) -> list[dict[str, Any]]:
        """The rows to look at first: those of the failed rules in turn, then by KINDS; the most likely wrong first."""
        kinds = self._by_kind()
        failed = [kinds.pop(name) for name in {o.rule.figure: None for o in self.failed} if name in kinds]
        in_turn = [row for turn in zip_longest(*failed) for row in turn if row is not None]
        return [*in_turn, *chain(*kinds.values())][:count]

    def _by_kind(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of each kind; labels are doubtful that are not flagged, as many as may be wrong in all."""
        rows = sorted(self.table.to_pylist(), key=lambda row: (row["error_score"] is None, -(row["error_score"] or 0.0)))
        kinds: dict[str, list[dict[str, Any]]] = {name: [] for name in KINDS}
        doubtful = round(suspects_notes(self.table).get("expected_errors_high", 0))
        for rank, row in enumerate(rows):
            verdict, twin = row["verdict"], row[DUPLICATE_OF]
            doubted = rank < doubtful and verdict in (AMBIGUOUS, HARD)
            why = (row["is_label_issue"], row["leak"], verdict == OUTLIER, doubted, twin, verdict, row["image_issues"])
            for kind in [kind for kind, holds in zip(KINDS, why, strict=True) if holds][:1]:
                kinds[kind].append(row)
        return kinds

    def why(self, row: Mapping[str, Any]) -> str:
        """Why a sample is among the worst."""
        return "; ".join(filter(None, (row["explanation"], row["image_issues"]))) or f"a copy of {row[DUPLICATE_OF]}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """As a `Result`; the rules as JUnit (.xml), the figures and rules as Markdown (.md)."""
        ending = place(path).suffix.lower()
        if ending in (".xml", ".md"):
            write_text(place(path), self._junit() if ending == ".xml" else self._markdown())
        else:
            super().save(path)

    def _junit(self) -> str:
        """A test case per rule, or one that passes where there is none."""
        suite = ElementTree.Element("testsuite", name="hardsight check", tests=str(len(self.outcomes) or 1))
        suite.set("failures", str(len(self.failed)))
        suite.set("skipped", str(sum(outcome.failed is None for outcome in self.outcomes)))
        kinds = self._by_kind()
        for outcome in self.outcomes:
            case = ElementTree.SubElement(suite, "testcase", classname="hardsight", name=_xml(outcome.rule.text))
            if outcome.failed is not False:
                blamed = [f"{row['id']}: {self.why(row)}" for row in kinds.get(outcome.rule.figure, ())[:SHOWN]]
                part = ElementTree.SubElement(case, "failure" if outcome.failed else "skipped", message=_xml(outcome.sentence))
                part.text = _xml("\n".join(blamed))
        if not self.outcomes:
            ElementTree.SubElement(suite, "testcase", classname="hardsight", name="check")
        output = ElementTree.SubElement(suite, "system-out")
        output.text = _xml("\n".join(item.text for item in self.lines() if isinstance(item, Sentence)))
        ElementTree.indent(suite)
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'

    def _markdown(self) -> str:
        """Two tables and the worst samples, for the summary of a CI job."""
        rows = [("figure", "value"), ("---", "---:"), ("samples", f"{len(self):,}")]
        for name, value in self.counts.items():
            shown = "cannot tell" if value is None else f"{100 * value:.1f} %" if name == "accuracy" else f"{value:,.0f}"
            rows.append((name, shown))
        parts = ["**hardsight check**", "", *(f"| {name} | {value} |" for name, value in rows), ""]
        parts += [f"- {_markdown(outcome.sentence)}" for outcome in self.outcomes]
        parts += ["", *(f"- {_markdown(str(row['id']))}: {_markdown(self.why(row))}" for row in self.worst(WORST))]
        parts += ["", *(f"> {_markdown(note)}" for note in self.notes)]
        return "\n".join(parts).rstrip() + "\n"

    # The first screen of the report: what was found, and the worst samples with their images

    def _sentences(self) -> list[str]:
        notes = [f"warning: {text}" for text in self.notes]
        notes += [self._of_labels(), self._of_samples(), *(outcome.sentence for outcome in self.outcomes)]
        return notes + ([] if self.report is None else [f"report: {self.report}"])

    def _first_rows(self) -> tuple[str, pa.Table]:
        ids, worst = self.table.column("id").to_pylist(), self.worst(SHOWN)
        return f"the {len(worst)} worst", self.table.take(pa.array([ids.index(row["id"]) for row in worst], pa.int64()))


def _xml(text: str) -> str:
    """Text without characters that XML does not have."""
    return "".join(c if c in "\t\n" or " " <= c < "\ud800" or "\ue000" <= c < "\ufffe" else "?" for c in text)


def _markdown(text: str) -> str:
    """Text on one line, with nothing that Markdown or HTML would take for markup."""
    escaped = printable(" ".join(text.split())).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{c}" if c in "\\`*_|[]#" else c for c in escaped)
