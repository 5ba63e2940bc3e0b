"""Angular Visual Hardness (Chen et al., ICML 2020): paper, appendix and slides."""
