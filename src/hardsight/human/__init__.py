"""Do scores agree with people? Human data joined to scores, with coefficients and tests.

    settings.py       options of `correlate`, in Python and on the command line
    models.py         runs, snapshots and tables as scores tables; predictions.py adds ensembles and several passes
    targets.py        what scores are compared with: human answers or a numeric column
    comparisons.py      coefficients and tests of one model against one target
    correlate.py   `correlate`: all models and targets as one result; hypotheses.py gives verdicts, tables.py the columns
    calibration.py, disagreement.py, granularity.py, open_set_detection.py   additional analyses
    study.py       `study`: decides which analyses the data allows, and runs them
    printing.py, study_files.py   a study on the terminal and as files

Names are imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
