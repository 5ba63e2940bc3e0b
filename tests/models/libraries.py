"""Optional model libraries, or a skip that says what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from hardsight.errors import HardsightError


def library(name: str) -> Any:
    pytest.importorskip("torch")
    from hardsight.models.libraries import import_torchvision, import_with_torchvision

    try:
        return import_torchvision() if name == "torchvision" else import_with_torchvision(name, name)
    except HardsightError as error:
        pytest.skip(str(error))
