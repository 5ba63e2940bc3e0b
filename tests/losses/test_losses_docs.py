"""docs/losses.md has every loss, with the same fields. (test_docs runs its blocks.)"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from hardsight import losses

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "losses.md").read_text(encoding="utf-8")
CLASSES = [name for name in losses.__all__ if inspect.isclass(getattr(losses, name)) and name not in ("HeadLoss", "Search")]


def test_every_fault_has_its_test() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    there = {
        name
        for path in Path(__file__).parents[1].rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.M)
    }
    assert len(named) > 20 and named <= there, named - there


@pytest.mark.parametrize("name", CLASSES)
def test_every_loss_is_documented(name: str) -> None:
    section = re.search(rf"^### {name}$(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert section is not None, f"{name} has no section"
    for field in ("paper", "formula", "parameters", "defaults", "when to use"):
        assert f"- **{field}:** " in section[1], f"{name} lacks {field}"
    options = [
        p for p in inspect.signature(getattr(losses, name)).parameters if p not in ("num_features", "num_classes", "reduction")
    ]
    for option in options:
        if option not in ("common", "options"):
            assert f"`{option}`" in section[1], f"{name}: {option} is not in its section"
