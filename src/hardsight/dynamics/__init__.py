"""Dynamics: what happens to every sample over a training. Needs no torch, except for the callbacks.

tracker.py       `Dynamics`: per-sample numbers of every epoch; measuring.py takes them from a batch
curves.py        means of groups.py over the epochs, and where they settle; phases.py: angles first, norms later
describing.py    what the curves say, in words and figures; epoch_table.py: one row per epoch
collapse.py      neural collapse, NC1 to NC4; cosines.py: uniformity, tolerance, histograms; labeled.py: of which samples
kept_features.py features of a few samples, so that an epoch has these measures
watching.py      what the callbacks of lightning.py and transformers.py share; gathering.py joins several processes
"""
