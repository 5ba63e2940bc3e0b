"""Groups of samples: for whom the model is worse (`audit`), and what got harder between two models or dates (`drift`).

    settings.py      the options of both
    grouping.py      a column, or several with their intersections, as groups
    comparing.py     `Measures` of samples, and one group against the rest: accuracy, hardness, norm, calibration with intervals
    latent.py        groups that no column names: clusters that are worse than their class, tested on other samples
    audit.py         `audit`: the table of groups, as printed and drawn
    audit_page.py    its page, and the columns there
    drift.py         `drift`: two snapshots, sample by sample and class by class, as printed
    changes.py       what changed: of the same samples, and of different samples of one model
    feature_shift.py whether the features of one model moved; who is near whom in those of two models
    outputs.py       where both write their tables

Names load when first used.
"""
