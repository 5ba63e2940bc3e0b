"""Scoring: a snapshot in, a table of scores out.

job.py           `score` and the job behind it: which scores, which rows, one or two passes
fitted_head.py   a head fitted by cross-validation where there is none
cluster.py       the same on a Dask cluster
"""

from hardsight.scoring.job import score

__all__ = ["score"]
