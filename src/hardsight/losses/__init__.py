"""Losses, one or one family per file: a function that reads like the paper, and a thin module that owns the parameters.

Heads own class vectors and take (features, labels). Logit losses take (logits, labels). Pair losses take
(features, labels). Others document their inputs. docs/losses.md has the paper, formula and defaults of each.

    contract.py          the base classes, with the hooks of a training
    softmax.py           heads; of cosines: normface.py, cosface.py, arcface.py, avh.py; centers: center.py,
                         lgm.py; two heads: dual_head.py; multiplied_angle.py: L-Softmax and A-Softmax
    comp_sum.py          logit losses, and znorm.py, ldr.py, ens.py
    triplet.py           pair losses and which pairs; contrastive.py, supcon.py, proto_triplet.py, icnn.py
    smooth_adversarial.py    of inputs that are moved
    cosine_softmax.py    shared, with a hand-written backward pass; so is gaussian_logits.py
"""

import lazy_loader

from hardsight.errors import require

require("torch", extra="torch", purpose="hardsight.losses")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
