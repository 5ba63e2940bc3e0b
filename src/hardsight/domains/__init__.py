"""Domains: `adapt` to one without labels, `generalize` to an unseen one. Control flows one way in both:

                open              prepare, train                                    compare, render
    adapt       adapt.py          adapt_models.py, adapt_training.py, methods.py    adapt_result.py, then run_directory.py
    generalize  generalize.py     generalize_models.py, fold_training.py, drm.py    generalize_result.py, then run_directory.py

settings.py         the options of both, each defined once
opening.py          features and images with a domain, and the network for them, preprocessed images, standardized features
official_lists.py   which samples a benchmark trains and tests on
run_directory.py    the run directory, and the tables, figures and page at its end
training_length.py  how long to train on labeled samples, and whether they were learned
comparison.py       accuracy class by class, its spread over seeds, and paired differences with intervals

methods.py          the methods of `adapt` by name, each with its options
alignment.py        CORAL and subspace alignment; entropy.py: entropy minimization; self_training.py: all that pseudo-label
paired_steps.py     methods that see both domains at every step: mmd.py, deep_coral.py, dann.py, mcd.py, adr.py
pseudo_labels.py    `select_pseudo_labels`: the published rules, and the threshold of each class, on arrays
validation.py       has adapting helped? validators that need no labels, on arrays; auto.py: the method `auto`
drm.py              DRM: a head for each training domain, and learning from an unseen domain while its samples arrive
meta_steps.py       methods that let training domains play the unseen one: mldg.py, metareg.py, feature_critic.py

Zou et al., ECCV 2018 (CBST) and ICCV 2019 (CRST); Chen et al., ICML 2020 (CBST+AVH); Zhang et al., KDD 2023 (DRM). The functions
on arrays need no torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
