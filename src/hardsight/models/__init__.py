"""Any classifier as one object: images in, the features before its last linear layer and its logits out.

    opening.py              `open_model`: what a MODEL may be, and who opens it
    model.py                the contract: name, preprocessing, head, fingerprint, call
    preprocessing.py        a picture as the array a model was trained on

    network.py              a torch module; find_head.py locates its last layer
    onnx_model.py           an ONNX file; onnx_graph.py locates its last layer
    linear_estimator.py     a fitted scikit-learn classifier or pipeline
    matching.py             which head turns these features into these outputs: the check they share

    libraries.py (timm, torchvision, transformers, the hub), trained.py    where networks come from
    weights.py              a file of weights into a network, executing nothing
    head_layer.py           a head of any kind as a network's last layer
    trainable.py            any of these, to be trained: `cut_off` of find_head.py takes its last layer out
    network_names.py        what a network to be trained may be called

    embedder.py             any backbone, with or without a classifier, for its features; efficientnet_lite.py is the default
    networks.py             hardsight's own networks, to be trained by name

Importing this package loads neither torch nor onnx: each is loaded when a model that needs it is opened.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
