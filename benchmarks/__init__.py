"""Benchmarks: each is a ratio, measured in one run against the physical limit or another library on the same arrays.

Every module that `hardsight.cli.bench` lists has a `run` that returns `timing.Measurement`s with their limits. `hardness.py` is
a study instead: it injects hardness into images (`pictures.py`, `injection.py`, `odd_inputs.py`) and measures how well every
score (`scored.py`) and other libraries (`peers.py`) detect it (`finding.py`). `clean.py` shares its networks.
"""
