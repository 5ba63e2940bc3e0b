"""Scoring: a snapshot in, a scores table out.

    score.py         `score`, the verb, step by step; settings.py has its options
    job.py           which scores, which rows, one or two passes; and `Snapshot.scores`, which reads what is stored
    scopes.py        what each scope of scores needs, and how it gets its values
    checkpoints.py   image gradients at the epochs that a run kept, for `vog`
    fitted_head.py   calibrated heads fitted by cross-validation if there is none
    cluster.py       the same on a Dask cluster
    comparable.py    two models on the same samples: compared by value, or by rank; whether a reference is of the same model

Names are imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
