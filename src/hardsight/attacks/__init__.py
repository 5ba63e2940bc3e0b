"""Attacks: inputs moved by a few gray levels so that a classifier errs, and what gives them away.

    gradient_sign.py   FGSM and PGD, in units of pixels
    target.py          RUN as what is attacked: model, images, and what its loss saved
    verification.py    how an input is verified: each loss's own score, and the likelihood of a feature
    trajectory.py      the path of an attacked sample in angle and norm
    tables.py          what a run says: a row per input, a row per epsilon, and how well attacks are detected
    attack_result.py   its result, in words and figures
    attack.py          `attack`: a part at a time, resumed where it was interrupted
    settings.py        the options of `hardsight attack`

Names load when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
