"""A run for other tools, in the layouts that they open as they are.

export.py    `export`: what `hardsight export` does; settings.py has its options
material.py      the samples with all their columns, their images as files, and the folder to write to
cleanlab.py      labels, pred_probs, and the table of label issues
fiftyone.py      FiftyOneImageClassificationDataset
hub.py           Parquet files with images and class names and a dataset card, for `datasets.load_dataset`
coco.py          one JSON of images, annotations and categories
labelstudio.py   tasks with predictions, and the labeling configuration
"""
