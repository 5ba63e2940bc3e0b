"""Dynamics: what happens to every sample over a training. Needs no torch, except for the callbacks.

tracker.py       `Dynamics`: per-sample numbers of every epoch; measuring.py takes them from a batch
curves.py        means of groups.py over the epochs, and where they settle; phases.py: angles first, norms later
describing.py    what the curves say, in words and figures
watching.py      what the callbacks of lightning.py and transformers.py share; gathering.py joins several processes
"""
