"""Do scores agree with people? Human data joined to scores, with coefficients and tests.

    settings.py       options of `correlate`, in Python and on the command line
    models.py         runs, snapshots and tables as scores tables; predictions.py adds ensembles and several passes
    targets.py        what scores are compared with: human answers or a numeric column
    comparing.py      coefficients and tests of one model against one target
    correlations.py   `correlate`: all models and targets as one result; hypotheses.py gives verdicts, tables.py the columns
    calibrated.py, disagreement.py, granularity.py, unseen.py   additional analyses
    studying.py       `study`: decides which analyses the data allows, and runs them
    printing.py, reporting.py, latex.py, page.py   a study on the terminal and as files

Names are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "Correlations": "hardsight.human.correlations",
    "CorrelateSettings": "hardsight.human.settings",
    "People": "hardsight.files.human",
    "Study": "hardsight.human.studying",
    "StudySettings": "hardsight.human.settings",
    "correlate": "hardsight.human.correlations",
    "read_people": "hardsight.files.human",
    "study": "hardsight.human.studying",
}

__all__ = [
    "CorrelateSettings",
    "Correlations",
    "People",
    "Study",
    "StudySettings",
    "correlate",
    "read_people",
    "study",
]

if TYPE_CHECKING:
    from hardsight.files.human import People, read_people
    from hardsight.human.correlations import Correlations, correlate
    from hardsight.human.settings import CorrelateSettings, StudySettings
    from hardsight.human.studying import Study, study


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsight.human' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
