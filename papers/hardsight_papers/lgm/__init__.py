"""Rethinking Feature Distribution for Loss Functions in Image Classification (Wan et al., CVPR 2018)."""
