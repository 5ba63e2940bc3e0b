"""Extraction: images and a model in, a snapshot out. Data loaders are accepted too, and features where a model takes them.

extract.py       `extract`: decodes ahead, works part by part, and resumes after an interrupt
opening.py       the images, or the features of a snapshot, that a model is run on; inputs.py: what both are asked alike
broken.py        images that could not be read
passes.py        extra passes over the images, and features of further layers
sizes.py         images per batch and per part, and an estimate of time and space
loader.py        data loaders, whose batches are ready for the model
settings.py      the options of `hardsight extract`
"""
