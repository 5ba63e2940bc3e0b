"""Files: every format hardsight reads or writes, and the rules for reading and writing them.

places.py        paths, local or remote (s3://, gs://), and default output paths
kinds.py         what a file holds: a snapshot, scores, images; which of our tables, and where one may be written
reading.py       shared by every reader: damage becomes one error that names the file
writing.py       the one write path: checks (also of a format by its first bytes), temporary name, checksum, fsync, rename
checksums.py     the checksums of a run, and those embedded in files
verify.py        verify a run or a file against its checksums
locking.py       locks that are released when their process ends
npy.py           .npy and .npz, a few rows at a time
parquet.py       Parquet files, with their footers checked on open
table_files.py   CSV, .tsv and Parquet tables as Arrow tables or as named columns
wide_tables.py   tables with one column per dimension, split into features, labels and ids
label_files.py   labels in a file of their own, by id or by position
class_names.py   class names, one per line or a JSON list; labels in Parquet files: numbers, names, or both
heads.py         arrays and tensors written as safetensors; a `Head` among them
run.py           the run directory: start.json, parts, run.json, and why a run cannot be resumed
samples.py       samples/part-*.parquet: the schema, the reader and the writer
epochs.py        dynamics/epoch=*.parquet, read back
suspects.py      suspects.parquet, read back
human.py         human answers, in every supported format
human_studies.py  those as studies publish them: ImageNetV2, CIFAR-10H; lists of images
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
