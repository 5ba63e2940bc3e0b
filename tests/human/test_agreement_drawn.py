"""What `correlate` draws and writes: titles with their intervals, every sample in the picture, LaTeX; and what it imports."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardsight
from agreement_data import COUNTS, FEW, SNAPSHOT, degraded, single
from hardsight import correlate
from hardsight.errors import InputError
from hardsight.render.agreement import count_colors, side_by_side


def test_plots_have_the_coefficient_and_interval_in_their_titles(correlations: hardsight.human.Correlations) -> None:
    figure = correlations.plot("avh")
    row = single(correlations, "avh")
    (axes,) = [axes for axes in figure.axes if axes.get_ylabel() == "angular visual hardness (AVH), high is hard"]
    interval = f"[{row['bootstrap_low']:+.3f}, {row['bootstrap_high']:+.3f}]"  # the sign of the table
    assert row["agreement"] > 0 > row["raw"] and axes.get_title() == f"agreement {row['agreement']:+.3f} {interval} (Spearman)"
    assert len(correlations.plot().axes) == 7 + 1  # the scores and the color bar: no place is left empty
    with pytest.raises(InputError, match="no score 'hardness'"):
        correlations.plot("hardness")
    with pytest.raises(InputError, match="no model 'other'"):
        correlations.plot(model="other")


def test_every_sample_is_in_the_picture(correlations: hardsight.human.Correlations) -> None:
    for one in (correlations, correlate(degraded(), against="level", scores="avh", **FEW)):
        mesh = one.plot("avh").axes[0].collections[0]
        assert mesh.get_array().sum() == one.agreement().n  # type: ignore[union-attr]


def test_a_single_sample_stands_out_from_the_paper() -> None:
    colors = count_colors()(np.linspace(0, 1, 256))[:, :3]
    linear = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]  # as WCAG has it
    assert 1.05 / (luminance[0] + 0.05) > 3 and (np.diff(luminance) < 1e-3).all()  # the more samples, the darker


def test_models_side_by_side_have_no_empty_panel() -> None:
    known = {"model": "one", "accuracy": 0.9, "agreement": 0.3, "bootstrap_low": 0.2, "bootstrap_high": 0.4, "mean": 0.1}
    rows = [{**known, "score": name} for name in ("avh", "confidence")]

    def drawn(rows: list[dict[str, Any]]) -> list[str]:
        figure = side_by_side(rows, target="people", words=str.upper)
        return [] if figure is None else [axes.get_title() for axes in figure.axes]

    assert drawn(rows) == ["Better models have smaller AVH?", "Agreement with people"]
    assert drawn(rows[1:]) == drawn([{**known, "score": "norm"}]) == ["Agreement with people"]
    assert drawn([{**row, "agreement": None} for row in rows]) == ["Better models have smaller AVH?"]
    assert drawn([{**row, "accuracy": None} for row in rows]) == []


def test_latex_is_balanced_and_has_intervals(tmp_path: Path) -> None:
    found = correlate(SNAPSHOT, COUNTS, output=tmp_path / "run", **FEW)
    table1, pairs = ((tmp_path / "run" / f"{name}.tex").read_text(encoding="utf-8") for name in ("table1", "pairs"))
    row = single(found, "avh")
    assert f"avh & +{row['agreement']:.3f} & [+{row['bootstrap_low']:.3f}, +{row['bootstrap_high']:.3f}]" in table1
    assert "closed below" in table1 and "Williams" in pairs
    for written in (table1, pairs):
        assert "angular" in written and not re.search(r"nan|None", written)
        assert written.count(r"\begin{tabular}") == written.count(r"\end{tabular}") >= 1
        for table in written.split(r"\end{table}"):
            assert len({line.count("&") for line in table.splitlines() if line.endswith(r"\\")}) <= 1  # the same in every row


def test_correlate_needs_no_torch_and_says_what_is_done(fresh_python: Callable[..., Any]) -> None:
    done = fresh_python(
        "import sys, numpy as np, hardsight\n"
        "rng = np.random.default_rng(0); steps = []\n"
        "table = hardsight.score(rng.normal(size=(30, 4)), np.eye(4), rng.integers(0, 4, 30))\n"
        "hardsight.correlate(table, rng.uniform(size=30), replicates=40, progress=lambda *at: steps.append(at))\n"
        "print('torch' in sys.modules, 'matplotlib' in sys.modules, steps[-1])"
    )
    assert done.out == "False False (40, 40)\n", done.err
