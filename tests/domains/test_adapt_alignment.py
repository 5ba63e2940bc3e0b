"""CORAL and subspace alignment against SciPy and scikit-learn, by hand, and in a run whose model takes features as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power, sqrtm
from sklearn.decomposition import PCA

from adapt_runs import check_kept_model
from hardsight.domains.alignment import Coral, Subspace
from hardsight.domains.auto import warning
from hardsight.domains.methods import Method, models_for
from hardsight.domains.opening import standards
from hardsight.errors import InputError
from undrawn import undrawn


def clouds(d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, d)) @ rng.normal(size=(d, d)) + 2, rng.normal(size=(70, d)) @ rng.normal(size=(d, d)) - 1


@pytest.mark.parametrize("reg", [0.01, 1.0])
def test_coral_is_the_papers_formula(reg: float) -> None:
    source, target = clouds()
    ours, theirs = (np.cov(x.T) + reg * np.eye(5) for x in (source, target))
    expected = (source - source.mean(0)) @ fractional_matrix_power(ours, -0.5) @ sqrtm(theirs) + target.mean(0)
    assert Coral(reg).maps(source, target)[0](source) == pytest.approx(expected, abs=1e-4)


def test_coral_gives_the_source_the_mean_and_covariance_of_the_target() -> None:
    source, target = clouds()
    mapped = Coral(1e-9).maps(source, target)[0](source)
    assert np.cov(mapped.T) == pytest.approx(np.cov(target.T), abs=1e-3)
    assert mapped.mean(0) == pytest.approx(target.mean(0), abs=1e-4)
    assert Coral().maps(target, target)[0](target) == pytest.approx(target, abs=1e-4)  # nothing to align


def test_subspaces_are_those_of_pca() -> None:
    source, target = clouds()
    ours, theirs = Subspace(2).maps(source, target)
    first, second = PCA(2).fit(source), PCA(2).fit(target)
    expected = first.transform(source) @ first.components_ @ second.components_.T, second.transform(target)
    for mapped, known in zip((ours(source), theirs(target)), expected, strict=True):
        assert np.abs(mapped) == pytest.approx(np.abs(known), abs=1e-4)  # a direction has no sign of its own
    products = (ours(source) @ theirs(target).T, expected[0] @ expected[1].T)
    assert products[0] == pytest.approx(products[1], abs=1e-3)  # but both domains have the same one


def test_subspace_alignment_by_hand() -> None:
    source = np.array([[-2.0, 0.0], [2.0, 0.0]])  # along the first axis
    target = np.array([[-3.0, -3.0], [3.0, 3.0]])  # along the diagonal
    ours, theirs = Subspace(1).maps(source, target)
    assert np.abs(theirs(target)[:, 0]) == pytest.approx([np.sqrt(18), np.sqrt(18)])
    assert np.abs(ours(source)[:, 0]) == pytest.approx([np.sqrt(2), np.sqrt(2)])  # 2 cos 45 degrees
    assert np.sign(ours(source)[:, 0]).tolist() == np.sign(theirs(target)[:, 0]).tolist()
    source, target = clouds()
    ours, theirs = Subspace(99).maps(source, target)  # all directions align nothing but the means
    assert ours.matrix == pytest.approx(theirs.matrix, abs=1e-9) and ours.matrix.shape == (5, 5)


def test_a_map_is_undone_by_folding() -> None:
    source, target = clouds()
    rng = np.random.default_rng(1)
    for mapped in (Subspace(3).maps(source, target)[1], Coral().maps(source, target)[0], standards(source, target, "domain")[1]):
        weight, bias = rng.normal(size=(4, mapped(target).shape[1])), rng.normal(size=4)
        folded, shifted = mapped.folded(weight, bias)
        assert folded.shape == (4, 5)
        assert target @ folded.T + shifted == pytest.approx(mapped(target) @ weight.T + bias, abs=1e-3)
    assert mapped(target).mean(0) == pytest.approx(np.zeros(5), abs=1e-5)  # standardized
    assert mapped(target).std(0) == pytest.approx(np.ones(5), abs=1e-5)


# ---- names ----


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("source", ()), ("cbst", ("cbst",)), ("cbst+avh", ("cbst+avh",)), ("coral", ("coral",)),
        (" CORAL+cbst+avh ", ("coral", "cbst+avh")), ("entropy+depict", ("entropy", "depict")),
        ("subspace+entropy+weighted", ("subspace", "entropy", "weighted")),
    ],
)  # fmt: skip
def test_a_method_is_read_stage_by_stage(name: str, stages: tuple[str, ...]) -> None:
    method = Method.read(name)
    assert method.stages == stages and method.name == name.strip().lower()


def test_models_come_after_those_they_start_from() -> None:
    names = [model.name for model in models_for(["coral+entropy+cbst", "coral+cbst", "cbst"])]
    assert names == ["source", "coral", "coral+entropy", "coral+entropy+cbst", "coral+cbst", "cbst"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, f"or cbst+SCORE, got {name!r}.{hint}") for name, hint in (("", ""), ("corl", " Did you mean coral?"))),
        *((name, f"stand alone; got {name!r}.") for name in ("coral+auto", "entropy+source", "coral+subspace", "coral+coral")),
        ("entropy+entropy+cbst", "stand alone; got 'entropy+entropy+cbst'."),
        ("coral+", "or cbst+SCORE, got ''."),
        *((name, f"stand alone; got {name!r}.") for name in ("cbst+coral", "cbst+avh+entropy", "entropy+coral")),
    ],
)
def test_a_wrong_method_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        Method.read(name)
    assert str(error.value).endswith(message)


# ---- runs ----


@pytest.fixture(scope="module")
def aligned(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A target that is turned as well as stretched, and every new method on it."""
    pytest.importorskip("torch")
    from hardsight import adapt as run

    rng = np.random.default_rng(0)
    labels = np.arange(150) % 3
    centers = rng.normal(size=(3, 8)) * 2
    stretch = np.diag([3, 1, 1, 1, 1, 1, 1, 0.3]) @ np.linalg.qr(rng.normal(size=(8, 8)) * 0.3 + np.eye(8))[0]
    there, here = (centers[labels] + rng.normal(size=(150, 8)) for _ in range(2))
    target = (here @ stretch).astype(np.float32)
    methods = "source,coral,subspace+cbst,coral+cbst,entropy,weighted,depict"
    said: list[str] = []
    with undrawn():
        done = run(
            (there.astype(np.float32), labels), (target, labels), tmp_path_factory.mktemp("aligned") / "run", methods=methods,
            rounds=2, epochs=1, source_epochs=6, hidden=16, batch_size=32, lr=0.05, say=said.append,
            method_options={"subspace": {"size": 4}},
        )  # fmt: skip
    return done, target, labels, said


def test_every_new_method_is_in_the_tables(aligned: Any) -> None:
    done, *_ = aligned
    expected = ["source", "logistic regression", "coral", "subspace+cbst", "coral+cbst", "entropy", "weighted", "depict"]
    assert done.accuracy.column("method").to_pylist() == expected
    assert done.selection.column("method").to_pylist() == ["subspace+cbst", "coral+cbst", "weighted", "depict"]
    rounds = {name: [row["round"] for row in done.rounds.to_pylist() if row["method"] == name] for name in expected}
    assert rounds["coral"] == rounds["logistic regression"] == [0] and rounds["entropy"] == rounds["coral+cbst"] == [1, 2]
    selected = {row["method"]: row["selected"] for row in done.selection.to_pylist()}
    starts = {row["method"]: row["mean_avc"] for row in done.rounds.to_pylist() if row["round"] == 0}
    first = {row["method"]: row for row in done.rounds.to_pylist() if row["round"] == 1}
    for method, before in (("coral+cbst", "coral"), ("entropy", "source")):  # compared with the model that it starts from
        assert first[method]["avc_change"] == pytest.approx(first[method]["mean_avc"] - starts[before])
    assert selected["weighted"] == selected["depict"] == 150 > selected["coral+cbst"] > 0
    page = (done.run / "report.html").read_text("utf-8")
    assert "logistic regression" in page and "all differences" in page


def test_what_seems_to_hurt_is_said_and_stands_on_the_page(aligned: Any) -> None:
    done, _, _, said = aligned
    last = {row["method"]: {"validators": row} for row in done.rounds.to_pylist()}
    expected = {method: sentence for method, row in last.items() if (sentence := warning(last["source"], row))}
    expected.pop("source")
    assert expected and len(expected) < len(last) - 2  # some hurt, some do not
    told = [f"warning: source-to-target  seed 0  {method}: {sentence}" for method, sentence in expected.items()]
    assert [sentence for sentence in said if "warning" in sentence and "--source-epochs" not in sentence] == told
    page = (done.run / "report.html").read_text("utf-8")
    assert page.count("no sign that adapting helped") == len(told)
    assert all(f"{method}, seed 0: {sentence}." in page for method, sentence in expected.items())


@pytest.mark.parametrize("method", ["coral", "subspace+cbst", "coral+cbst", "entropy", "depict"])
def test_the_model_that_is_kept_takes_features_as_they_were(aligned: Any, method: str) -> None:
    done, target, labels, _ = aligned
    check_kept_model(done.run / "source-to-target" / "seed=0" / method, target, labels)


@pytest.mark.usefixtures("undrawn")
def test_stages_before_are_trained_once(aligned: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from hardsight import adapt as run
    from hardsight.domains.adapt_training import PairTraining

    trained: list[str] = []
    real = PairTraining.train_source

    def counted(self: Any, folder: Path, report: Any) -> Any:
        trained.append(folder.name)
        return real(self, folder, report)

    monkeypatch.setattr(PairTraining, "train_source", counted)
    _, target, labels, _ = aligned
    methods = ("coral+cbst", "coral+cbst+avh", "coral+entropy")
    done = run((target, labels), (target, labels), tmp_path / "run", methods=methods, rounds=1, source_epochs=1, hidden=4)
    assert trained == ["source", "coral"]
    assert json.loads((done.run / "start.json").read_text("utf-8"))["arguments"]["methods"] == list(methods)
    assert done.accuracy.column("method").to_pylist() == ["source", "logistic regression", *methods]
