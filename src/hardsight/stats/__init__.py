"""Agreement statistics as pure functions on arrays: coefficients, tests, resampling, reliability, calibration.

coefficients.py       Pearson, Spearman and Kendall
correlation_tests.py  two coefficients compared, Kendall's by the influence of each sample
resampling.py         the paired bootstrap, and a permutation test of two scores of the same images
small_samples.py      means and proportions with intervals
answers.py            what people answered, and how reliable that is
calibration.py        whether a model that says 80 % is right in 80 %; uncertainty.py: of several passes
open_set.py           unseen classes told from known ones; principal.py: principal components of blocks of rows
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
