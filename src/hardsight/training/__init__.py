"""Training with any loss and per-sample dynamics: `hardsight.train`. The same core trains adapt and generalize.

    settings.py        the options, each defined once, including those that adapt and generalize share
    train.py           `train`: checks and opens the input; loop.py: the training itself, one plain loop
    sets.py            training data and watched sets, a subset and a curriculum
    pacing.py          a curriculum: which samples are trained on in which epoch
    inputs.py          samples as batches of numbers, the same in every run; augmentation.py: flips and crops
    network.py         a network cut before its last layer, forward passes through it, top-k and ten-crop accuracy
    trainee.py         that network with a loss, and its teacher; objective.py: the losses, loss_names.py: their names
    optimization.py    optimizer, learning-rate schedule, clipping, precision, moving average
    checkpoint.py      the state of a training, in safetensors and JSON
    processes.py       communication between processes
    results.py         what a run holds at the end: model, head, snapshot, figures

`Dynamics` lives in `hardsight.dynamics`. Importing this package does not load torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
