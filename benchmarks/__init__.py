"""Benchmarks: each is a ratio, measured in one run against the physical limit or another library on the same arrays.

`python -m benchmarks NAME` calls `run` of the module NAME (`__main__.py` lists them), which returns `timing.Measurement`s with
their limits. `hardness.py` is a study instead: it injects hardness into images (`pictures.py`, `injection.py`, `odd_inputs.py`)
and measures how well every score (`scored.py`, `further_scores.py`) and other libraries (`peers.py`) detect it (`finding.py`).
`clean.py` shares its networks, and `counts.py` is a part of it. Their results are kept (`kept_results.py`).
"""
