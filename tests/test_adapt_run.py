"""Self-training end to end on small features and images: what it reaches, writes, refuses, and how it survives a kill."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch")

from hardsight import Snapshot  # noqa: E402
from hardsight.adapt import loop, run, select_pseudo_labels  # noqa: E402
from hardsight.adapt.measures import class_accuracies, mean_accuracy  # noqa: E402
from hardsight.adapt.settings import Portions  # noqa: E402
from hardsight.adapt.tables import Results, difference_table  # noqa: E402
from hardsight.data import BrokenImage  # noqa: E402
from hardsight.domains import source_training  # noqa: E402
from hardsight.domains.comparison import paired_difference  # noqa: E402
from hardsight.domains.opening import domain_names, open_domain  # noqa: E402
from hardsight.domains.scaling import standards  # noqa: E402
from hardsight.errors import RunError  # noqa: E402
from hardsight.training import checkpoint  # noqa: E402
from hardsight.training.inputs import ArrayInputs  # noqa: E402

METHODS = ("source", "cbst", "crst", "cbst+avh")
SHOWN = ("source", "logistic regression", *METHODS[1:])  # in every table


def domains(shift: float = 1.2, n: int = 120, d: int = 8, c: int = 3) -> tuple[Any, Any, np.ndarray]:
    """Two clouds of features with the same classes; the second is stretched and turned a little."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % c
    centres = rng.normal(size=(c, d)) * 1.5
    there = centres[labels] + rng.normal(size=(n, d))
    turn = np.eye(d) + 0.25 * rng.normal(size=(d, d))
    here = (centres[labels] + rng.normal(size=(n, d))) @ turn * 2 + shift
    return there.astype(np.float32), here.astype(np.float32), labels


QUICK: dict[str, Any] = {"rounds": 3, "epochs": 1, "source_epochs": 4, "hidden": 16, "batch_size": 32, "lr": 0.05}


def contents(folder: Path) -> dict[str, str]:
    """Every file but those that hold times."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("run.json", "start.json", ".lock")
    }


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    there, here, labels = domains()
    folder = tmp_path_factory.mktemp("adapt") / "run"
    return run((there, labels), (here, labels), folder, methods=METHODS, seeds=2, **QUICK), (there, here, labels)


def test_a_run_holds_all_tables_and_figures(compared: Any) -> None:
    done, _ = compared
    assert done.accuracy.column("method").to_pylist() == list(SHOWN)
    assert {"class 0", "class 0 std", "accuracy", "accuracy std", "oracle_accuracy"} <= set(done.accuracy.column_names)
    assert len(done.rounds) == 2 * (2 + 3 * 3)
    assert done.selection.column("method").to_pylist() == ["cbst", "crst", "cbst+avh"]
    told = done.selection.to_pylist()[0]
    assert 0 < told["true_positive_rate"] <= 1 and told["avc"] > 1 / 3 > told["avh"]  # sure samples: AVC above, AVH below 1/c
    pairs = [(row["method"], row["against"]) for row in done.differences.to_pylist()]
    assert pairs == [(one, other) for i, one in enumerate(SHOWN) for other in SHOWN[:i]]
    for name in ("report.html", "figures/accuracy-source-to-target.png", "run.json", "accuracy.parquet"):
        assert (done.directory / name).is_file(), name
    page = (done.directory / "report.html").read_text("utf-8")
    assert "data:image/png;base64" in page and "cbst+avh" in page


def test_the_headline_is_the_last_round_and_the_best_is_the_oracle(compared: Any) -> None:
    done, _ = compared
    rounds = [row for row in done.rounds.to_pylist() if row["method"] == "cbst"]
    last = [row["accuracy"] for row in rounds if row["round"] == 3]
    best = [max(row["accuracy"] for row in rounds if row["seed"] == seed) for seed in (0, 1)]
    row = next(row for row in done.accuracy.to_pylist() if row["method"] == "cbst")
    assert row["accuracy"] == pytest.approx(np.mean(last)) and row["accuracy std"] == pytest.approx(np.std(last, ddof=1))
    assert row["oracle_accuracy"] == pytest.approx(np.mean(best))
    counts = json.loads((done.directory / "run.json").read_text("utf-8"))["counts"]
    assert counts["accuracy"]["source-to-target"]["cbst"] == pytest.approx(np.mean(last))


def test_pseudo_labels_of_a_round_are_those_of_the_rule(compared: Any) -> None:
    """Recomputed from the saved source model: the first round's table is what select_pseudo_labels says."""
    from safetensors.torch import load_file

    done, (there, here, labels) = compared
    folder = done.directory / "source-to-target" / "seed=1"
    state = load_file(folder / "source" / "state.safetensors")
    ours, theirs = standards(there, here, "domain")
    x = torch.from_numpy(theirs(here))
    features = torch.relu(x @ state["network.hidden.weight"].T + state["network.hidden.bias"]).numpy()
    weight, bias = state["last.weight"].numpy(), state["last.bias"].numpy()
    for method in ("cbst", "cbst+avh"):
        chosen = select_pseudo_labels(features @ weight.T + bias, features, weight, 0.2, method)
        table = pq.read_table(folder / method / "round=01.parquet")
        assert table.column("kept").to_pylist() == chosen.kept.tolist()
        assert table.column("pseudo_label").to_pylist() == [k if k >= 0 else None for k in chosen.labels.tolist()]
        assert table.column("why").to_pylist() == chosen.why.tolist()


def test_disagreement_with_softmax_is_counted(compared: Any) -> None:
    done, _ = compared
    for method in ("crst", "cbst+avh"):
        tables = [
            pq.read_table(done.directory / "source-to-target" / f"seed={seed}" / method / "round=01.parquet").to_pandas()
            for seed in (0, 1)
        ]
        row = next(row for row in done.selection.to_pylist() if row["method"] == method)
        assert row["not_selected_by_cbst"] == np.mean([(table.kept & ~table.kept_by_cbst).sum() for table in tables])
        assert row["only_selected_by_cbst"] == np.mean([(~table.kept & table.kept_by_cbst).sum() for table in tables])
        kept = [table[table.kept] for table in tables]
        for name in ("avh", "avc", "confidence", "norm"):  # Table 4
            assert row[name] == pytest.approx(np.mean([table[name].mean() for table in kept]), rel=1e-5)
        assert row["true_positive_rate"] == pytest.approx(np.mean([(one.pseudo_label == one.label).mean() for one in kept]))


def test_predictions_lie_beside_the_rounds(compared: Any) -> None:
    done, _ = compared
    pair = done.directory / "source-to-target"
    for method in METHODS:
        table = pq.read_table(pair / "seed=1" / method / "predictions.parquet").to_pandas()
        last = json.loads((pair / "seed=1" / method / "rounds.json").read_text("utf-8"))[-1]
        hits = (table.predicted == table.label).groupby(table.label).mean()
        assert hits.tolist() == pytest.approx(last["class_accuracy"]) and table.confidence.between(1 / 3, 1).all()


def test_the_report_reads_like_the_papers_tables(compared: Any) -> None:
    done, _ = compared
    page = (done.directory / "report.html").read_text("utf-8")
    row = next(row for row in done.accuracy.to_pylist() if row["method"] == "cbst+avh")
    assert f"{100 * row['accuracy']:.2f} ± {100 * row['accuracy std']:.2f}" in page
    assert f"{100 * row['class 2']:.2f} ± {100 * row['class 2 std']:.2f}" in page
    difference = next(row for row in done.differences.to_pylist() if (row["method"], row["against"]) == ("cbst+avh", "source"))
    assert f"{100 * difference['difference']:+.2f} [{100 * difference['low']:+.2f}, {100 * difference['high']:+.2f}]" in page
    for words in ("best round (oracle)", "The last round is the result", "rightly (%)", "cbst+avh − cbst", "How it was made"):
        assert words in page, words
    assert page.count("data:image/png") == 1 and "http://" not in page and "https://" not in page and "<script" not in page


def test_many_classes_lie_down_and_a_dollar_is_no_formula(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from hardsight.adapt.report import write_report

    names = [f"US${k}<b>" for k in range(30)]

    def entry(number: int, accuracy: float) -> dict[str, Any]:
        return {"round": number, "portion": 0.2, "accuracy": accuracy, "class_accuracy": [accuracy] * 30}

    results = Results({("a$-to-b$", "source", 0): [entry(0, 0.5)]}, names)
    start = {"arguments": {"rounds": 1}, "versions": {"hardsight": "0"}}
    place = SimpleNamespace(directory=tmp_path, start=start, folder=lambda name: tmp_path)
    (tmp_path / "a$-to-b$").mkdir()
    write_report(place, results, {}, lambda *_: tmp_path)  # type: ignore[arg-type]
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count("US$29&lt;b&gt;") == 1 and "<details><summary>Accuracy by class" in page and "50.00" in page
    from hardsight.plots.adaptation import accuracy_per_round, thumbnails

    accuracy_per_round({"cbst": np.array([[0.5, 0.6]])}, np.array([0.4]), "a$x_ to $b").savefig(tmp_path / "one.png")
    thumbnails({"$": [(np.zeros((4, 4), np.uint8), "is $5_ for $")]}, "$", ["$"]).savefig(tmp_path / "two.png")


def test_pictures_with_right_and_wrong_labels_are_apart() -> None:
    from hardsight.adapt.report import _pictures

    class Pictures:
        ids = [str(row) for row in range(40)]

        def image(self, row: int) -> Any:
            if row == 0:
                raise BrokenImage("truncated", "0")
            return np.full((2, 2), row, np.uint8)

    def selected(labels: list[int | None]) -> pa.Table:
        n = len(labels)
        columns = {"label": pa.array(labels, pa.int64()), "pseudo_label": [1] * n, "confidence": [0.5] * n, "avc": [0.2] * n}
        return pa.table({"id": Pictures.ids[:n], **columns})

    groups = _pictures(selected([1, 0] * 20), Pictures(), ["cat", "dog"])  # type: ignore[arg-type]
    assert {words: len(shown) for words, shown in groups.items()} == {
        "right pseudo-label: 12 of 20": 12, "wrong pseudo-label: 6 of 20": 6
    }  # fmt: skip
    assert [int(image[0, 0]) for image, _ in groups["wrong pseudo-label: 6 of 20"]] == [1, 3, 5, 7, 9, 11]
    assert all(caption.startswith("is dog\ntaken for dog") for _, caption in groups["right pseudo-label: 12 of 20"])
    assert [len(shown) for shown in _pictures(selected([None] * 30), Pictures(), ["cat", "dog"]).values()] == [18]  # type: ignore[arg-type]
    assert list(_pictures(selected([1] * 9), Pictures(), ["cat", "dog"])) == ["right pseudo-label: 8 of 9"]  # type: ignore[arg-type]


def test_parts_of_a_run_are_listed_once_with_their_checksums(compared: Any) -> None:
    done, _ = compared
    parts = json.loads((done.directory / "run.json").read_text("utf-8"))["parts"]
    names = [part["name"] for part in parts]
    assert len(set(names)) == len(names)
    on_disk = {p.relative_to(done.directory).as_posix() for p in done.directory.rglob("*") if p.is_file()}
    assert set(names) == on_disk - {"start.json", "run.json", ".lock"}


@pytest.mark.parametrize("batch_norm", [False, True])
def test_samples_not_selected_pass_only_through_batch_normalisation(batch_norm: bool) -> None:
    from types import SimpleNamespace

    logits = np.log([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6], [0.3, 0.7]])
    chosen = select_pseudo_labels(logits, portion=0.5, method="cbst")
    assert chosen.kept.tolist() == [True, False, False, False, False]
    rows, labels = loop.SelfTraining._target(SimpleNamespace(num_classes=2), SimpleNamespace(batch_norm=batch_norm), chosen)  # type: ignore[arg-type]
    assert rows.tolist() == ([0, 1, 2, 3, 4] if batch_norm else [0])
    assert labels.tolist() == [[1, 0], [0, 0], [0, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (slice(0, 1), {}),  # one sample, of one class
        (slice(0, 120, 3), {}),  # one class alone
        (slice(0, 120), {"portion": "0:0.5:1"}),
        (slice(0, 120), {"portion": 1, "methods": "crst"}),
        (slice(0, 1), {"methods": "coral+cbst"}),
        (slice(0, 1), {"methods": "subspace+depict"}),
    ],
)  # fmt: skip
def test_small_and_one_sided_targets(target: slice, options: dict[str, Any], tmp_path: Path) -> None:
    there, here, labels = domains()
    given = {**QUICK, "rounds": 2, **options}
    said: list[str] = []
    done = run((there, labels), (here[target], labels[target]), tmp_path / "run", say=said.append, **given)
    told = done.rounds.to_pylist()[-2:]
    assert told[-1]["accuracy"] is not None and told[-1]["round"] == 2
    one_class = "source-to-target: every labeled target sample is of the class '0'; accuracy is that class's alone."
    assert (one_class in said) == (target != slice(0, 120))
    if "portion" in options and options["portion"] != 1:
        assert told[0]["selected"] == 0 and told[0]["true_positive_rate"] is None and told[1]["selected"] > 0


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("all", slice(0, 0), "at least one sample|no samples"),
        ("one class", slice(0, 120), "at least two classes"),
        ("other classes", slice(0, 120), "source-to-target: no class is in both: the source has 3, 4, 5, the target 0, 1, 2"),
        ("not finite", slice(0, 120), "must be finite, but 1 of 120 rows are not; the first is row 7"),
    ],
)
def test_domains_that_cannot_be_adapted_are_refused(source: str, target: slice, message: str, tmp_path: Path) -> None:
    from hardsight.errors import InputError

    there, here, labels = domains()
    if source == "not finite":
        there[7, 0] = np.nan
    known = np.zeros(120, int) if source == "one class" else labels
    ours = labels + 3 if source == "other classes" else known
    with pytest.raises(InputError, match=message):
        run((there, ours), (here[target], known[target]), tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


KILLED = """
import os, signal, sys
import numpy as np
from hardsight.adapt import run
from hardsight.training import checkpoint
checkpoint.SECONDS_BETWEEN = 0.0
replace, steps = os.replace, 0

def dying(source, target):
    global steps
    steps += 1
    if steps == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = dying
data = np.load(sys.argv[1])
run((data["there"], data["labels"]), (data["here"], data["labels"]), sys.argv[3], methods="source,cbst+avh", rounds=3, epochs=1,
    source_epochs=4, hidden=16, batch_size=32, lr=0.05)
"""


def test_sigkill_in_the_middle_of_a_write_changes_no_byte(tmp_path: Path, fresh_python: Callable[..., Any]) -> None:
    there, here, labels = domains()
    np.savez(tmp_path / "both.npz", there=there, here=here, labels=labels)
    options = {**QUICK, "methods": "source,cbst+avh"}
    whole = run((there, labels), (here, labels), tmp_path / "whole", **options)
    died = fresh_python(KILLED, tmp_path / "both.npz", 14, tmp_path / "killed")
    assert died.code == -9, died.err
    assert not (tmp_path / "killed" / "run.json").exists()
    assert list((tmp_path / "killed").rglob("checkpoints"))  # it fell into a training
    done = run((there, labels), (here, labels), tmp_path / "killed", **options)
    assert contents(done.directory) == contents(whole.directory)


def test_standardising_each_domain_undoes_a_shift_and_the_model_takes_raw_features(compared: Any, tmp_path: Path) -> None:
    from hardsight.models.opening import open_model

    done, (_, here, labels) = compared
    row = next(row for row in done.accuracy.to_pylist() if row["method"] == "cbst+avh")
    assert row["accuracy"] > 0.8
    folder = done.directory / "source-to-target" / "seed=0" / "cbst+avh"
    model = open_model(folder)
    model.check(here[:16])
    _, logits = model(here)
    last = json.loads((folder / "rounds.json").read_text("utf-8"))[-1]
    assert mean_accuracy(class_accuracies(labels, logits.argmax(1), 3)) == pytest.approx(last["accuracy"])


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ({}, 1 + 3),  # the source model, then once after each round
        ({"methods": "source,cbst,crst"}, 1 + 3 + 3),
        ({"relabel": True, "epochs": 2}, 1 + 3 + 3),  # and before each second epoch
    ],
)
def test_the_target_is_passed_through_once_a_round(
    options: dict[str, Any], passes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here, labels = domains()
    real, sets = ArrayInputs.batches, []

    def counted(self: ArrayInputs, rows: Any) -> Any:
        in_order = np.concatenate(rows) if len(rows) else np.zeros(0)
        sets.append(len(self) == 100 and np.array_equal(in_order, np.arange(100)))  # the whole target, as it lies
        return real(self, rows)

    monkeypatch.setattr(ArrayInputs, "batches", counted)
    run((there, labels), (here[:100], labels[:100]), tmp_path / "run", **{**QUICK, **options})
    assert sum(sets) == passes


def test_a_killed_run_is_resumed_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, here, labels = domains()
    options = {**QUICK, "methods": ("cbst", "crst"), "ema": 0.9}
    whole = run((there, labels), (here, labels), tmp_path / "whole", **options)
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    real, calls = loop.SelfTraining._train, [0]

    def killed(self: Any, *args: Any) -> None:
        calls[0] += 1
        if calls[0] in (3, 8, 9):  # in the source model, in a method's third round, and at once again
            raise KeyboardInterrupt
        real(self, *args)

    monkeypatch.setattr(loop.SelfTraining, "_train", killed)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            run((there, labels), (here, labels), tmp_path / "killed", **options)
    done = run((there, labels), (here, labels), tmp_path / "killed", **options)
    assert calls[0] == 4 + 2 * 3 + 3  # nothing was trained twice: every kill cost the epoch it fell into
    assert contents(done.directory) == contents(whole.directory)


def test_a_complete_run_is_read_and_another_one_refused(compared: Any) -> None:
    done, (there, here, labels) = compared
    said: list[str] = []
    again = run((there, labels), (here, labels), done.directory, methods=METHODS, seeds=2, say=said.append, **QUICK)
    assert again.accuracy.equals(done.accuracy) and "complete already" in said[0]
    with pytest.raises(RunError, match="rounds was 3 and is 4"):
        run((there, labels), (here, labels), done.directory, methods=METHODS, seeds=2, **{**QUICK, "rounds": 4})
    with pytest.raises(RunError, match="other inputs"):
        run((there, labels), (here + 1, labels), done.directory, methods=METHODS, seeds=2, **QUICK)


def test_target_labels_change_nothing_but_the_report(compared: Any, tmp_path: Path) -> None:
    done, (there, here, labels) = compared
    blind = run((there, labels), (here, np.full(len(here), -1)), tmp_path / "blind", methods=METHODS, seeds=2, **QUICK)
    for method in METHODS[1:]:
        path = Path("source-to-target") / "seed=0" / method
        one, other = (pq.read_table(run_.directory / path / "round=03.parquet") for run_ in (done, blind))
        assert one.column("pseudo_label").equals(other.column("pseudo_label"))
        assert (done.directory / path / "head.safetensors").read_bytes() == (
            blind.directory / path / "head.safetensors"
        ).read_bytes()
    assert len(blind.accuracy) == 0
    assert json.loads((blind.directory / "run.json").read_text("utf-8"))["counts"]["accuracy"] == {"source-to-target": {}}


@pytest.mark.parametrize(
    "options",
    [
        {"relabel": True, "epochs": 2}, {"ema": 0.9}, {"schedule": "cosine"}, {"standardize": "none"},
        {"standardize": "source"}, {"balance": False, "source_portion": "0.5:0.1:0.8"},
        {"optimizer": "sgd", "lr": 0.05}, {"methods": "avc"}, {"methods": "threshold"}, {"methods": "cbst+norm"},
        {"methods": "crst-lrent", "rule": "segmentation"}, {"methods": "crst-mrkld"}, {"group_by": "label"},
        {"kc_value": "prob"}, {"kc_policy": "global"}, {"kc_policy": "ucb", "methods": "crst"}, {"reset_optimizer": True},
        {"methods": "entropy+cbst", "entropy_weight": 0.5}, {"methods": "coral", "coral_reg": 0.1, "standardize": "none"},
    ],
)  # fmt: skip
def test_every_option_runs(options: dict[str, Any], tmp_path: Path) -> None:
    there, here, labels = domains()
    done = run((there, labels), (here, labels), tmp_path / "run", **{**QUICK, "rounds": 2, **options})
    assert done.rounds.column("accuracy").to_pylist()[-1] > 0.4


def test_every_pair_of_domains(tmp_path: Path, cli: Callable[..., Any]) -> None:
    there, here, labels = domains()
    np.savez(
        tmp_path / "both.npz", features=np.concatenate([there, here]), labels=np.concatenate([labels, labels]),
        domains=np.repeat([0, 1], len(labels)), domain_names=["day", "night"], class_names=["a", "b", "c"],
    )  # fmt: skip
    data, name = open_domain(str(tmp_path / "both.npz"))
    assert domain_names(data) == ["day", "night"] and name == "both"
    words = ("--rounds", 2, "--epochs", 1, "--source-epochs", 2, "--hidden", 8)
    done = cli("adapt", tmp_path / "both.npz", "-o", tmp_path / "all", "--methods", "source,cbst", *words)
    assert done.code == 0, done.err
    assert "day-to-night" in done.out and "all pairs" in done.out and "best (oracle)" in done.out
    one = cli(
        "adapt",
        f"{tmp_path}/both.npz:day",
        f"{tmp_path}/both.npz:night",
        "-o",
        tmp_path / "one",
        "--methods",
        "source,cbst",
        *words,
    )
    assert one.code == 0, one.err
    both = pq.read_table(tmp_path / "all" / "accuracy.parquet").to_pylist()
    alone = pq.read_table(tmp_path / "one" / "accuracy.parquet").to_pylist()
    assert both[:3] == alone


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["both.npz:noon", "both.npz:day"], "no domain 'noon'; it has day, night"),
        (["both.npz:day", "missing.npz"], "missing.npz"),
        (["both.npz:day", "both.npz:night", "--method", "cbts"], "Did you mean cbst"),
        (["both.npz:day", "both.npz:night", "--portion", "2"], "portion is written start:step:stop"),
        (["both.npz:day", "both.npz:night", "--portion", "0"], "portion 0 selects nothing in any round"),
        (["both.npz:day", "both.npz:night", "--flip-labels"], "flip_labels is for images"),
        (["digits", "digits", "--model", "lenet", "--method", "coral+cbst"], "coral+cbst aligns features, and these are images"),
        (["one.npz"], "at least two domains; it has one, 'day'"),
        (["apart.npz"], "day-to-night: no class is in both: the source has 0, 2, the target 1."),
        (["both.npz:day", "both.npz:night", "--model", "lenet"], "model is for images"),
        (["both.npz:day", "both.npz:night", "--ema", "1"], "ema must be a number of 0 or more and below 1"),
        (["unlabeled.npz", "both.npz:day"], "the source has no labels"),
        (["both.npz:day", "narrow.npz"], "source features have 8 columns, target features 2"),
        (["narrow.npz"], "needs a domain column with at least two domains"),
        (["digits", "digits", "--method", "cbst"], "images need a model"),
    ],
)
def test_bad_input_is_one_line_and_no_output(
    words: list[str], message: str, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    there, _, labels = domains()
    np.savez("both.npz", features=there, labels=labels, domain=np.array(["day", "night"])[np.arange(len(labels)) // 3 % 2])
    np.savez("apart.npz", features=there, labels=labels, domain=np.array(["day", "night"])[labels % 2])
    np.savez("unlabeled.npz", features=there)
    np.savez("narrow.npz", features=there[:, :2], labels=labels)
    np.savez("one.npz", features=there, labels=labels, domain=np.array(["day"] * len(labels)))
    done = cli("adapt", *words, "-o", "out")
    assert done.code == 2 and message in done.err and done.err.count("\n") == 1
    assert done.out == "" and not Path("out").exists()


def test_classes_are_matched_by_name() -> None:
    there, here, labels = domains()
    source = Snapshot(there, None, labels, class_names=["cat", "dog", "owl"])
    turned = Snapshot(here, None, 2 - labels, class_names=["owl", "dog", "cat"])
    from hardsight.domains.opening import in_classes_of

    found = in_classes_of(open_domain(turned)[0], open_domain(source)[0])
    assert found.labels.tolist() == labels.tolist()  # type: ignore[union-attr]


def test_portions_are_used_before_they_grow() -> None:
    growing = Portions.read("0.2:0.05:0.5", "portion")
    assert [round(growing.at(number), 2) for number in (1, 2, 7, 8, 20)] == [0.2, 0.25, 0.5, 0.5, 0.5]
    assert Portions.read(0.3, "portion").at(9) == 0.3


def test_standard_is_undone_by_folding() -> None:
    there, here, _ = domains()
    rng = np.random.default_rng(1)
    _, theirs = standards(there, here, "domain")
    assert theirs(here).mean(0) == pytest.approx(np.zeros(8), abs=1e-5)
    assert theirs(here).std(0) == pytest.approx(np.ones(8), abs=1e-5)
    weight, bias = rng.normal(size=(4, 8)), rng.normal(size=4)
    folded, shifted = theirs.folded(weight, bias)
    assert here @ folded.T + shifted == pytest.approx(theirs(here) @ weight.T + bias, abs=1e-3)


def test_paired_differences_are_those_of_a_t_test() -> None:
    from scipy import stats

    rng = np.random.default_rng(0)
    one, other = rng.normal(size=6), rng.normal(size=6)
    found = paired_difference(list(one), list(other))
    expected = stats.ttest_rel(one, other).confidence_interval()
    assert [found.low, found.high] == pytest.approx([expected.low, expected.high])
    assert paired_difference([0.5], [0.4]).low is None


def test_pooled_differences_are_over_pairs() -> None:
    def entry(accuracy: float) -> list[dict[str, Any]]:
        return [{"round": 1, "accuracy": accuracy, "class_accuracy": [accuracy]}]

    reached = {("a", "cbst"): [0.6, 0.8], ("b", "cbst"): [0.9, 0.9], ("a", "source"): [0.5, 0.5], ("b", "source"): [0.6, 0.6]}
    rounds = {
        (pair, method, seed): entry(reached[pair, method][seed])
        for pair in "ab"
        for method in ("source", "cbst")
        for seed in (0, 1)
    }
    table = difference_table(Results(rounds, ["x"])).to_pylist()
    assert [row["pair"] for row in table] == ["a", "b", "all pairs"]
    assert table[-1]["difference"] == pytest.approx((0.2 + 0.3) / 2) and table[-1]["count"] == 2
    assert table[1]["low"] == pytest.approx(0.3)


def test_images_with_a_trained_model_and_thumbnails(tmp_path: Path) -> None:
    done = run(
        "digits:train", "digits:test", tmp_path / "run", methods="source,cbst+avh", model="hardsight.models.digits:DigitsCNN",
        rounds=2, epochs=1, source_epochs=12, limit=400, augment="none", lr=2e-3, batch_size=32,
    )  # fmt: skip
    reached = dict(zip(done.accuracy.column("method").to_pylist(), done.accuracy.column("accuracy").to_pylist(), strict=True))
    assert reached["cbst+avh"] > 0.7
    assert list((done.directory / "figures").glob("only-cbst-avh-*.png"))
    folder = done.directory / "digits-train-to-digits-test" / "seed=0" / "cbst+avh"
    again = run(
        "digits:train", "digits:test", tmp_path / "again", methods="source,cbst", model=folder, rounds=1, epochs=1, limit=400,
        flip_labels=True,
    )  # fmt: skip
    assert reached["logistic regression"] > 0.7  # on the source model's features
    assert again.accuracy.to_pylist()[0]["accuracy"] == pytest.approx(reached["cbst+avh"])  # a trained model is where it starts


# ---- small sources ----


def few_digits(count: int, level: float) -> tuple[Any, Any]:
    """Some digits with labels, and 900 others at less contrast, as images."""
    from dataclasses import replace
    from functools import partial

    from hardsight.data.arrays import ImageArrays
    from hardsight.data.degradation import Degradation, degrade
    from hardsight.data.digits import read_digits

    data = read_digits()
    order = np.random.default_rng(0).permutation(len(data))
    source, target = (replace(data.take(np.sort(rows)), columns={}) for rows in (order[:count], order[count : count + 900]))
    how = Degradation("contrast", level)
    pixels = np.stack([np.asarray(degrade(target.image(row), how, id)) for row, id in enumerate(target.ids)])
    faint = ImageArrays([partial(np.asarray, pixels)], [len(pixels)], [])
    return source, replace(target, kind="npy", images=faint)


@pytest.mark.slow
def test_a_small_source_of_images_is_learned(tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": "DigitsCNN", "methods": "source", "device": "cpu", "workers": 1}
    done = run(*few_digits(150, 0.6), tmp_path / "run", **options)
    assert done.accuracy.to_pylist()[0]["accuracy"] >= 0.78  # 8 steps give 43 %


def test_a_small_source_is_learned(tmp_path: Path) -> None:
    source, target = (
        (np.stack([np.asarray(data.image(row)).ravel() for row in range(len(data))]), data.labels)
        for data in few_digits(150, 0.3)
    )
    done = run(source, target, tmp_path / "run", methods="source", hidden=64)
    assert done.accuracy.to_pylist()[0]["accuracy"] >= 0.84  # 8 steps give 51 %
    folder = tmp_path / "run" / "source-to-target" / "seed=0" / "source"
    learned = json.loads((folder / "rounds.json").read_text("utf-8"))[0]["source"]
    assert 8 < learned["epochs"] <= 200 and learned["held_out"] == pytest.approx(30, abs=3) and learned["accuracy"] > 0.7
    assert not (folder / "checkpoints").exists()


def test_a_small_source_is_trained_the_same_way_twice_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, here, labels = domains(n=60)
    options: dict[str, Any] = {**QUICK, "source_epochs": None, "methods": "source", "batch_size": 256}
    monkeypatch.setattr(source_training, "STEPS", 12)
    whole = run((there, labels), (here, labels), tmp_path / "whole", **options)
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    real, calls = loop.SelfTraining._train, [0]

    def killed(self: Any, *args: Any) -> None:
        calls[0] += 1
        if calls[0] in (8, 20):  # while the length is found, and after it
            raise KeyboardInterrupt
        real(self, *args)

    monkeypatch.setattr(loop.SelfTraining, "_train", killed)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run((there, labels), (here, labels), tmp_path / "killed", **options)
    done = run((there, labels), (here, labels), tmp_path / "killed", **options)
    assert contents(done.directory) == contents(whole.directory)


def test_passes_asked_for_are_made_and_a_large_source_has_the_usual_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, here, labels = domains()
    passes: list[int] = []

    def counted(self: Any, learning: Any, number: int, epochs: int, among: Any = None) -> None:
        passes.append(number)
        assert among is None

    monkeypatch.setattr(loop.SelfTraining, "_source_epoch", counted)
    given: dict[str, Any] = {**QUICK, "methods": "source"}
    run((there, labels), (here, labels), tmp_path / "asked", **{**given, "source_epochs": 3, "batch_size": 256})
    assert passes == [1, 2, 3]
    passes.clear()
    run((there, labels), (here, labels), tmp_path / "usual", **{**given, "source_epochs": None, "batch_size": 16})  # 64 steps
    assert passes == list(range(1, 9))
    start = json.loads((tmp_path / "usual" / "start.json").read_text("utf-8"))
    assert start["arguments"]["source_epochs"] == 8  # as runs of earlier versions have it


def test_a_source_that_was_not_learned_is_named(tmp_path: Path) -> None:
    there, here, labels = domains()
    said: list[str] = []
    options: dict[str, Any] = {**QUICK, "methods": "source", "source_epochs": 1, "lr": 1e-9}
    run((there, labels), (here, labels), tmp_path / "run", say=said.append, **options)
    assert len(said) == 1 and said[0].startswith("source-to-target  seed 0: the source has not been learned: ")
    assert said[0].endswith("of its own samples are right, guessing gives 33 %. Try other --source-epochs or --source-lr.")


# ---- what acts between rounds ----


@pytest.mark.parametrize(("rounds", "same"), [(1, True), (2, False)])
def test_the_optimizer_is_reset_before_each_round(rounds: int, same: bool, tmp_path: Path) -> None:
    there, here, labels = domains()
    heads = []
    for reset in (False, True):
        options = {**QUICK, "rounds": rounds, "methods": "cbst", "reset_optimizer": reset}
        done = run((there, labels), (here, labels), tmp_path / str(reset), **options)
        heads.append((done.directory / "source-to-target" / "seed=0" / "cbst" / "head.safetensors").read_bytes())
    assert (heads[0] == heads[1]) == same  # the momentum of a first round is none anyway


def test_labels_come_from_an_image_and_its_mirror_image() -> None:
    from hardsight.adapt.learner import Learner
    from hardsight.adapt.settings import AdaptSettings
    from hardsight.models.trainable import open_trainable

    rng = np.random.default_rng(0)
    inputs = ArrayInputs(rng.normal(size=(9, 1, 8, 8)), np.arange(9) % 3)
    sample = torch.from_numpy(inputs.inputs)
    settings = AdaptSettings(flip_labels=True, source_epochs=1).for_data("images", False, 9)
    make = lambda: Learner(open_trainable("DigitsCNN", 3), sample, 3)
    loop_ = loop.SelfTraining(inputs, inputs, 3, settings, 0, make, torch.device("cpu"), lambda method, done: None)
    learner = make().eval()
    view = loop_.view(learner)
    with torch.no_grad():
        plain, mirrored = (torch.softmax(learner(x), 1).numpy() for x in (sample, sample.flip(3)))
    assert view.labeling is not None
    assert np.exp(view.labeling.logits) == pytest.approx((plain + mirrored) / 2, abs=1e-6)
    assert torch.softmax(torch.from_numpy(view.logits), 1).numpy() == pytest.approx(plain, abs=1e-6)  # evaluated as it is
    assert np.abs(plain - mirrored).max() > 1e-3


def test_logistic_regression_is_scikit_learns(compared: Any) -> None:
    from sklearn.linear_model import LogisticRegression

    done, (there, here, labels) = compared
    ours, theirs = standards(there, here, "domain")
    predicted = LogisticRegression(max_iter=1000).fit(ours(there), labels).predict(theirs(here))
    rows = [row for row in done.accuracy.to_pylist() if row["method"] == "logistic regression"]
    assert rows[0]["accuracy"] == pytest.approx(mean_accuracy(class_accuracies(labels, predicted, 3)), abs=0.01)
    assert rows[0]["accuracy std"] == 0


def test_images_that_come_up_twice_in_an_epoch_stay_in_their_place() -> None:
    """Balanced classes repeat samples of a small one: what is decoded ahead must still go to the row it belongs to."""
    from hardsight.data import open_data
    from hardsight.models.preprocessing import Preprocessing
    from hardsight.training.inputs import ImageInputs

    data = open_data("digits", limit=20)
    how = Preprocessing(size=(8, 8), channels="L", mean=(0.0,), std=(1.0,))
    once = {
        int(row): x
        for batch in ImageInputs(data, how).batches([np.arange(20)])
        for row, x in zip(batch.rows, batch.inputs, strict=True)
    }
    inputs = ImageInputs(data, how, workers=2)
    asked = [np.array([0, 3, 3, 5]), np.array([3, 0, 7]), np.array([7, 8, 5, 9])]
    for _ in range(2):  # while they are decoded, and from memory
        for rows, batch in zip(asked, inputs.batches(asked), strict=True):
            assert batch.rows.tolist() == rows.tolist()
            for row, x in zip(rows, batch.inputs, strict=True):
                assert np.array_equal(x, once[int(row)])
