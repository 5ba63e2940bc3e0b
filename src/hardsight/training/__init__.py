"""Training with any loss and per-sample dynamics: `hardsight.train`. The same core trains adapt and generalize.

    settings.py        the options, each defined once, including those that adapt and generalize share
    train.py           `train`: checks the options, those of a loss by loss_names.py; then, in this order:
    sets.py            opens training data and watched sets, a subset and a curriculum (pacing.py)
    loop.py            `start_training` opens the network (opening.py) and prepares the sets; then one plain loop
    results.py         writes what a run holds at the end: model, head, snapshot; `Trained`, the result; figures are the command's

    augmentation.py    flips and crops of training images
    trainee.py         a network cut before its last layer, with a loss; objective.py: its loss
    forward_passes.py  features without gradients, top-k and ten-crop accuracy
    optimization.py    optimizer, learning-rate schedule, clipping, precision
    checkpoint.py      the state of a training, in safetensors and JSON
    processes.py       communication between processes

Samples become batches of numbers in `hardsight.extraction.feed`; `Dynamics` lives in `hardsight.dynamics`.
Importing this package does not load torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
