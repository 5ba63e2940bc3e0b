"""Extraction: images and a model in, a snapshot out. Data loaders are accepted too, and features where a model takes them.

extract.py       `extract`: decodes ahead, works part by part, and resumes after an interrupt
inputs.py        the images, or the features of a snapshot, that a model is run on: opened, and what both are asked alike
feed.py          samples as numbers: images decoded, broken ones listed; sets to train on, in batches
parts.py         the parts of a run: their sizes, extra passes over the images, and features of further layers
loader.py        data loaders, whose batches are ready for the model
settings.py      the options of `hardsight extract`
"""
