"""Benchmarks: each is a ratio, measured in one run against the physical limit or a peer on the same arrays."""
