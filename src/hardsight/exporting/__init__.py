"""A run for other tools, in the layouts that they open as they are.

export.py    `export`: what `hardsight export` does; settings.py has its options
samples.py      the samples with all their columns, and the folder to write to
image_files.py   where every sample's image is, or is written to
cleanlab.py      labels, pred_probs, and the table of label issues
fiftyone.py      FiftyOneImageClassificationDataset
hub.py           Parquet files with images and class names and a dataset card, for `datasets.load_dataset`
coco.py          one JSON of images, annotations and categories
labelstudio.py   tasks with predictions, and the labeling configuration
"""
