"""Training dynamics of every sample. Only the callbacks need torch.

tracker.py       `Dynamics`: per-sample metrics of every epoch
curves.py        means over the groups of groups.py by epoch, and where they settle
phases.py        the two phases of the AVH paper: angles first, norms later
description.py   the curves described in text and figures, and a table with one row per epoch
collapse.py      neural collapse, NC1 to NC4, and cosines of pairs: uniformity, tolerance, histograms
kept_features.py features of a few samples, to compute these metrics for each epoch
head_hook.py     shared by the callbacks of lightning.py and transformers.py; gathering.py joins several processes
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
