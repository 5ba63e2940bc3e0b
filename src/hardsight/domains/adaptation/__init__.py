"""Self-training across domains: which pseudo-labels to keep, and the loop that trains on them.

    thresholds.py      one threshold per class, from the confidences of the samples predicted as it
    selection.py       `select_pseudo_labels`: the published rules, on arrays
    alignment.py       CORAL and subspace alignment, on arrays
    methods.py         what a name such as coral+cbst+avh means
    validation.py      has adapting helped? validators that need no labels, on arrays; choosing.py, the method `auto`
    settings.py        the options, each defined once
    adapt.py         `run`: checks and opens the input, and compares; work.py has every pair and method, loop.py the rounds
    learner.py         the network; objective.py, its loss between two selections
    baseline.py        plain logistic regression on the source
    measures.py        what was selected; tables.py and report.py present it

Zou et al., ECCV 2018 (CBST) and ICCV 2019 (CRST); Chen et al., ICML 2020 (CBST+AVH). Names load when first used: the
pure functions need no torch.
"""
