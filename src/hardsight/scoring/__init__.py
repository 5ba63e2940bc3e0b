"""Scoring: a snapshot in, a scores table out.

    score.py           `score` and its job: which scores, which rows, one or two passes
    score_file.py       `score_to_file`, the function behind `hardsight score`; settings.py has its options
    stored.py        `Snapshot.scores`: stored scores are read, others computed
    fitted_head.py   calibrated heads fitted by cross-validation if there is none
    cluster.py       the same on a Dask cluster
    samples.py       what every verb asks of its samples: their path, the rows of a split, unique ids
    extra_inputs.py        additional inputs of some scores: a reference, other models, the layers of a run
    comparable.py     two models on the same samples: compared by value, or by rank
    checkpoints.py   image gradients at the epochs that a run kept, for `vog`
    run_images.py      images of the samples, for a table shown in a notebook

Names are imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
