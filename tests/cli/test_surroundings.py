"""Nothing around a command changes what it writes, and nothing is asked of the network."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

SCRIPT = """
import json, os, sys, time

asked, network = [], ("socket.connect", "socket.getaddrinfo", "socket.sendto")
sys.addaudithook(lambda event, given: asked.append(event) if event in network else None)
late, real = float(sys.argv[1]), time.time
time.time = lambda: real() + late
if late:
    time.tzset()
from hardsight.cli import main

for words in json.loads(sys.argv[2]):
    sys.argv = ["hardsight", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
assert asked == [], asked
"""
COMMANDS = [
    ["score", "s.npz", "-o", "scores.parquet"],
    ["clean", "s.npz", "-o", "suspects.parquet"],
    ["select", "s.npz", "--budget", "10", "-o", "subset.csv"],
    ["report", "s.npz", "-o", "report.html"],
]
ELSEWHERE = {"PYTHONHASHSEED": "7", "TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8", "LANG": "C"}


def test_clock_zone_locale_and_hash_seed_change_no_byte_and_nobody_is_asked(tmp_path: Path) -> None:

    rng = np.random.default_rng(0)
    weight, labels = rng.normal(size=(3, 8)), np.arange(60) % 3
    features = weight[labels] + rng.normal(size=(60, 8))
    ids = np.array([f"İstanbul ığ {row}" for row in range(60)])
    written = []
    for late, around in {0.0: {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}, -4e8: ELSEWHERE}.items():
        here = tmp_path / str(late)
        here.mkdir()
        np.savez(here / "s.npz", features=features, weight=weight, labels=labels, ids=ids)
        words = [sys.executable, "-c", SCRIPT, str(late), json.dumps(COMMANDS)]
        done = subprocess.run(words, cwd=here, env={**os.environ, **around}, capture_output=True, text=True, encoding="utf-8")
        assert done.returncode == 0, done.stderr
        written.append(
            {name.name: hashlib.sha256(name.read_bytes()).hexdigest() for name in here.iterdir() if name.name != "s.npz"}
        )
    assert written[0] == written[1] and len(written[0]) == len(COMMANDS)
