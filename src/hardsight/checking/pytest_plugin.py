"""A fixture for a data test in pytest: `hardsight_check`.

def test_photos(hardsight_check):
    hardsight_check("photos/", fail_on=["label_errors > 2%", "leaks > 0"])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest


@pytest.fixture
def hardsight_check(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """`hardsight.check`, which fails the test where a rule fails; it writes to a temporary directory unless given `output`."""

    def checked(x: Any = None, *, fail_on: str | Sequence[str], **options: Any) -> Any:
        from hardsight.checking.check import check
        from hardsight.errors import HardsightError

        options.setdefault("output", tmp_path_factory.mktemp("hardsight") / "run")
        try:
            found = check(x, fail_on=fail_on, **options)
        except HardsightError as error:
            pytest.fail(str(error), pytrace=False)
        if found.failed:
            pytest.fail("\n".join([*(o.sentence.removeprefix("failed: ") for o in found.failed), str(found)]), pytrace=False)
        return found

    return checked
