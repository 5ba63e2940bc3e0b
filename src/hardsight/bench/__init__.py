"""Benchmarks: each is a ratio, measured in one run against the physical limit or a peer on the same arrays.

Every module has a `run` that gives `timing.Measurement`s with their limits; `hardsight.cli.bench` lists them.
"""
