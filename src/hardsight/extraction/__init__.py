"""Extraction: images and a model in, a snapshot out. Data loaders are accepted too, and features where a model takes them.

    extract.py       `extract`: decodes ahead, works part by part, and resumes after an interrupt
    inputs.py        opens the images or features that a model is run on
    passes.py        extra passes over the images, and features of further layers
    sizes.py         images per batch and per part, and an estimate of time and space
    features.py      features as data: all of a snapshot, or one domain
    loader.py        data loaders, whose batches are ready for the model
    settings.py      the options of `hardsight extract`

Names are imported on first use.
"""
