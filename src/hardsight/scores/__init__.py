"""One function per score, and `SCORES`, the registry that describes them all.

Row scores need one sample and the head; dataset scores need all samples; dynamics scores need a training's epochs; reference
scores are fitted to another snapshot. A few need more: several models, several layers, the checkpoints of a training.

    registry.py          `SCORES`, and how a score is registered
    angular.py           scores of one sample: angles; confidences.py: logits and probabilities; likelihood.py: Gaussians
    within_dataset.py    a sample among all others; duplicates.py: near duplicates; neighbors.py: what neighbors say
    detectors.py         scores fitted to a reference: atypical inputs; labeled_reference.py: classes as it shows them, and what
                         people find hard
    dynamics.py          scores over the epochs of a training; ensembles.py: of several models or checkpoints

    sweep.py             the one pass over the classes that row scores share; accumulator.py: its running numbers; terms.py: what
                         it can compute; probabilities.py: probabilities in place of logits
    search.py            exact nearest neighbors; class_search.py: those of other classes, and of the own

Names are imported on first use.
"""

import lazy_loader

# Each family registers its scores, in this order.
from hardsight.scores import (  # noqa: F401
    angular,
    confidences,
    detectors,
    dynamics,
    ensembles,
    labeled_reference,
    likelihood,
    neighbors,
    within_dataset,
)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
