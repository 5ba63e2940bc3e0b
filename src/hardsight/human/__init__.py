"""Do scores agree with people, and what would people say? Human data joined to scores, with coefficients and tests.

    correlate.py      the verb: opens, joins and compares
    correlations.py   its result: Table 1, every other table, figures; lines.py is what it prints, figures.py what it draws
    run_files.py      the result as a run directory: JSON, CSV, LaTeX, figures, a page
    settings.py       options of `correlate`, in Python and on the command line
    models.py         the models: snapshots with their scores and logits; several passes and ensembles
    targets.py        what scores are compared with: human answers, votes or a numeric column
    comparisons.py    coefficients and tests of one model against one target, and the columns of the tables; hypotheses.py gives
                      verdicts
    people.py         the verb that predicts answers from some; answer_model.py learns from them
    votes.py          answers of no, maybe and yes, raters weighed by Dawid and Skene
    calibration.py, disagreement.py   further analyses

Names are imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
