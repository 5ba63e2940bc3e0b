"""Which samples to train on, which to label next, and in which order: `select` and `curriculum`.

    settings.py      the options of both
    pool.py          the samples to choose among, from a run, a snapshot or a table of scores
    picking.py       the methods by name, and their reasons; within each class, if asked
    strata.py        coverage: every level of hardness, without the hardest
    spread.py        k-centre: no sample is far from the subset
    graph.py         D2: hard samples from everywhere
    uncertainty.py   margin, entropy and AVC: what the model is least sure of
    choosing.py      `select`, and what `hardsight select` does
    cost.py          what a subset costs in accuracy
    lessons.py       `curriculum`: the order, and the epoch from which each sample is trained on
    sampler.py       the same as a torch Sampler

Names load when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
