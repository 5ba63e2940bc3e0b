"""LaTeX tables laid out as in the AVH paper: plain `tabular`, without packages."""

from __future__ import annotations

from typing import Any

from hardsight.files.latex import escaped, tabular
from hardsight.human.correlate import Correlations
from hardsight.screen import spoken


def table1(correlations: Correlations) -> str:
    """Table 1 for every model and target: Spearman's coefficient over all samples and in bins."""
    parts = []
    percent = f"{100 * correlations.settings.level:g}"
    for agreement in correlations.agreements:
        rows = [row for row in agreement.singles if row["kind"] == "spearman"]
        bins = list(dict.fromkeys(row["bin"] for row in rows))
        of = {(row["score"], row["bin"]): row for row in rows}
        first = next(iter(agreement.scores))
        body = [["samples", "", *(str(of[first, part]["n"]) for part in bins)]]
        for name in agreement.scores:
            z = of[name, "all"]["fisher_z"]
            body.append([escaped(spoken(name)), _number(z), *(_with_interval(of[name, part]) for part in bins)])
        header = ["score", "$z$", *("total" if part == "all" else f"${part}$" for part in bins)]
        caption = (
            f"Spearman's rank correlation with {escaped(agreement.target.words)}, {escaped(agreement.model)}. "
            "Positive: what is hard for people is hard by the score. "
            f"In brackets: {percent}\\,\\% intervals. "
            "Bins are closed below and open above; the last one is closed. -- : no coefficient."
        )
        parts.append(tabular(header, body, caption))
    return "\n".join(parts)


def pairs(correlations: Correlations) -> str:
    """Tables 2 and 6 to 9: every pair of scores of every model."""
    parts = []
    rows = correlations.pairs().to_pylist()
    percent = f"{100 * correlations.settings.level:g}"
    for model in dict.fromkeys(row["model"] for row in rows):
        body = []
        for row in (row for row in rows if row["model"] == model):
            interval = f"[{_signed(row['trusted_low'])}, {_signed(row['trusted_high'])}]"
            words = f"{spoken(row['first'])} -- {spoken(row['second'])}, {row['kind'].capitalize()}"
            numbers = [_number(row[key]) for key in ("r_first", "r_second", "z_first", "z_second")]
            tests = [_two(row[key]) for key in ("independent_z", "williams_t", "steiger_z", "meng_z")]
            body.append([escaped(words), *numbers, *tests, interval, _p(row["trusted_p"]), _p(row["holm_p"])])
        header = ["scores", "$r_1$", "$r_2$", "$Z_1$", "$Z_2$", "$z$ indep.", "$t$ Williams", "$z$ Steiger", "$z$ Meng"]
        header += [rf"$r_1 - r_2$, {percent}\,\%", "$p$", "$p$ Holm"]
        caption = (
            f"Pairs of scores, {escaped(model)}. The interval and $p$ are of the paired bootstrap (Kendall: jackknife); "
            "the $z$ of independent groups is the AVH paper's and ignores that both scores are of the same images."
        )
        parts.append(tabular(header, body, caption))
    return "\n".join(parts)


def _number(value: Any) -> str:
    return "--" if value is None else f"${value:.3f}$"


def _with_interval(row: dict[str, Any]) -> str:
    """A coefficient with the ends of its interval below the line, where it takes little room."""
    low, high = (row["low"], row["high"]) if row["bootstrap_low"] is None else (row["bootstrap_low"], row["bootstrap_high"])
    if row["agreement"] is None or low is None:
        return _number(row["agreement"])
    return f"${row['agreement']:.3f}_{{[{low:.2f},\\,{high:.2f}]}}$"


def _two(value: Any) -> str:
    return "--" if value is None else f"${value:.2f}$"


def _signed(value: Any) -> str:
    return "--" if value is None else f"${value:+.3f}$"


def _p(value: Any) -> str:
    if value is None:
        return "--"
    return "$<10^{-5}$" if value < 1e-5 else f"${value:.5f}$" if value < 1e-3 else f"${value:.3f}$"
