"""`python -m benchmarks`: every benchmark has a subcommand, and exceeded limits are reported."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import benchmarks
from benchmarks import adapt, dynamics, explore, extract, hardness, people, timing
from benchmarks.__main__ import BENCHMARKS, main, parser_of
from benchmarks.timing import Measurement, compared, in_fresh_process, report
from doc_blocks import ROOT, doc_script
from hardsight import Dynamics, Snapshot, score
from hardsight.cores import POLICIES
from hardsight.stats import pearson, spearman


def test_every_benchmark_has_a_name() -> None:
    modules = [name for _, name, _ in pkgutil.iter_modules(benchmarks.__path__) if name not in ("__main__", "tests")]
    assert {name for name in modules if hasattr(importlib.import_module(f"benchmarks.{name}"), "run")} == set(BENCHMARKS)


def test_options_are_the_parameters_of_run() -> None:
    words = ["-o", "here", "--kinds", "pair, near", "--rates", "0.1,0.2", "--seeds", "2", "--quick"]
    options = vars(parser_of(hardness).parse_args(words))
    assert options == {
        "output": Path("here"), "data": None, "sets": (), "kinds": ("pair", "near"), "rates": (0.1, 0.2), "seeds": 2,
        "limit": None, "quick": True, "json": False,
    }  # fmt: skip
    assert parser_of(explore).parse_args(["-n", "100,200"]).n == (100, 200)


def test_numbers_are_printed_as_json_and_all_else_beside_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(n: int, rounds: int = 3) -> list[Measurement]:
        return [Measurement("case", f"{n} in {rounds}", 2.0, "ms", 1.0, 1.5)]

    monkeypatch.setattr(adapt, "run", run)
    main(["adapt", "-n", "7", "--json"])
    printed = capsys.readouterr()
    (line,) = json.loads(printed.out)["measurements"]
    assert line["what"] == "7 in 3" and line["within"] and "within all limits (1)" in printed.err


def test_the_verdict_names_what_is_over_its_limit(capsys: pytest.CaptureFixture[str]) -> None:
    fine = [
        Measurement("case", "baseline", 2.0, "ms", ratio=1.0),
        Measurement("case", "ours", 3.0, "ms", ratio=1.5, limit=1.5),
        Measurement("case", "memory", 10.0, "MB", limit=64.0),
    ]
    report(fine)
    assert "within all limits (2)" in capsys.readouterr().out
    report([*fine, Measurement("case", "theirs", 1.0, "ms", ratio=1.7, limit=1.6)])
    said = capsys.readouterr().out
    assert "over 1 of 3 limits:\n  case, theirs: 1.7, limit 1.6" in said


def test_ratios_are_to_the_baseline_of_the_same_round(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    slow_machine = iter([1.0, 10.0, 1.0])  # the machine is ten times slower in the second round
    speed = [1.0]

    def baseline() -> None:
        speed[0] = next(slow_machine)
        clock[0] += 2 * speed[0]

    def ours() -> None:
        clock[0] += 3 * speed[0]

    lines = compared("case", {"baseline": baseline, "ours": ours}, 3, {"ours": 1.6})
    assert [(line.value, line.ratio, line.within) for line in lines] == [(2000.0, 1.0, None), (3000.0, 1.5, True)]


@pytest.mark.parametrize(("limit", "rounds", "within"), [(2.0, 9, True), (1.55, 26, True), (1.1, 9, False)])
def test_rounds_are_added_while_a_limit_is_too_near_to_tell(
    monkeypatch: pytest.MonkeyPatch, limit: float, rounds: int, within: bool
) -> None:
    clock, turns = [0.0], [0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("time.sleep", lambda seconds: None)

    def baseline() -> None:
        clock[0] += 1.0

    def ours() -> None:  # 1.4, 1.5, 1.6 in turn
        clock[0] += (1.5, 1.4, 1.6)[turns[0] % 3]
        turns[0] += 1

    _, line = compared("case", {"baseline": baseline, "ours": ours}, 9, {"ours": limit})
    assert (turns[0], line.within) == (rounds, within) and line.ratio == pytest.approx(1.5)


def add(a: Any, b: Any) -> Any:
    return a + b


def test_an_epoch_with_dynamics_is_compared_with_one_without(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(dynamics, "DIGITS", 40)
    monkeypatch.setattr(dynamics, "SMALL", 10)
    monkeypatch.setattr(timing, "REST", 0.0)
    monkeypatch.setattr(timing, "TURN", 1e-9)
    monkeypatch.setattr(timing, "LONGEST", 1)
    recorded: list[int] = []
    finish = Dynamics.finish
    monkeypatch.setattr(Dynamics, "finish", lambda self, epoch: recorded.append(len(pq.read_table(finish(self, epoch)))))
    lines = dynamics.run(rounds=1)
    assert [(line.what, line.limit) for line in lines] == [("plain steps", None), ("with dynamics", None)] * 2 + [
        ("plain steps", None),
        ("with dynamics", 1.05),
    ]
    assert recorded == [40] * 4 + [10] * 2  # every sample of every epoch: one to warm up, one that counts


def test_beside_busy_loops_and_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each measurement is a process with its own wait policy; the busy loops run for the first half only."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    monkeypatch.setattr(extract, "_busy_loops", busy_loops := Loops())
    took = {"one thread": 2.0, "extract": 2.5, "extract, spinning": 20.0}
    beside: dict[str, list[bool]] = {kind: [] for kind in took}

    def printed(code: str, env: dict[str, str]) -> float:
        assert not {*POLICIES, "OPENBLAS_THREAD_TIMEOUT"} & env.keys()
        kind = next(kind for kind in took if repr(kind) in code)
        assert code.startswith("from hardsight.cli import limit_spinning") == (kind == "extract")
        beside[kind].append(busy_loops.running)
        return took[kind] if busy_loops.running else 1.0

    monkeypatch.setattr(extract, "_printed", printed)
    lines = extract.beside_busy_loops(tmp_path / "images.npz", tmp_path, rounds=1)
    limits = [(line.case, line.what, line.ratio, line.limit) for line in lines if line.limit]
    assert limits == [("beside two busy loops", "extract", 1.25, 1.5), ("alone", "extract", 1.0, 1.03)]
    assert beside == {"one thread": [True], "extract": [True, False, False], "extract, spinning": [True, False, False]}


class Loops:
    """A stand-in for two processes that keep the cores busy."""

    running = False

    def __call__(self) -> Loops:
        return self

    def __enter__(self) -> None:
        self.running = True

    def __exit__(self, *_: object) -> None:
        self.running = False


def test_a_fresh_process_gives_the_result_back() -> None:
    assert in_fresh_process(add, 1, 2) == 3


@pytest.mark.filterwarnings("ignore")  # DataLoader's, about forks
def test_extract_is_measured_against_a_bare_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hardsight.models import open_model

    monkeypatch.setattr(extract, "PHOTOS", 8)
    photos = extract._photos(tmp_path)
    lines = extract._against_a_bare_loop("small", open_model(extract.SMALL_NET), photos, tmp_path, rounds=1)
    assert [(line.what, line.unit) for line in lines] == [
        (what, unit) for unit in ("ms", "images/s") for what in ("bare loop", "extract")
    ]
    assert lines[1].limit == 1.11 and lines[1].ratio is not None


def test_people_are_measured_against_their_limits() -> None:
    lines = people.run(images=60, samples=400, width=8, classes=4, rounds=1)
    limits = {line.case.partition(",")[0]: line.limit for line in lines if line.limit is not None}
    assert limits == {"correlate": 60.0, "people": 30.0, "human_hardness": 1.3}


def study(tmp_path: Path, references: list[Snapshot], networks: int = 2) -> people.Study:
    """Made-up networks of 300 images, of which people find those hard that lie between classes."""
    seen = [people._network(300, 8, 4, seed) for seed in range(networks)]
    gap = np.mean([network.scores(["angular_gap"]).column("angular_gap").to_numpy() for network in seen], axis=0)
    frequency = np.random.default_rng(0).binomial(20, (300 - gap.argsort().argsort()) / 301) / 20
    return people.Study("made up", seen, references, frequency, frequency, np.full(300, 20), (100, 200), tmp_path)


def test_intervals_hold_what_draws_and_images_leave_open() -> None:
    of = people.Agreement.over_draws
    images = of([0.4, 0.4], [0.1, 0.1])  # draws agree, and share their images: two say no more than one
    assert (images.value, images.low, images.high) == pytest.approx((0.4, 0.4 - 0.196, 0.4 + 0.196))
    draws = of([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])  # Student's interval
    assert (draws.value, draws.low, draws.high) == pytest.approx((2.0, -0.484, 4.484), abs=1e-3)
    assert of([1.0, 2.0, 3.0], [1.0, 1.0, 1.0]).low == pytest.approx(2 - (2.484**2 + 1.96**2) ** 0.5, abs=1e-3)


def test_people_are_scored_on_the_images_without_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who knows the others' frequencies has 1, whatever is said of the answered images; the ridge has less."""
    monkeypatch.setattr(people, "DRAWS", 2)
    made_up, asked = study(tmp_path, []), []

    def knowing(networks: list[Snapshot], said: dict[str, Any]) -> Any:
        asked.append(said["id"])
        frequency = np.where(np.isin(np.arange(300), said["id"]), 0.0, made_up.frequency)
        return SimpleNamespace(table=pa.table({"predicted_frequency": frequency}))

    monkeypatch.setattr(people, "people", knowing)
    lines = {(line.case, line.what, line.unit): line for line in made_up.learning_curve()}
    draws = [np.random.default_rng(seed).permutation(300)[:size] for size in (100, 200) for seed in (0, 1)]
    np.testing.assert_equal([set(rows) for rows in asked], [set(rows) for rows in draws])
    for size in (100, 200):
        for unit in ("Spearman", "Pearson"):
            ours, ridge, less = (
                lines[f"made up, {size} answers", what, unit] for what in ("people", "ridge", "ridge less people")
            )
            assert ours.value == pytest.approx(1) and 0.3 < ridge.value < 1
            assert less.value == pytest.approx(ridge.value - 1) and less.within
    best = [line for line in lines.values() if line.what.startswith("best score")]
    assert {line.unit for line in best} == {"Spearman", "Pearson"} and all(0.8 < line.value < 1 for line in best)
    monkeypatch.setattr(people, "people", None)
    assert made_up.learning_curve() == list(lines.values())  # finished draws are kept


def test_a_draw_learns_from_its_answers_alone(tmp_path: Path) -> None:
    made_up = study(tmp_path, [])
    rest = np.random.default_rng(0).permutation(300)[100:]
    other = made_up.frequency.copy()
    other[rest] = 1 - other[rest]
    turned = replace(made_up, frequency=other)
    for what in ("people", "ridge"):
        values = [each._drawn(100, 0)["Spearman"][what][0] for each in (made_up, turned)]
        assert values[0] > 0.3 and values[1] == pytest.approx(-values[0])


def test_human_hardness_is_compared_on_the_half_that_was_held_out(tmp_path: Path) -> None:
    made_up = study(tmp_path, [people._network(400, 8, 4, seed) for seed in range(2)])
    lines = {(line.what, line.unit): line for line in made_up.against_the_gap()}
    names = ["angular_gap", "human_hardness"]
    tables = [score(of, scores=names, reference=by).table for of, by in zip(made_up.networks, made_up.references, strict=True)]
    gap, hardness = (np.mean([table.column(name).to_numpy() for table in tables], axis=0) for name in names)
    half = np.random.default_rng(0).permutation(300)[150:]
    less = spearman(-gap[half], made_up.frequency[half]) - spearman(-hardness[half], made_up.frequency[half])
    line = lines["angular_gap, one pass, less human_hardness, one pass, held-out half", "Spearman"]
    assert line.value == pytest.approx(less) and line.limit == -0.010
    whole = lines["human_hardness, all images, one pass", "Pearson"].value
    assert whole == pytest.approx(pearson(-hardness, made_up.frequency))


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--parts", "answers"], "--data must name"), (["--parts", "all"], "parts must be of speed, .*, got 'all'")],
)
def test_people_need_data_and_known_parts(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["people", *words])
    assert re.search(message, capsys.readouterr().err)


@pytest.fixture
def picture(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "docs")  # it draws like the picture of the README
    return doc_script("make_people_picture")


def test_the_tables_of_the_page_are_those_of_the_run(picture: Any) -> None:
    found = json.loads((ROOT / "docs" / "people.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "people.md").read_text(encoding="utf-8")
    assert all("\n".join(table) in page for table in (picture.answers_table(found), picture.reference_table(found)))


def test_the_tables_turn_differences_around(picture: Any) -> None:
    by_size = {
        "people": people.Agreement(0.42, 0.40, 0.44),
        "ridge": people.Agreement(0.41, 0.39, 0.43),
        "ridge less people": people.Agreement(-0.0123, -0.03, 0.0054),
    }
    lines = [Measurement("x", "best score without answers: avh", 0.379, unit) for unit in ("Spearman", "Pearson")]
    for what, agreement in by_size.items():
        cases = [(f"x, {size} answers", unit) for size in (100, 500) for unit in ("Spearman", "Pearson")]
        lines += [line for case, unit in cases for line in agreement.lines(case, what, unit)]
    found = picture.taken_over({"measurements": [asdict(line) for line in lines]})
    assert found["x, 500 answers"]["ridge less people, Spearman"] == [-0.0123, -0.03, 0.0054]
    *_, best, _, row = picture.answers_table(found)
    assert best == "| x | none: `avh` | | .379 | | | .379 | |"
    assert row == f"| | 500 {2 * '| .410 | .420 | +.012 [-.005, .030] '}|"
