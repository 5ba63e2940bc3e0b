"""Domains: what adapting to one and generalizing to an unseen one share.

settings.py         options that both have: seeds, the network, how it learns
opening.py          features and images with a domain
running.py          what is refused early, and the run directory
scaling.py          features of each domain brought to a common scale
source_training.py  how long to train on labeled samples, and whether they were learned
accuracy.py         accuracy class by class, and its mean
comparison.py       paired differences with intervals
results_page.py     tables and figures in one HTML file
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
