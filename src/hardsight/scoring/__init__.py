"""Scoring: a snapshot in, a scores table out.

    score.py         `score`, the verb; settings.py has its options
    job.py           a job: which scores, which rows, one or two passes
    scopes.py        what each scope of scores needs, and how it gets its values
    extra_inputs.py  additional inputs of some scores: a reference, other models, images
    checkpoints.py   image gradients at the epochs that a run kept, for `vog`
    fitted_head.py   calibrated heads fitted by cross-validation if there is none
    samples.py       the path, the rows of a split and unique ids of samples
    cluster.py       the same on a Dask cluster
    stored.py        `Snapshot.scores`: stored scores are read, others computed
    comparable.py    two models on the same samples: compared by value, or by rank
    run_images.py    images of the samples, for a table shown in a notebook

Names are imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
