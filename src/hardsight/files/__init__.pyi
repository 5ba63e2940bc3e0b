from .epochs import moments, read_moment
from .human import People, match, read_people
from .reading import read_json
from .run import Run, read_manifest
from .writing import replacing, write_json

__all__ = [
    "People",
    "Run",
    "match",
    "moments",
    "read_json",
    "read_manifest",
    "read_moment",
    "read_people",
    "replacing",
    "write_json",
]
