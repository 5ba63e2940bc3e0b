"""Files: every format hardsight reads or writes, and every rule of reading and writing them.

places.py        paths, local or remote (s3://, gs://, hdfs://)
formats.py       what a file holds, by its first bytes; kinds.py: a snapshot, a scores table or images
reading.py       rules of every reader: damage is one error that names the file
inputs.py        what a command reads, which it may not write over
writing.py       the one way files are written: checked, temporary name, sealed, fsync, rename
checksums.py     the checksums of a run, and those that files carry themselves
verifying.py     a run or a file compared with its checksums
locking.py       locks that end with their process
npy.py           .npy and .npz, a few rows at a time
parquet.py       Parquet files opened, their footers checked first
columns.py       CSV, .tsv and Parquet tables as columns
table_files.py   CSV, .tsv and Parquet tables as Arrow tables
table_writing.py  tables written, as Parquet, CSV or JSON
table_kinds.py   which table a file holds, by its columns: none replaces one of another kind
wide_tables.py   tables with one column per dimension, taken apart
class_names.py   class names, one per line or a JSON list
tensors.py       arrays and tensors as safetensors, written
heads.py         a `Head` as safetensors
run.py           the run directory: start.json, parts, run.json; resuming.py: why a run is not resumed
beside.py        where the outputs of a command go that is given no name
label_column.py  labels of Parquet files: numbers, names, or numbers whose names the schema has
samples.py       samples/part-*.parquet: the schema, the reader and the writer
rows.py          where a snapshot's rows are: in memory, or in the files of samples.py
snapshot_files.py  every file that holds a snapshot, opened: rows, head, class names
dynamics.py      dynamics/epoch=*.parquet, read back
suspects.py      suspects.parquet, read back
latex.py         tables as LaTeX
human.py         people's answers, in every form they come in
"""
