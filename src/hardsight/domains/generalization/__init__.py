"""Generalizing to a domain never seen: train on all domains but one, test on that one, in turn.

    settings.py    the options, each defined once
    generalize.py     `run`: opens the input and compares; opening.py checks it, lists.py reads official lists
    work.py        every unseen domain, loss and seed; saved_models.py writes their models
    folds.py       which samples are trained on, held out and never seen
    student.py     a network with a head for all domains, or (DRM) one for each beside it
    drm.py    DRM's heads learning from an unseen domain while its samples arrive
    loop.py        one training, watched on held-out samples of the training domains
    tables.py      Table 5's shape, and differences with intervals; report.py, the page with both

Chen et al., ICML 2020, section 5.2; Zhang et al., KDD 2023 (DRM). Names load when first used.
"""
