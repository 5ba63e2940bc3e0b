"""A training that is killed goes on from its last checkpoint and ends with the same bytes; several processes train as one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import hardsight

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from safetensors.torch import load_file

from hardsight import verify
from hardsight.errors import RunError
from hardsight.files.heads import load_head
from undrawn import undrawn

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kill -9 is a Unix thing")

# A network with all that could go another way after a restart: batch statistics, dropout, momentum, moved centers.
NETS = """
from torch import nn

def with_everything(num_classes=10):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(144, 8), nn.ReLU(),
        nn.Linear(8, num_classes),
    )

def without_batch_norm(num_classes=10):
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8), nn.Tanh(), nn.Linear(8, num_classes))
"""

# Runs in processes of their own that are killed at the n-th renaming of a file. The parent imports torch once and never
# computes; each run is a child made by fork, which is what makes a loop over all n affordable.
KILLED = """
import logging, os, signal, sys
os.environ["OMP_NUM_THREADS"] = "1"
from pathlib import Path
import numpy as np
import matplotlib.figure, sklearn.datasets, sklearn.linear_model, torch._dynamo  # what each child would load again
import hardsight.domains.adapt_models, hardsight.training.loop
import hardsight
from hardsight.training import checkpoint

logging.getLogger("matplotlib").setLevel("ERROR")  # it says when it looks for fonts for the first time
folder, replace = Path(sys.argv[1]), os.replace

def train(output):
    hardsight.train("digits", output, model="nets:with_everything", loss="center", epochs=3, limit=40, batch_size=16, size=8,
                 augment="crop=1", schedule="cosine", schedule_options={"warmup": 1}, every=2, lr=0.05,
                 optimizer_options={"clip": 1.0})

def self_paced(output):  # each epoch's samples are chosen by the network as it is when that epoch begins
    hardsight.train("digits", output, model="nets:with_everything", order="self-paced", pace_start=0.3, epochs=3, limit=40,
                    batch_size=16, size=8, lr=0.05)

def self_train(output):
    checkpoint.SECONDS_BETWEEN = 0.0
    labels = np.arange(60) % 3
    there = (np.eye(3)[labels] * 3 + np.random.default_rng(0).normal(size=(60, 3))).astype(np.float32)
    hardsight.adapt((there, labels), (there * 1.5 + 1, labels), output, methods="source,cbst+avh", rounds=2, epochs=1,
              source_epochs=3, hidden=8, batch_size=15, device="cpu")

def in_a_child(run, output, kill_at=0):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    steps = 0
    def dying_replace(source, target):
        nonlocal steps
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)
    os.replace = dying_replace
    try:
        run(output)
        os._exit(0)
    except BaseException as error:
        print(type(error).__name__, error, file=sys.stderr)
        os._exit(1)

for job in sys.argv[2:]:
    name, _, kills = job.partition(":")
    run = globals()[name]
    print(name, "whole", in_a_child(run, folder / name / "whole"), flush=True)
    for n in kills.split(","):
        output = folder / name / n
        died = in_a_child(run, output, int(n))
        inside = int(any(output.rglob("checkpoints")))
        print(name, n, died, inside, in_a_child(run, output) if died else "", flush=True)
        if not died:
            break
"""


# Self-training and leave-one-domain-out on a few points.
BOTH = """
import sys
import numpy as np
import hardsight

def both(folder):
    labels = np.arange(60) % 3
    there = (np.eye(3)[labels] * 3 + np.random.default_rng(0).normal(size=(60, 3))).astype(np.float32)
    options = {"hidden": 8, "batch_size": 15, "device": "cpu", "epochs": 2}
    hardsight.adapt((there, labels), (there * 1.5 + 1, labels), folder + "/adapt", methods="cbst,mcd", source_epochs=2,
                    rounds=2, **options)
    data = hardsight.Snapshot(there, labels=labels, columns={"domain": np.repeat(["a", "b", "c"], 20)})
    hardsight.generalize(data, folder + "/generalize", losses="drm,mldg", **options)
"""

# The same by two processes, and then the command that follows. What torchrun calls starts them as forks of a Python that has
# loaded everything: two fresh ones would each take seconds for that.
TOGETHER = (
    BOTH
    + """
import matplotlib.figure, sklearn.datasets, sklearn.linear_model, torch._dynamo
import hardsight.domains.adapt_models, hardsight.domains.generalize_models
import hardsight.training.loop
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from hardsight.cli import main

matplotlib.figure.Figure.savefig = lambda self, path, **_: open(path, "wb").close()  # as `undrawn`
sys.argv = ["hardsight", *sys.argv[1:]]

def process():
    both("two")
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code

standalone = LaunchConfig(1, 1, 2, run_id="two", rdzv_backend="c10d", rdzv_endpoint="localhost:0", start_method="fork")
elastic_launch(standalone, process)()
"""
)


@pytest.fixture
def nets(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    return tmp_path


def contents(run: Path) -> dict[str, bytes]:
    """All files of a run, but for those that tell when it was made."""
    files = {path.relative_to(run).as_posix(): path for path in run.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in sorted(files.items()) if name not in (".lock", "start.json", "run.json")}


def killed_and_resumed(folder: Path, jobs: dict[str, list[int]]) -> list[list[str]]:
    """What KILLED prints, word by word."""
    words = [f"{name}:{','.join(map(str, kills))}" for name, kills in jobs.items()]
    for name in jobs:
        (folder / name).mkdir()
    done = run_python(folder, "-c", KILLED, str(folder), *words, timeout=1800)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


HELD = {
    "train": {"model/model.safetensors", "dynamics/step=000002.parquet"},
    "self_paced": {"model/model.safetensors", "dynamics/epoch=0003.parquet"},
    "self_train": {"source-to-target/seed=0/cbst+avh/round=02.parquet", "figures/accuracy-source-to-target.png"},
}


def check_kills(folder: Path, **jobs: list[int]) -> set[tuple[str, int]]:
    """Each kill costs nothing but time. Returns the kills that fell into a training."""
    inside, expected = set(), dict[str, dict[str, bytes]]()
    for name, n, died, *rest in killed_and_resumed(folder, jobs):
        if n == "whole":
            expected[name] = contents(folder / name / "whole")
            assert died == "0" and HELD[name] <= expected[name].keys()
        elif died == "0":  # there is no n-th file: nobody died
            assert int(n) > 20
        else:
            assert int(died) == signal.SIGKILL and rest[1:] == ["0"], (name, n, died, rest)
            assert contents(folder / name / n) == expected[name], f"{name} killed at file {n}"
            inside |= {(name, int(n))} if rest[0] == "1" else set()
    assert expected.keys() == jobs.keys()
    return inside


def test_killed_at_some_files(nets: Path) -> None:
    kills = check_kills(nets, train=[4, 13], self_paced=[8], self_train=[16])
    assert kills >= {("train", 13), ("self_paced", 8), ("self_train", 16)}


@pytest.mark.slow
def test_killed_at_every_file(nets: Path) -> None:
    check_kills(nets, train=list(range(1, 60)), self_paced=list(range(1, 60)), self_train=list(range(1, 60)))


SETTINGS: dict[str, Any] = {
    "size": 8, "epochs": 3, "limit": 45, "batch_size": 15, "lr": 0.1, "loss": "center", "device": "cpu",
}  # fmt: skip


def script(output: Path, **options: Any) -> list[str]:
    """A training as a command, for a process of its own."""
    words = ["-m", "hardsight", "train", "digits", "--model", "nets:without_batch_norm", "-o", str(output)]
    for name, value in {**SETTINGS, **options}.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(folder), *sys.path])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def run_python(folder: Path, *words: str, timeout: int = 300) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=timeout)


@pytest.mark.slow
def test_a_real_kill_in_the_middle(nets: Path) -> None:
    """Not at a file but at a moment: after the first checkpoint, kill -9 from outside."""
    child = subprocess.Popen(
        [sys.executable, *script(nets / "run", epochs=60)], cwd=nets, env=environment(nets), stdout=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 120
        while not list((nets / "run" / "checkpoints").glob("epoch=000[2-9].json")):
            assert child.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        child.kill()
        child.wait()
    assert not (nets / "run" / "run.json").exists()
    resumed, whole = (run_python(nets, *script(nets / name, epochs=60)) for name in ("run", "whole"))
    assert resumed.returncode == whole.returncode == 0, resumed.stderr + whole.stderr
    assert "resuming after epoch" in resumed.stdout and "resuming" not in whole.stdout
    assert contents(nets / "run") == contents(nets / "whole")


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path) -> None:
    inputs, labels = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2

    def train(output: Path, say: Any = None, stop_after: int | None = None) -> None:
        def stop(done: int, total: int, words: str) -> None:
            if stop_after is not None and words.startswith(f"epoch {stop_after + 1}"):
                raise KeyboardInterrupt

        hardsight.train((inputs, labels), output, model="point_mlp:PointMLP", epochs=4, batch_size=10, say=say, progress=stop)

    train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", stop_after=3)
    with pytest.raises(RunError, match="other inputs: train: its values changed"):
        hardsight.train((inputs, 1 - labels), tmp_path / "run", model="point_mlp:PointMLP", epochs=4, batch_size=10)
    last = tmp_path / "run" / "checkpoints" / "epoch=0003.safetensors"
    last.write_bytes(last.read_bytes()[:-3])
    said: list[str] = []
    train(tmp_path / "run", said.append)
    assert "is damaged" in said[0] and said[1] == "resuming after epoch 2 of 4"
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `script` says, here and now."""
    folder = tmp_path_factory.mktemp("one")
    (folder / "nets.py").write_text(NETS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.delitem(sys.modules, "nets", raising=False)
        hardsight.train("digits", folder / "run", model="nets:without_batch_norm", **SETTINGS)
    sys.modules.pop("nets", None)
    return folder / "run"


def same_within(one: Path, two: Path, tolerance: float) -> None:
    """The same ids, each once, and the same numbers, in every dynamics file and in the head."""
    for path in sorted((one / "dynamics").iterdir()):
        expected, found = pq.read_table(path).to_pylist(), pq.read_table(two / "dynamics" / path.name).to_pylist()
        assert [(row["id"], row["split"]) for row in expected] == [(row["id"], row["split"]) for row in found]
        assert len({(row["id"], row["split"]) for row in found}) == len(found) == 90
        for a, b in zip(expected, found, strict=True):
            for name in ("own_angle", "nearest_angle", "avh", "norm", "confidence", "logit_margin", "el2n", "loss"):
                assert a[name] == pytest.approx(b[name], abs=tolerance), (path.name, a["id"], name)
    assert np.abs(load_head(one / "head.safetensors")[0].weight - load_head(two / "head.safetensors")[0].weight).max() < tolerance


def test_two_processes_train_as_one(nets: Path, one_process: Path) -> None:
    """A loss whose centers move by the whole batch; a batch of 15 is shared as 8 and 7.

    First they adapt and generalize, each with a share of every batch, and one of them writes.
    """
    (nets / "together.py").write_text(TOGETHER)
    done = run_python(nets, "together.py", *script(nets / "run")[2:])
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("epoch 3/3") == 1  # one of them speaks
    same_within(one_process, nets / "run", 1e-4)
    namespace: dict[str, Any] = {}
    exec(BOTH, namespace)
    with undrawn():
        namespace["both"](str(nets / "one"))
    for path in ("adapt/source-to-target/seed=0/source", "adapt/source-to-target/seed=0/cbst", "generalize/b/drm/seed=0"):
        one, two = (contents(nets / name / path) for name in ("one", "two"))
        assert one.keys() == two.keys() and one
    trained = (
        "adapt/source-to-target/seed=0/source/state",
        "adapt/source-to-target/seed=0/mcd/state",
        "generalize/b/mldg/seed=0/head",
    )
    for path in trained:
        ours, theirs = (load_file(nets / name / f"{path}.safetensors") for name in ("one", "two"))
        assert all(torch.allclose(ours[key], theirs[key], atol=1e-4) for key in ours), path
    for place in ("adapt", "generalize"):
        starts = [json.loads((nets / name / place / "start.json").read_text("utf-8")) for name in ("one", "two")]
        assert [start["arguments"]["processes"] for start in starts] == [1, 2]
    for table in ("adapt/rounds", "generalize/epochs"):
        one_table, two_table = (pq.read_table(nets / name / f"{table}.parquet").to_pydict() for name in ("one", "two"))
        assert one_table.keys() == two_table.keys()
        for name in ("accuracy", "validation", "test"):
            assert one_table.get(name, []) == pytest.approx(two_table.get(name, []), abs=0.05)
    assert not any(verify(nets / "two" / name).damaged for name in ("adapt", "generalize"))


# The second of two processes kills itself in the middle of epoch 3, once.
KILLING = """
import os, signal
from hardsight.training import loop

evaluate = loop.Training._evaluate

def dying(self, epoch, *rest, **more):
    if epoch == 3 and os.environ["RANK"] == "1" and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return evaluate(self, epoch, *rest, **more)

loop.Training._evaluate = dying
"""


@pytest.mark.slow
def test_accelerate_launch_restarts_a_killed_process(nets: Path, one_process: Path) -> None:
    """One command: a process is killed, the launcher starts both again, and they end as one process does."""
    (nets / "nets.py").write_text(NETS + KILLING)
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--max_restarts", "1"]
    done = run_python(nets, *launch, "--monitor_interval", "0.1", *script(nets / "run"))
    assert done.returncode == 0 and (nets / "killed").exists(), done.stderr[-3000:]
    assert "resuming after epoch 2 of 3" in done.stdout and done.stdout.count("epoch 3/3") == 1
    same_within(one_process, nets / "run", 1e-4)


@pytest.mark.slow
def test_a_killed_process_and_a_restart(nets: Path, one_process: Path) -> None:
    """One of two is killed in the middle of epoch 3: the launcher ends the other, and the same command goes on."""
    (nets / "nets.py").write_text(NETS + KILLING)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    first = run_python(nets, *launch, *script(nets / "run"))
    assert first.returncode != 0 and (nets / "killed").exists() and not (nets / "run" / "run.json").exists()
    again = run_python(nets, *launch, *script(nets / "run"))
    assert again.returncode == 0, again.stderr[-3000:]
    assert "resuming after epoch 2 of 3" in again.stdout and "epoch 2/3" not in again.stdout
    same_within(one_process, nets / "run", 1e-4)
