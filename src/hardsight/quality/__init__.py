"""`clean` finds what is wrong with the data: wrong labels, duplicates, outliers, and the labels after a review.

    clean.py        `clean`: the table of suspects; settings.py has its options
    evidence.py        the evidence: epochs of a training, out-of-sample probabilities, a head
    ranking.py         how likely each label is wrong; noise.py: which class is labeled as which other
    error_model.py     how likely each label is wrong, and how many are
    neighbors.py   outliers, from features alone, and what neighbors' labels say
    verdicts.py        one verdict per sample, in plain words
    folds.py           predictions of models that have not seen the sample: heads on features; fold_models.py: whole networks
    review.py        a person's marks applied to the labels
    clean_file.py         what `hardsight clean` does

Names load when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
