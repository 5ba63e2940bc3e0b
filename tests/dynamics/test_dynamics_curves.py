"""Groups, curves, plateau, phases and their description."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardsight import Dynamics
from hardsight.dynamics.curves import group_moments, plateau, read_curves, still_grows
from hardsight.dynamics.description import TrainingDynamics, describe_and_draw
from hardsight.dynamics.groups import by_column, by_degradation, by_hardness, by_human, by_label, by_values
from hardsight.dynamics.phases import find_phases
from hardsight.errors import InputError
from hardsight.render.dynamics import curves_figure
from undrawn import undrawn

# ---- a training whose story is known ----

IDS = [str(i) for i in range(30)]


def at_angle(degrees: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Features in the plane, at these angles from class 0 (which points right)."""
    radians = np.deg2rad(degrees)
    return length[:, None] * np.stack([np.cos(radians), np.sin(radians)], axis=1)


def story(folder: Path, epochs: int = 20, n: int = 30, steps: bool = False) -> None:
    """Angles fall in the first five epochs, norms rise from then on; sample i is i degrees harder."""
    hard = np.arange(n)
    with Dynamics(folder) as tracker:
        for epoch in range(1, epochs + 1):
            angle = 10 + hard + 80 * max(0, 5 - epoch) / 4
            length = np.full(n, 1.0 + 0.5 * max(0, epoch - 5))
            features = at_angle(angle, length)
            ids = [f"{i}" for i in range(n)]
            tracker.update(epoch, features, np.eye(2), np.zeros(n, int), ids, split="test")
            tracker.update(epoch, features, np.eye(2), np.zeros(n, int), [f"{i}#contrast=0.3" for i in range(n)], split="low")
            tracker.update(epoch, features[:5], np.eye(2), np.arange(5) % 2, [f"t{i}" for i in range(5)])
            if steps:
                tracker.update(epoch, features, np.eye(2), np.zeros(n, int), ids, split="test", step=10 * epoch)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("run")
    story(folder)
    return folder


# ---- curves ----


def test_curves_by_hand(run: Path) -> None:
    curves = read_curves(run, split="test", columns=["own_angle", "norm", "correct"])
    assert curves.times == list(range(1, 21)) and curves.unit == "epoch"
    assert curves.count.tolist() == [[30] * 20]
    degrees = 10 + np.arange(30)
    np.testing.assert_allclose(np.rad2deg(curves.mean["own_angle"][0, -1]), degrees.mean(), rtol=1e-6)
    np.testing.assert_allclose(np.rad2deg(curves.std["own_angle"][0, -1]), degrees.std(), rtol=1e-5)
    np.testing.assert_allclose(curves.mean["norm"][0], [1] * 5 + [1 + 0.5 * k for k in range(1, 16)], rtol=1e-6)
    assert curves.mean["correct"][0, 0] == 0 and curves.mean["correct"][0, -1] == 1
    assert read_curves(run, split="nobody").moments == []


@given(st.integers(0, 2**31), st.integers(1, 60), st.integers(1, 6))
def test_group_moments_against_a_plain_loop(seed: int, n: int, g: int) -> None:
    rng = np.random.default_rng(seed)
    values, code = rng.normal(size=n) + 1000, rng.integers(-1, g, n)
    values[rng.random(n) < 0.2] = np.nan
    mean, std = group_moments(values, code, g)
    for group in range(g):
        mine = [v for v, k in zip(values, code, strict=True) if k == group and not np.isnan(v)]
        np.testing.assert_allclose(mean[group], np.mean(mine) if mine else np.nan)
        np.testing.assert_allclose(std[group], np.std(mine) if mine else np.nan, atol=1e-9)


# ---- groups ----


def groups_of(groups: Any, run: Path, split: str) -> dict[str, int]:
    table = next(iter(Dynamics.read(run, split=split)))[1]
    return {name: int((groups.of(table) == code).sum()) for code, name in enumerate(groups.names)}


def test_words_few_numbers_and_many_numbers(run: Path) -> None:
    words = by_values("color", IDS, ["red"] * 10 + ["blue"] * 15 + [None] * 5)  # type: ignore[list-item]
    assert groups_of(words, run, "test") == {"blue": 15, "red": 10} and not words.ordered
    few = by_values("level", IDS, np.arange(30) % 3 / 10)
    assert groups_of(few, run, "test") == {"0": 10, "0.1": 10, "0.2": 10} and few.ordered
    many = by_values("size", IDS, np.arange(30.0))
    assert list(groups_of(many, run, "test").values()) == [6] * 5 and many.ordered
    assert many.names[0] == "0 to 5.8"
    assert sum(groups_of(words, run, "low").values()) == 0  # nobody knows those ids


REFUSED: dict[str, Callable[[Path], Any]] = {  # what it says -> what is asked of a run
    "a dynamics column must be one of .*, got 'hardness'": lambda run: read_curves(run, columns=["hardness"]),
    "one size per id, got 2": lambda run: by_values("size", IDS, [1, 2]),
    "ids must be unique": lambda run: by_values("size", ["a", "a"], [1, 2]),
    "human has 7 rows, but no row for 23 ids such as 10": lambda run: by_human(run, np.ones(7), "test"),
    "no column 'color' to group by; it has .*avh": lambda run: by_column(run, "color"),
    "30 groups by id are too many": lambda run: curves_figure(
        read_curves(run, by_values("id", IDS, [f"g{i}" for i in IDS]), split="test")
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_a_run_does_not_have_is_refused(words: str, run: Path) -> None:
    with pytest.raises(InputError, match=words):
        REFUSED[words](run)


def test_by_class_and_by_degradation(run: Path, tmp_path: Path) -> None:
    assert groups_of(by_label(run), run, "train") == {"0": 3, "1": 2}
    assert groups_of(by_degradation(run), run, "low") == {"original": 0, "contrast=0.3": 30}
    assert groups_of(by_degradation(run), run, "test") == {"original": 30, "contrast=0.3": 0}
    with Dynamics(tmp_path) as tracker:
        for how in ("#noise=0.2", "#contrast=0.6", "", "#contrast=0.1", "#noise=0.1"):
            tracker.update(1, np.eye(2), np.eye(2), [0, 1], [f"a{how}", f"b{how}"])
    assert by_degradation(tmp_path).names == ["original", "contrast=0.1", "contrast=0.6", "noise=0.1", "noise=0.2"]


def test_by_human_counts_and_frequencies(run: Path, tmp_path: Path) -> None:
    counts = np.stack([np.arange(30), 29 - np.arange(30)], axis=1)  # all samples have class 0: frequency i / 29
    groups = by_human(run, counts, "test")
    expected = np.bincount(np.minimum((np.arange(30) / 29 * 5).astype(int), 4), minlength=5).tolist()
    assert list(groups_of(groups, run, "test").values()) == expected
    assert groups.names == ["0 to 0.2", "0.2 to 0.4", "0.4 to 0.6", "0.6 to 0.8", "0.8 to 1"]
    assert groups_of(by_human(run, counts[:, 0] / 29, "test"), run, "test") == groups_of(groups, run, "test")
    low = by_human(run, counts, "low")
    assert list(groups_of(low, run, "low").values()) == expected  # degraded copies go with their originals
    rows = [(i, f"person {a}", int(a >= counts[i, 0])) for i in range(30) for a in range(29)]
    answers = pa.table({"id": [i for i, _, _ in rows], "annotator": [a for _, a, _ in rows], "answer": [k for *_, k in rows]})
    pq.write_table(answers.take(np.random.default_rng(0).permutation(len(rows))), tmp_path / "answers.parquet")
    lines = [f"{i},{counts[i, 0] / 29}" for i in reversed(range(30))]
    (tmp_path / "frequency.csv").write_text("\n".join(["id,frequency", *lines]))
    (tmp_path / "counts.json").write_text(json.dumps({str(i): row.tolist() for i, row in enumerate(counts)}))
    np.save(tmp_path / "counts.npy", counts)
    for name in ("answers.parquet", "frequency.csv", "counts.json", "counts.npy"):  # what correlate takes
        assert groups_of(by_human(run, tmp_path / name, "low"), run, "low") == groups_of(low, run, "low"), name
    (tmp_path / "some.csv").write_text("\n".join(["id,frequency", *lines[:6]]))
    assert sum(groups_of(by_human(run, tmp_path / "some.csv", "low"), run, "low").values()) == 6  # the others are in no group


def test_human_answers_that_do_not_fit(tmp_path: Path) -> None:
    for folder, ids in (("names", ["cat.png", "dog.png", "emu.png"]), ("numbers", [0, 1, 2])):
        with Dynamics(tmp_path / folder) as tracker:
            tracker.update(1, np.eye(3), np.eye(3), [0, 1, 2], ids)
    with pytest.raises(InputError, match="ids of the dynamics are names"):
        by_human(tmp_path / "names", np.ones(3))
    for human, words in (
        (np.ones((3, 2)), "counts have 2 classes, but labels go up to 2"),
        (np.array([3.0, 2.0, 1.0]), "must be between 0 and 1"),
        (np.array(["a"]), "must be numbers"),
    ):
        with pytest.raises(InputError, match=words):
            by_human(tmp_path / "numbers", human)


def test_by_any_column(run: Path, tmp_path: Path) -> None:
    story(tmp_path, epochs=6)
    pq.write_table(pa.table({"id": IDS, "entropy": np.arange(30.0)}), tmp_path / "scores.parquet")
    (tmp_path / "samples").mkdir()
    pq.write_table(pa.table({"id": IDS, "domain": ["photo"] * 12 + ["sketch"] * 18}), tmp_path / "samples" / "part-00000.parquet")
    assert list(groups_of(by_column(tmp_path, "entropy"), tmp_path, "test").values()) == [6] * 5
    assert groups_of(by_column(tmp_path, "domain"), tmp_path, "test") == {"photo": 12, "sketch": 18}
    assert sum(groups_of(by_column(tmp_path, "mean_avh", "test"), tmp_path, "test").values()) == 30
    assert sum(groups_of(by_column(tmp_path, "avh", "test"), tmp_path, "test").values()) == 30
    assert by_column(tmp_path, "label").name == "class" and by_column(tmp_path, "level").name == "degradation"


def test_easy_and_hard_are_the_outer_thirds(run: Path) -> None:
    groups = by_hardness(run, "test")
    table = next(iter(Dynamics.read(run, split="test")))[1]
    by_name = {name: set() for name in groups.names}  # type: ignore[var-annotated]
    for one, code in zip(table.column("id").to_pylist(), groups.of(table), strict=True):
        if code >= 0:
            by_name[groups.names[code]].add(int(one))
    assert by_name == {"easy": set(range(10)), "hard": set(range(20, 30))}


# ---- plateau ----


def test_plateau_by_hand() -> None:
    falling = np.array([10, 6, 3, 1, 0.5, 0.4, 0.2, 0.1, 0.1, 0.0])  # range 10: settled within 1 of the end, so from the fourth
    assert plateau(falling).at == 3
    assert plateau(falling).level == 0
    bounce = np.array([10, 4, 2, 2.5, 3.5, 4, 4, 4, 4, 4, 4, 4])  # past its level and back, as in the paper's AlexNet
    assert plateau(bounce).at == 4
    assert plateau(np.linspace(5, 1, 40)).why_not == "it is still moving at the end"
    assert plateau(np.ones(10)).why_not == "it never moved"
    assert "only 4 points" in plateau(falling[:4]).why_not
    assert plateau(np.array([3, 2, np.nan, 1, 1, 1])).why_not == "it has gaps"
    decay = np.exp(-0.5 * np.arange(100))  # e^-kt is within a tenth of its range from t = ln(10) / k on
    assert plateau(decay).at == int(np.ceil(np.log(10) / 0.5))
    rising = np.array([0.0, 5, 8, 9, 9.3, 9.4, 10])
    assert still_grows(rising, 3) and not still_grows(np.array([0.0, 5, 8, 9, 9.7, 9.9, 10]), 4)
    assert not still_grows(rising[::-1], 3)


@given(st.integers(5, 60), st.floats(0.05, 2.0), st.floats(-5, 5), st.floats(0.01, 100))
def test_plateau_does_not_depend_on_unit_or_offset(n: int, rate: float, offset: float, scale: float) -> None:
    curve = np.exp(-rate * np.arange(n))
    assert plateau(curve).at == plateau(offset + scale * curve).at or abs(offset) > 1e6 * scale


# ---- phases ----


def test_phases_by_hand() -> None:
    """The angle falls from 90 to 30 degrees by the third moment, the norm rises from 1 to 5 after it."""
    angle = np.deg2rad([90, 60, 36, 32, 30, 30])
    norm = np.array([1, 1.2, 1.4, 3, 4, 5])
    found = find_phases(angle, norm)
    assert found.found and found.at == 2
    assert found.angle_share == pytest.approx(0.9) and found.norm_share == pytest.approx(0.1)
    assert np.rad2deg(found.angle) == pytest.approx([90, 36, 30]) and found.norm == pytest.approx((1, 1.4, 5))


@pytest.mark.parametrize(
    ("angle", "norm", "why"),
    [
        (np.linspace(90, 30, 9), np.linspace(1, 5, 9), "at the same time"),
        ([90, 88, 85, 60, 40, 30], [1, 4, 4.5, 4.9, 5, 5], "the norm rises first"),
        ([90, 60, 30, 50, 80, 85], [1, 1, 1, 2, 3, 4], "the angle does not stay at its lower level"),
        ([90, 90, 90, 90, 90], [1, 2, 3, 4, 5], "the angle does not fall"),
        ([60, 70, 80, 90, 95], [1, 2, 3, 4, 5], "the angle does not fall, it rises"),
        ([90, 60, 40, 30, 30], [2, 2, 2, 2, 2], "the norm does not rise"),
        ([90, 60, 40, 30, 30], [5, 4, 3, 2, 1], "the norm does not rise, it falls"),
        ([90, 60, 40], [1, 1, 5], "only 3 points"),
        ([90, 60, np.nan, 30, 30], [1, 1, 1, 1, 5], "gaps"),
    ],
)
def test_phases_that_are_not_there(angle: Any, norm: Any, why: str) -> None:
    found = find_phases(np.deg2rad(angle), np.array(norm))
    assert not found.found and why in found.why_not


# ---- in words and pictures ----


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> TrainingDynamics:
    """The description of known dynamics, with steps and all figures."""
    folder = tmp_path_factory.mktemp("steps")
    story(folder, steps=True)
    return describe_and_draw(folder, split="test", figures=folder / "drawn")


def test_what_is_said_of_a_known_story(said: TrainingDynamics) -> None:
    text = str(said)
    assert "AVH settles at epoch 5 of 20" in text and "only the norm still grows after it" in text
    assert text.count("angles first until epoch 5, norms later") == 2
    assert "100 % of the angle's fall and 0 % of the norm's rise" in text
    numbers = said.numbers["test"]
    assert numbers["avh_plateau"] == {"epoch": 5, "norm_still_grows": True, "accuracy_still_grows": False}
    assert numbers["phases"]["hard"]["found"] is True and numbers["phases"]["easy"]["at"] == 5
    assert "inside the epochs, steps 10 to 200:" in text and "AVH settles at step 50 of 200" in text
    drawn = [f"dynamics-test{what}.png" for what in ("", "-easy-hard", "-steps", "-collapse")]
    assert [path.name for path in said.drawn] == drawn
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in said.drawn)


@pytest.mark.usefixtures("undrawn")
def test_held_out_sets_are_described_and_training_if_there_is_none(run: Path, tmp_path: Path) -> None:
    assert list(describe_and_draw(run, figures=tmp_path).numbers) == ["test", "low"]
    with Dynamics(tmp_path) as tracker:
        for epoch in (1, 2, 3):
            tracker.update(epoch, np.eye(6), np.eye(6), range(6), range(6))
    said = describe_and_draw(tmp_path)
    assert list(said.numbers) == ["train"]
    assert "AVH reaches no plateau: there are only 3 points" in str(said)
    assert "no two phases: there are only 3 points" in str(said)
    assert said.numbers["train"]["avh_plateau"] is None
    with Dynamics(tmp_path) as tracker:
        tracker.update(3, np.eye(3), np.eye(3), range(3), range(3), split="../night & day")  # a set may have any name
    said = describe_and_draw(tmp_path)
    assert [path.parent for path in said.drawn] == [tmp_path / "figures"] * 2
    assert said.drawn[0].name == "dynamics----night---day.png" and "../night & day: 3 samples" in str(said)


def test_the_command(run: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    np.save(tmp_path / "human.npy", np.linspace(1, 0, 30))
    with undrawn("by-human"):
        done = cli("dynamics", run, "--human", tmp_path / "human.npy", "--split", "test", "-o", tmp_path / "figures")
    assert done.code == 0, done.err
    assert "by human selection frequency, at epoch 20:" in done.out and "0.8 to 1 (n = 6)" in done.out
    drawn = tmp_path / "figures" / "dynamics-test-by-human-selection-frequency.png"
    assert drawn.read_bytes().startswith(b"\x89PNG")
    with undrawn():
        assert cli("dynamics", run, "--group", "label", "--split", "train", "-o", tmp_path).code == 0
    for words, message in (
        (["--group", "color"], "no column 'color'"),
        (["--split", "night"], "no split 'night' in the dynamics; there is test, low, train"),
        (["--group", "label", "--human", tmp_path / "human.npy"], "not both"),
    ):
        done = cli("dynamics", run, *words, "-o", tmp_path / "none")
        assert done.code == 2 and message in done.err and not (tmp_path / "none").exists(), done.err
    done = cli("dynamics", tmp_path)
    assert done.code == 2 and "no dynamics here" in done.err


def test_a_figure_has_a_line_and_a_band_per_group(run: Path) -> None:
    groups = by_values("third", IDS, np.arange(30) // 10)
    figure = curves_figure(read_curves(run, groups, split="test"), ("norm", "avh", "correct"))
    norm, avh, accuracy = figure.axes
    assert [len(panel.lines) for panel in figure.axes] == [3, 3, 3]
    assert [len(panel.collections) for panel in figure.axes] == [3, 3, 0]
    assert accuracy.get_ylabel() == "accuracy (%)" and norm.get_xlabel() == "epoch"
    assert np.asarray(accuracy.lines[0].get_ydata())[-1] == pytest.approx(100)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["0 (n = 10)", "1 (n = 10)", "2 (n = 10)"]
    assert figure.get_suptitle() == "bands: ± one standard deviation over samples"


def test_a_group_of_two_is_pale_and_has_no_band(run: Path) -> None:
    groups = by_values("size", IDS, np.where(np.arange(30) < 2, "two", "others"))
    figure = curves_figure(read_curves(run, groups, split="test"), ("norm",))
    pale = {line.get_label(): line.get_alpha() for line in figure.axes[0].lines}
    assert pale == {"others (n = 28)": 1.0, "two (n = 2)": 0.4} and len(figure.axes[0].collections) == 1
    assert figure.get_suptitle().endswith("\npale: fewer than 10 samples")
