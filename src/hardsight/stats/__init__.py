"""Agreement statistics as pure functions on arrays: coefficients, tests, resampling, reliability, calibration.

coefficients.py       Pearson, Spearman and Kendall; concordance.py: Kendall's tau-b sample by sample
correlation_tests.py  two coefficients compared; permutation.py: two scores of the same images
resampling.py         the paired bootstrap; means.py, proportions.py: intervals of small samples
answers.py            what people answered, and how reliable that is
calibration.py        whether a model that says 80 % is right in 80 %; uncertainty.py: of several passes
open_set.py           unseen classes told from known ones; principal.py: principal components of blocks of rows
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
