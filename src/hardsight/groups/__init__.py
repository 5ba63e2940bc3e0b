"""Groups of samples: for whom the model is worse (`audit`), and what got harder between two models or dates (`drift`).

    settings.py     the options of both
    opening.py      a run, a snapshot or a scores table as samples with labels, predictions, scores and columns;
                    one fitted head for two snapshots that have none
    grouping.py     a column, or several with their intersections, as groups
    comparing.py    one group against the rest: accuracy, hardness, norm and calibration with intervals
    latent.py       groups that no column names: clusters that are worse than their class, tested on other samples
    audit.py     `audit`: the table of groups
    drift.py     `drift`: two snapshots, sample by sample and class by class
    feature_shift.py       whether the features of one model moved; who is near whom in those of two models
    group_files.py      what `hardsight audit` and `hardsight drift` do

Names load when first used.
"""
