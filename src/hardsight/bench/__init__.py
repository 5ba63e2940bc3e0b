"""Benchmarks: each is a ratio, measured in one run against the physical limit or a peer on the same arrays.

Every module that `hardsight.cli.bench` lists has a `run` that gives `timing.Measurement`s with their limits. `hardness.py` is a
study instead: hardness is put into images (`pictures.py`, `injection.py`, `odd_inputs.py`), every score (`scored.py`) and other
libraries (`peers.py`) look for it, and what they find is counted (`finding.py`). `clean.py` shares its networks.
"""
