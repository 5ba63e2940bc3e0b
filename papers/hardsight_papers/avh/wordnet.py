"""ImageNet's classes in WordNet's hierarchy, cut into a given number of coarser classes.

Synsets come from timm's list, the hierarchy from `data.noun` of WordNet 3.0: in --data, or where Debian's wordnet-base puts it.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from hardsight.errors import FileError
from hardsight_papers.context import Context

DEBIAN = Path("/usr/share/wordnet/data.noun")


def find_wordnet(context: Context) -> Path | None:
    """The file with WordNet's nouns, or None."""
    return context.data.find("wordnet") or (DEBIAN if DEBIAN.is_file() else None)


def read_parents(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Offset -> offset of its (first) hypernym, and offset -> its first word."""
    parents, words = {}, {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        if line.startswith(" "):
            continue  # the licence
        try:
            offset, word, parent = _read_noun(line)
        except (IndexError, ValueError) as error:
            raise FileError(f"{path} must be data.noun of WordNet 3.0; line {number} is not a noun: {line[:40]!r}.") from error
        words[offset] = word.replace("_", " ")
        if parent is not None:
            parents[offset] = parent
    return parents, words


def _read_noun(line: str) -> tuple[str, str, str | None]:
    """Offset, first word and offset of the first hypernym: `offset file n WORDS word 0 ... POINTERS @ offset n 0000 | gloss`."""
    parts = line.split()
    pointers = parts[4 + 2 * int(parts[3], 16) :]
    for at in range(1, len(pointers) - 3, 4):
        if pointers[at] in ("@", "@i"):
            return parts[0], parts[4], pointers[at + 1]
        if pointers[at] == "|":
            break
    return parts[0], parts[4], None


def coarser(synsets: list[str], path: Path, count: int) -> tuple[list[int], list[str]]:
    """The coarser class of each synset, and the names of all: the largest class is split until there are at least `count`."""
    parents, words = read_parents(path)
    chains = []
    for synset in synsets:
        chain = [synset.removeprefix("n")]
        while chain[-1] in parents:
            chain.append(parents[chain[-1]])
        chains.append(chain[::-1])  # from entity down to the synset
    depth = [0] * len(synsets)  # how far down each chain is cut
    while True:
        members: dict[str, list[int]] = defaultdict(list)
        for k, chain in enumerate(chains):
            members[chain[depth[k]]].append(k)
        largest = max(members.values(), key=len)
        if len(members) >= count or len(largest) == 1:
            break
        for k in largest:
            depth[k] = min(depth[k] + 1, len(chains[k]) - 1)
    names = list(members)
    of_class = [names.index(chain[depth[k]]) for k, chain in enumerate(chains)]
    return of_class, [words.get(name, name) for name in names]
