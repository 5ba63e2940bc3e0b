"""Every table and figure of the papers, runnable: `hardsight reproduce`.

    recipe.py       what a recipe is: tables, figures, and claims with a verdict
    catalogue.py    the list of recipes
    context.py      what a recipe is given: scale, data, cache, progress
    data_folder.py  which data sets are in --data DIR
    cache.py        trainings and extractions, shared between recipes
    settings.py     the options of `hardsight reproduce`
    running.py      `reproduce`: run recipes, keep what they found, resume
    keeping.py      what a recipe found, on disk
    page.py         one HTML page with everything
    avh/            the recipes of the AVH paper, one small file each
    lgm/            those of the L-GM paper
    losses/         those of the page of loss abstracts

Importing it imports neither torch nor matplotlib.
"""
