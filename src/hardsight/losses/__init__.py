"""Losses, one per file: a function that reads like the paper, and a thin module that owns the parameters.

Heads own class vectors and take (features, labels). Logit losses take (logits, labels). Pair losses take
(features, labels). Others document their inputs. docs/losses.md has the paper, formula and defaults of each.
"""

import lazy_loader

from hardsight.errors import require

require("torch", extra="torch", purpose="hardsight.losses")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
