"""How property tests draw: the same examples every time in `make test`, new ones in `make nightly`.

A case that was found once stands beside its property as an `@example` line, so every run replays it. `make nightly` writes that
line as a patch under `.hypothesis/patches` when it finds a new one.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers

MORE = 10  # examples of the nightly run for each one of `make test`

FIXTURES = HealthCheck.function_scoped_fixture  # examples share a tmp_path: each of ours writes its files anew
SLOW = HealthCheck.too_slow  # fixed draws are slow only where the machine is busy

settings.register_profile(
    "test", derandomize=True, deadline=None, max_examples=40, print_blob=True, suppress_health_check=[FIXTURES, SLOW]
)
# Every choice is said: where CI is set in the environment, Hypothesis' own defaults are fixed draws and no database.
settings.register_profile(
    "nightly",
    derandomize=False,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
    deadline=None,
    max_examples=40 * MORE,
    print_blob=True,
    suppress_health_check=[FIXTURES],
)


def examples(number: int) -> int:
    """`max_examples` of one property: `number` in `make test`, more in `make nightly`."""
    return number if settings().derandomize else MORE * number


_constants_in_modules = providers._get_local_constants


def _constants() -> Any:
    """Hypothesis mixes in constants from whatever modules are loaded: which ones would depend on the tests that ran before."""
    return providers.Constants() if settings().derandomize else _constants_in_modules()


providers._get_local_constants = _constants
