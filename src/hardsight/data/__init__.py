"""Images from folders, archives, lists and arrays, one at a time, with stable ids: `open_data`. Nothing here imports torch.

open_data(spec)      folders, lists, CSV/Parquet, tar, npz/npy, Hugging Face, MNIST idx, CIFAR binary, the built-in digits
open_any(path)       a snapshot, a scores table or images, whatever the path holds
ImageData            what `open_data` returns: ids, labels, columns, and `image(i)`
BrokenImage          one image that cannot be read, with a short reason
Quality              dark, blurred, odd and repeated images, measured as they are decoded
degrade(image, ...)  a controlled loss of quality; `parse_degradations` reads them from text

Names load when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
