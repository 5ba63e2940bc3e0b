"""`clean` finds what is wrong with the data: wrong labels, duplicates, outliers, and the labels after a review.

    clean.py            `clean`: from samples to suspects, step by step; settings.py has its options
    neighbors.py        near duplicates, outliers and neighbors, from features alone
    evidence.py         what labels are judged by: epochs, out-of-sample probabilities, a head, the labels of the neighbors
    flagged_labels.py   why a label is flagged; its parts are the next two
    ranking.py          `error_score`: the formulas that rank labels, and which class is labeled as which other
    error_model.py      the probability that a label is wrong, and how many are
    verdicts.py         one verdict per sample, and its explanation in plain words
    suspects.py         `Suspects`: the table, also where there are no labels to judge, and what is printed of it
    folds.py            predictions of models that have not seen the sample: heads on features, or whole networks
    review.py           a person's marks applied to the labels; also those made in Label Studio or FiftyOne

Names load when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
