"""Agreement statistics as pure functions on arrays: coefficients, tests, resampling, reliability, calibration."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
