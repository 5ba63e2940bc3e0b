"""ImageNet's classes in WordNet's hierarchy, cut into a given number of coarser classes.

Synsets come from timm's list, the hierarchy from `data.noun` of WordNet 3.0: in --data, or where Debian's wordnet-base puts it.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from hardsight.paper.context import Context

DEBIAN = Path("/usr/share/wordnet/data.noun")
ENTITY = "00001740"


def find_wordnet(context: Context) -> Path | None:
    """The file with WordNet's nouns, or None."""
    return context.data.find("wordnet") or (DEBIAN if DEBIAN.is_file() else None)


def read_parents(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Offset -> offset of its (first) hypernym, and offset -> its first word."""
    parents, words = {}, {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(" "):
            continue  # the licence
        parts = line.split()
        offset, words[parts[0]] = parts[0], parts[4].replace("_", " ")
        pointers = parts[4 + 2 * int(parts[3], 16) :]
        for at in range(1, len(pointers) - 3, 4):
            if pointers[at] in ("@", "@i"):
                parents[offset] = pointers[at + 1]
                break
            if pointers[at] == "|":
                break
    return parents, words


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
