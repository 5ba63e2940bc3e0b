"""Domains: `adapt` to one without labels, `generalize` to an unseen one, and what both share.

adaptation/         self-training and alignment: `hardsight.adapt`
generalization/     leave one domain out: `hardsight.generalize`

settings.py         options that both have: seeds, the network, how it learns
opening.py          features and images with a domain
run_directory.py          what is refused early, and the run directory
scaling.py          features of each domain brought to a common scale
source_training.py  how long to train on labeled samples, and whether they were learned
accuracy.py         accuracy class by class, and its mean
comparison.py       paired differences with intervals
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
