"""Training with any loss and per-sample dynamics: `run`. The same core trains adapt and generalize.

    settings.py        the options, each defined once; those that adapt and generalize share
    train.py         `run`: checks and opens the input; start.py opens the network; loop.py trains it, one plain loop
    sets.py            training data and watched sets; subset.py: a subset of it, and a curriculum, joined by id
    pacing.py          a curriculum: which samples are trained on in which epoch
    inputs.py          samples as batches of numbers, the same in every run; augmentation.py changes them
    network.py         a network cut before its last layer, and forward passes through it
    optimization.py    optimizer, clipping, precision, moving average; schedule.py: the learning rate at each step
    evaluation.py      top-k and ten-crop accuracy of held-out sets
    trainee.py         that network with a loss; objective.py: the losses, loss_names.py: their names; teacher.py
    checkpoint.py      the state of a training, in safetensors and JSON
    processes.py       what several processes exchange
    results.py         what is left in the run at the end: model, head, snapshot, figures

`Dynamics` lives in `hardsight.dynamics`. Names load when first used: importing this package needs no torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
