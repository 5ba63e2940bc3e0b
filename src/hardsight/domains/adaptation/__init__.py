"""Self-training across domains: which pseudo-labels to keep, and the loop that trains on them.

    settings.py        the options, each defined once; methods.py: what a name such as coral+cbst+avh means
    adapt.py           `adapt`: opens and checks the input, then compares the methods
    work.py            every pair of domains, seed and method, and the baseline; loop.py: the rounds of one method
    selection.py       `select_pseudo_labels`: the published rules, on arrays; thresholds.py: the threshold of each class
    objective.py       the loss of the rounds; alignment.py: CORAL and subspace alignment, on arrays
    validation.py      has adapting helped? validators that need no labels, on arrays; choosing.py: the method `auto`
    tables.py          results as tables; report.py: as figures and a page

Zou et al., ECCV 2018 (CBST) and ICCV 2019 (CRST); Chen et al., ICML 2020 (CBST+AVH). The
functions on arrays need no torch.
"""
