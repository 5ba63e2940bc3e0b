"""Domains: `adapt` to one without labels, `generalize` to an unseen one, and what both share.

adaptation/         self-training and alignment: `hardsight.adapt`
generalization/     leave one domain out: `hardsight.generalize`

settings.py         options that both share: seeds, the network, how it learns
opening.py          features and images with a domain
run_directory.py    early checks, the run directory, its tables and page
scaling.py          standardized features
source_training.py  how long to train on labeled samples, and whether they were learned
accuracy.py         accuracy class by class, its spread over seeds, and paired differences with intervals
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
