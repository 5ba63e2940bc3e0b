"""Extraction: images and a model in, a snapshot out. Data loaders are accepted too, and features where a model takes them.

    extract.py       `extract`: decodes ahead, works part by part, and resumes after an interrupt; its extra passes
    features.py      features as data: all of a snapshot, or one domain
    loader.py        data loaders, whose batches are ready for the model
    settings.py      the options of `hardsight extract`

Names are imported on first use.
"""
