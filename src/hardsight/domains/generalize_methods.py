"""The methods of `generalize` by name, each with its options. A new one is a file, a line here and its name in settings.py."""

from __future__ import annotations

from hardsight.domains.drm import DRM, DRMTTA
from hardsight.domains.feature_critic import FeatureCritic
from hardsight.domains.meta_steps import MetaMethod
from hardsight.domains.metareg import MetaReg
from hardsight.domains.mldg import MLDG

METHODS: dict[str, type[DRM | MetaMethod]] = {
    "drm": DRM,  # a head per domain
    "drm-tta": DRMTTA,  # and one that keeps learning from arriving samples
    "mldg": MLDG,
    "metareg": MetaReg,
    "feature-critic": FeatureCritic,
}
