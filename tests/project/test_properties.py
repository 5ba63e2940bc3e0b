"""Property tests draw the same examples whatever ran before; `make nightly` draws others, and more."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers


def drawn(settings: settings) -> list[int]:
    """What one property draws, in order."""
    values: list[int] = []

    @settings
    @given(st.integers(0, 10**9))
    def whole_number(value: int) -> None:
        values.append(value)

    whole_number()
    return values


def test_examples_do_not_depend_on_the_modules_loaded_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = settings(settings.get_profile("test"), max_examples=400)
    before = drawn(fixed)
    (tmp_path / "many_constants.py").write_text(f"NUMBERS = {list(range(1000, 1300))}\n")
    monkeypatch.syspath_prepend(tmp_path)
    import many_constants  # type: ignore[import-not-found]  # noqa: F401

    assert drawn(fixed) == before
    monkeypatch.setattr("properties._constants_in_modules", providers.Constants)  # to read all modules takes seconds
    anew = settings(settings.get_profile("nightly"), max_examples=400, database=None)
    assert drawn(anew) != drawn(anew)
    del sys.modules["many_constants"]


@pytest.mark.parametrize("time", [1, 2])
def test_global_generators_start_anew_in_each_test(time: int) -> None:
    import torch

    if time == 2:  # torch was imported before the test: it has been seeded too
        assert torch.rand(()) == pytest.approx(0.4962566)
    assert np.random.rand() == pytest.approx(0.5488135) and random.random() == pytest.approx(0.8444218)
