"""Attacks: inputs moved by a few gray levels so that a classifier errs, and what gives them away.

    gradient_sign.py   FGSM and PGD, in units of pixels
    target.py          RUN as what is attacked: model, images, and what its loss saved
    tables.py          what a run says: how inputs are verified, a row per input, per epsilon, detectors, and paths
    attack_result.py   its result, in words and figures
    attack.py          `attack`: a part at a time, resumed where it was interrupted
    settings.py        the options of `hardsight attack`

Names load when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
