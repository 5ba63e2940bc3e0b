"""Every table and figure of the papers, runnable: `hardsight reproduce`.

    recipe.py           what a recipe is: tables, figures, and claims with a verdict
    verdicts.py         how a claim is judged: effects, intervals, the smallest effect worth having
    catalog.py          the list of recipes
    context.py          what a recipe is given: scale, data, cache, progress
    data_folder.py      which data sets are in --data DIR, with the checksums of those measured on
    data.py             `python -m hardsight_papers.data DIR`: builds that directory from published files
    arrays.py           what a file of --data must hold; pixels, directions, even subsamples
    cache.py            trainings and extractions, shared between recipes
    settings.py         the options of `hardsight reproduce`
    running.py          `reproduce`: run recipes, keep what they found, resume
    outcome_files.py    what a recipe found, on disk
    page.py             one HTML page with everything
    digit_trainings.py  few digits to train on, the others to test on, one way to train
    seed_statistics.py  several seeds: intervals, paired differences, claims about them
    networks.py         networks that only a figure uses
    drawing.py          figures over seeds
    avh/                the recipes of the AVH paper, one small file each
    lgm/                those of the L-GM paper
    losses/             those of the page of loss abstracts

Importing it imports neither torch nor matplotlib.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
