"""Cores come from affinity and quota; the command limits how long threads spin, and importing changes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main as benchmark
from hardsight import cores, threads


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {}, None),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/box/job\n", {"box/cpu.max": "150000 100000\n", "box/job/cpu.max": "max 100000\n"}, 1.5),  # set further out
        ("0::/box/job\n", {"cpu.max": "300000 100000\n", "box/job/cpu.max": "50000 100000\n"}, 0.5),  # the smallest counts
        ("0::/elsewhere\n", {"cpu.max": "200000 100000\n"}, 2.0),  # in a container: its group is the root of what it sees
        (
            "4:memory:/a\n2:cpu,cpuacct:/a\n0::/a\n",
            {"cpu,cpuacct/a/cpu.cfs_quota_us": "250000\n", "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"},
            2.5,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ("1:cpuset:/\n", {"cpuset/cpu.cfs_quota_us": "1\n", "cpuset/cpu.cfs_period_us": "1\n"}, None),
        ("nonsense", {"cpu.max": "fast\n"}, None),
    ],
)
def test_quota(tmp_path: Path, groups: str, files: dict[str, str], expected: float | None) -> None:
    write(tmp_path / "cgroup", groups)
    for name, text in files.items():
        write(tmp_path / "sys" / name, text)
    assert cores.quota(tmp_path / "cgroup", tmp_path / "sys") == expected
    assert cores.quota(tmp_path / "absent", tmp_path) is None  # the system has no groups


def test_cores_that_this_process_may_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    for share, expected in ((None, 3), (1.5, 2), (0.2, 1), (8.0, 3)):
        monkeypatch.setattr(cores, "_granted", lambda share=share: share)
        assert cores.available() == expected
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS has none
    assert cores.allowed() == 64


@pytest.fixture
def two_of_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "allowed", lambda: 8)
    monkeypatch.setattr(cores, "_granted", lambda: 1.5)
    monkeypatch.setattr(cores, "_said", [])


@pytest.mark.usefixtures("two_of_eight")
def test_the_command_limits_spinning(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*cores.POLICIES, "OPENBLAS_THREAD_TIMEOUT", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    cores.limit_spinning()
    assert (os.environ["OMP_WAIT_POLICY"], os.environ["GOMP_SPINCOUNT"]) == ("PASSIVE", cores.TURNS)
    assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == cores.SPIN
    assert os.environ["OMP_NUM_THREADS"] == "2"  # a core and a half is more than one thread can use
    assert threads.num_threads() == 2


@pytest.mark.usefixtures("two_of_eight")
@pytest.mark.parametrize("name", cores.POLICIES)
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other in cores.POLICIES:
        monkeypatch.delenv(other, raising=False)
    chosen = {name: "7", "OPENBLAS_THREAD_TIMEOUT": "20", "OMP_NUM_THREADS": "3"}
    for variable, value in chosen.items():
        monkeypatch.setenv(variable, value)
    before = dict(os.environ)
    cores.limit_spinning()
    assert dict(os.environ) == before


@pytest.mark.usefixtures("two_of_eight")
def test_too_many_threads_are_said_once(monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    with pytest.warns(UserWarning, match=r"8 threads share a CPU quota of 1.5 cores .* OMP_NUM_THREADS=2"):
        cores.warn_of_quota(8)
    cores.warn_of_quota(8)
    monkeypatch.setattr(cores, "_granted", lambda: None)  # without a quota, nothing is said
    monkeypatch.setattr(cores, "_said", [])
    cores.warn_of_quota(1000)
    assert not recwarn and cores.available() == cores.allowed()


def test_a_benchmark_measures_the_libraries_as_they_are(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("hardsight.cli.limit_spinning", lambda: asked.append("command"))
    with suppress(SystemExit):
        benchmark(["--help"])
    assert not asked
    assert cli("score", "--help").code == 0 and asked


def test_the_command_decides_before_any_library_starts_threads(fresh_python: Callable[..., Any]) -> None:
    code = "import os; before = dict(os.environ); import hardsight; hardsight.Head; assert dict(os.environ) == before"
    assert fresh_python(code).code == 0  # importing leaves the environment alone
    code = "import sys; from hardsight import cli; cli.avoid_amx = lambda: sys.exit(f'{sorted(sys.modules)}'); cli.main()"
    done = fresh_python(code)
    assert done.code == 1 and "hardsight.cores" in done.err and not re.search("'(numpy|scipy|torch|pyarrow)'", done.err)


AMX = "avx512f avx512_bf16 amx_bf16 avx512_fp16 amx_tile amx_int8"


@pytest.fixture
def with_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "cpu_flags", lambda: AMX)
    for name in cores.ISA:
        monkeypatch.setenv(name, "")  # so that what the test sets is forgotten after it
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("flags", "environment", "needed"),
    [(AMX, {}, True), ("avx512f avx512_bf16", {}, False), ("", {}, False)]
    + [(AMX, {name: value}, False) for name in cores.ISA for value in ("AVX2", "ALL")],
)
def test_which_cpus_need_a_limit(flags: str, environment: dict[str, str], needed: bool) -> None:
    assert cores.needs_limit(flags, environment) is needed


def test_flags_are_those_of_the_first_core(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("model name\t: A\nflags\t\t: fpu amx_tile\nbugs\t:\n\nflags\t\t: fpu\n")
    assert cores.cpu_flags(tmp_path / "cpuinfo").split() == ["fpu", "amx_tile"]
    assert cores.cpu_flags(tmp_path / "absent") == ""


@pytest.mark.usefixtures("with_amx")
def test_the_command_avoids_amx(cli: Callable[..., Any]) -> None:
    assert cli("train", "--help").code == 0 and os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_BF16"
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"
    assert cli("train", "--help").code == 0 and os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX2"


@pytest.mark.usefixtures("with_amx")
def test_in_python_a_warning_says_what_to_set(recwarn: pytest.WarningsRecorder) -> None:
    import torch

    from hardsight.training.optimization import mixed_precision

    cpu = torch.device("cpu")
    with pytest.warns(UserWarning, match="set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 before Python starts"):
        mixed_precision("bfloat16", cpu)
    mixed_precision("float32", cpu)
    cores.avoid_amx()
    mixed_precision("bfloat16", cpu)
    assert not recwarn
