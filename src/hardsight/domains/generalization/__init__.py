"""Generalizing to a domain never seen: train on all domains but one, test on that one, in turn.

    settings.py    the options, each defined once
    generalize.py  `generalize`: opens the input, then compares the losses; opening.py checks it, lists.py reads official lists
    work.py        every unseen domain, loss and seed, and their models
    folds.py       which samples are trained on, held out and never seen
    loop.py        one training, evaluated on held-out samples of the training domains after each epoch
    drm.py         DRM: a head for each training domain, and learning from an unseen domain while its samples arrive
    tables.py      results as tables; report.py: as figures and a page

Chen et al., ICML 2020, section 5.2; Zhang et al., KDD 2023 (DRM).
"""
