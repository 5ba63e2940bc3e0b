"""hardsight: how hard every sample is for a classifier, from angles, confidence and likelihood.

The public names stand in `__init__.pyi`. They are imported on first use, so `import hardsight` is fast and never imports torch.
"""

from pathlib import Path

import lazy_loader

from hardsight.version import VERSION

__version__ = VERSION
__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
_rooms = {path.stem for path in Path(__file__).parent.iterdir()}  # hardsight.losses is there, too, but not in `import *`
__all__ = sorted([*(name for name in _names if name not in _rooms), "__version__"])
