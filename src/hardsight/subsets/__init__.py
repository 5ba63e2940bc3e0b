"""Which samples to train on, which to label next, in which order, and in which triplets: `select`, `curriculum` and `mine`.

    settings.py      the options of all three
    eligible.py      the samples to choose among, and what the method knows of them: a score, how sure the model is, directions
    methods.py       the methods by name, and their reasons; within each class, if asked; then coverage, k-center and D2
    select.py      `select`, and what `hardsight select` does
    cost.py          what a subset costs in accuracy
    curriculum.py       `curriculum`: the order, and the epoch from which each sample is trained on
    sampler.py       the same as a torch Sampler
    mine.py          `mine`: hard and semi-hard triplets by angle, and what `hardsight mine` does; by an index of usearch, too
    metric_learning.py  the same in a batch, as a miner for pytorch-metric-learning

Names load when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
