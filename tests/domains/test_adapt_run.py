"""Self-training end to end on small features and images: what it reaches with each option, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch")

from adapt_runs import QUICK, adapted, by_sample_domain, domains
from hardsight import Snapshot
from hardsight import adapt as run
from hardsight.domains import adapt_training
from hardsight.domains.adapt import with_defaults
from hardsight.domains.adapt_result import tables_of
from hardsight.domains.comparison import paired_difference
from hardsight.domains.opening import as_target, check_folder_names, domain_names, open_domain
from hardsight.domains.pseudo_labels import select_pseudo_labels
from hardsight.domains.self_training import SelfTraining
from hardsight.domains.settings import AdaptSettings
from hardsight.errors import InputError
from hardsight.extraction.feed import ArrayInputs
from hardsight.sklearn import SelfTrainingClassifier
from refusals import refused

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.mark.parametrize("batch_norm", [False, True])
def test_samples_not_selected_pass_only_through_batch_normalization(batch_norm: bool) -> None:
    logits = np.log([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6], [0.3, 0.7]])
    chosen = select_pseudo_labels(logits, portion=0.5, method="cbst")
    assert chosen.kept.tolist() == [True, False, False, False, False]
    rows, labels = SelfTraining().target(chosen, (5, 2), batch_norm)
    assert rows.tolist() == ([0, 1, 2, 3, 4] if batch_norm else [0])
    assert labels.tolist() == [[1, 0], [0, 0], [0, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (slice(0, 1), {}),  # one sample, without a label
        (slice(0, 120, 3), {}),  # one class alone, as far as is known
        (slice(0, 120), {"portion": "0:0.5:1"}),
        (slice(0, 120), {"portion": 1, "methods": "crst"}),
        (slice(0, 1), {"methods": "coral+cbst"}),
        (slice(0, 1), {"methods": "subspace+depict"}),
    ],
)  # fmt: skip
def test_small_and_one_sided_targets(target: slice, options: dict[str, Any], tmp_path: Path) -> None:
    there, here, labels = domains()
    given = {**QUICK, "rounds": 2, **options}
    known = np.where(np.arange(120) == 0, -1, labels)[target]
    said: list[str] = []
    done = run((there, labels), (here[target], known), tmp_path / "run", say=said.append, **given)
    told = done.rounds.to_pylist()[-2:]
    assert (told[-1]["accuracy"] is not None) == (target != slice(0, 1)) and told[-1]["round"] == 2
    one_class = "source-to-target: every labeled target sample is of the class '0'; accuracy is that class's alone."
    assert (one_class in said) == (target == slice(0, 120, 3))
    if "portion" in options and options["portion"] != 1:
        assert told[0]["selected"] == 0 and told[0]["true_positive_rate"] is None and told[1]["selected"] > 0


def test_domains_that_cannot_be_adapted_are_refused(tmp_path: Path) -> None:
    there, here, labels = domains()
    broken = np.where(np.arange(120)[:, None] == 7, np.nan, there)
    targets = {
        0: "at least one sample|no samples",
        1: "every target sample is labeled '0'",
        120: "1 of 120 rows are not; .* row 7",
    }
    for samples, message in targets.items():
        with pytest.raises(InputError, match=message):
            source = there if samples < 120 else broken
            run((source, labels), (here[:samples], labels[:samples]), tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ({}, 1 + 3),  # the source model, then once after each round
        ({"methods": "source,cbst,crst"}, 1 + 3 + 3),
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


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "cosine"}, {"standardize": "none"},
        {"standardize": "source"}, {"balance": False, "source_portion": "0.5:0.1:0.8"},
        {"optimizer": "adamw", "lr": 0.01}, {"methods": "avc"}, {"methods": "threshold"}, {"methods": "cbst+norm"},
        {"methods": "crst-lrent"}, {"methods": "crst-mrkld"},
        {"method_options": {"crst": {"alpha": 0.2, "weight": 0.1}}, "methods": "crst"},
        {"methods": "entropy+cbst", "method_options": {"entropy": {"weight": 0.5}}},
        {"methods": "coral", "method_options": ["coral:reg=0.1"], "standardize": "none"},
        {"methods": "threshold", "method_options": ["threshold:threshold=0.5"]},
    ],
)  # fmt: skip
def test_every_option_runs_and_acts(options: dict[str, Any], default: dict[str, Any], tmp_path: Path) -> None:
    last = adapted(tmp_path / "run", **{"rounds": 2, **options}).rounds.to_pylist()[-1]
    assert last["accuracy"] > 0.4
    assert last["mean_avc"] != default["mean_avc"]  # another model: of angles, no two are equal


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The last round of a run without options."""
    last: dict[str, Any] = adapted(tmp_path_factory.mktemp("default") / "run", rounds=2).rounds.to_pylist()[-1]
    return last


def test_every_pair_of_domains(tmp_path: Path, cli: Callable[..., Any]) -> None:
    there, here, labels = domains()
    np.savez(
        tmp_path / "both.npz", features=np.concatenate([there, here]), labels=np.concatenate([labels, labels]),
        domains=np.repeat([0, 1], len(labels)), domain_names=["day", "night"], class_names=["a", "b", "c"],
    )  # fmt: skip
    data, name = open_domain(str(tmp_path / "both.npz"))
    assert domain_names(data) == ["day", "night"] and name == "both"
    words = ("--rounds", 2, "--epochs", 1, "--source-epochs", 2, "--hidden", 8, "--methods", "source,cbst")
    done = cli("adapt", tmp_path / "both.npz", "-o", tmp_path / "all", *words)
    assert done.code == 0, done.err
    assert "day-to-night" in done.out and "all pairs" in done.out and "best (oracle)" in done.out
    one = cli("adapt", f"{tmp_path}/both.npz:day", f"{tmp_path}/both.npz:night", "-o", tmp_path / "one", *words)
    assert one.code == 0, one.err
    both = pq.read_table(tmp_path / "all" / "accuracy.parquet").to_pylist()
    alone = pq.read_table(tmp_path / "one" / "accuracy.parquet").to_pylist()
    assert both[:3] == alone


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["both.npz:noon", "both.npz:day"], "no domain 'noon'; it has day, night"),
        (["both.npz:day", "missing.npz"], "missing.npz"),
        (["both.npz:day", "both.npz:night", "--methods", "cbts"], "Did you mean cbst"),
        (["both.npz:day", "both.npz:night", "--methods", "atuo"], "source, auto or cbst+SCORE, got 'atuo'. Did you mean auto?"),
        (["both.npz:day", "both.npz:night", "--portion", "2"], "portion is written start:step:stop"),
        (["both.npz:day", "both.npz:night", "--flip-labels"], "flip_labels is for images"),
        (
            ["digits", "digits", "--model", "lenet", "--methods", "subspace+cbst"],
            "subspace+cbst aligns features, and these are images",
        ),
        (["one.npz"], "at least two domains; it has one, 'day'"),
        (["both.npz:day", "others.npz"], "the domains share no class: the source has 0, 1, 2, the target 3, 4, 5."),
        (["named.npz", "unlike.npz"], "the domains share no class: the source has ape, bat, cat, the target dog, eel, fox."),
        (["both.npz:day", "same.npz"], "every target sample is labeled '1'; self-training needs a target with several classes"),
        (["same.npz", "both.npz:day"], "at least two classes, but every source sample is of the class '1'."),
        (["apart.npz"], "day-to-night: the domains share no class: the source has 0, 2, the target 1."),
        (["both.npz:day", "both.npz:night", "--model", "lenet"], "model is for images"),
        (["upward.npz"], "'../../x' is not a valid folder name"),
        (["upward.npz:day", "upward.npz:../../x"], "'../../x' is not a valid folder name"),
        (["unlabeled.npz", "both.npz:day"], "the source has no labels"),
        (["both.npz:day", "narrow.npz"], "source features have 8 columns, target features 2"),
        (["wide.csv", "both.npz:day"], "wide.csv: which columns are the features?"),
        (["scores.csv", "both.npz:day"], "scores.csv is a table of scores"),
        (["narrow.npz"], "needs a domain column with at least two domains"),
        (["digits", "digits", "--methods", "cbst"], "images need a model"),
        (["digits", "digits", "--model", "lenet", "--hidden", "9"], "hidden is for features; these are images"),
        (["both.npz", "--method-options", "coral:reg=2"], "coral, which is not among the methods used: cbst+avh"),
        (["both.npz", "--method-options", "corla:reg=2"], "Did you mean coral?"),
        (["both.npz", "--methods", "crst", "--method-options", "crst:alfa=2"], "crst has no option 'alfa'"),
        (["both.npz", "--methods", "crst", "--method-options", "crst:alpha=0"], "crst: alpha must be a number above 0, got 0"),
        (["both.npz", "--methods", "weighted", "--method-options", "weighted:rule=2"], "'rule'; it has: none"),
        (["both.npz", "--method-options", "reg=2"], "name:key=value, as in coral:reg=10, got 'reg=2'"),
        (["digitz", "digits", "--model", "lennet"], "lennet is not a network to train"),  # before any data is looked for
    ],
)
def test_bad_input_is_one_line_and_no_output(
    words: list[str], message: str, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    there, _, labels = domains()
    np.savez("both.npz", features=there, labels=labels, domain=np.array(["day", "night"])[np.arange(len(labels)) // 3 % 2])
    np.savez("upward.npz", features=there, labels=labels, domain=np.array(["day", "../../x"])[np.arange(len(labels)) // 3 % 2])
    np.savez("apart.npz", features=there, labels=labels, domain=np.array(["day", "night"])[labels % 2])
    np.savez("unlabeled.npz", features=there)
    np.savez("others.npz", features=there, labels=labels + 3)
    np.savez("same.npz", features=there, labels=np.ones_like(labels))
    np.savez("named.npz", features=there, labels=labels, class_names=["ape", "bat", "cat"])
    np.savez("unlike.npz", features=there, labels=labels, class_names=["dog", "eel", "fox"])
    np.savez("narrow.npz", features=there[:, :2], labels=labels)
    Path("wide.csv").write_text("f0,f1,label\n1,2,0\n3,4,1\n")
    Path("scores.csv").write_text("id,predicted,status\na,0,ok\n")
    np.savez("one.npz", features=there, labels=labels, domain=np.array(["day"] * len(labels)))
    done = cli("adapt", *words, "-o", "out")
    refused(done, message)
    assert done.out == "" and not Path("out").exists()


def test_a_frame_is_a_domain() -> None:
    there, _, labels = domains()
    frame = pd.DataFrame(there, columns=[f"f{k}" for k in range(8)]).assign(label=labels, domain="day")
    of_arrays, _ = open_domain((there, labels))
    for spec in (frame, pa.Table.from_pandas(frame), Snapshot.open(frame, labels="label")):
        data, name = open_domain(spec)
        assert isinstance(data, Snapshot) and name == "data" and domain_names(data) == ["day"]
        assert isinstance(of_arrays, Snapshot) and data.features is not None and of_arrays.features is not None
        assert np.array_equal(data.features, of_arrays.features) and data.labels.tolist() == labels.tolist()
    with pytest.raises(InputError, match="holds scores"):
        open_domain(pd.DataFrame({"id": ["a"], "label": [0], "predicted": [0], "status": ["ok"]}))


@pytest.mark.parametrize("name", ["", ".", "..", "/tmp/x", "a/b", "a\\b", "a\nb", "a\0b", "é" * 51])
def test_a_domain_is_named_like_a_folder(name: str) -> None:
    check_folder_names(["art painting", "-2", "1.5", "é" * 50])
    with pytest.raises(InputError, match="a domain's name becomes a folder of the run"):
        check_folder_names(["day", name])


def test_classes_are_matched_by_name() -> None:
    there, here, labels = domains()
    source = Snapshot(there, None, labels, class_names=["cat", "dog", "owl"])
    turned = Snapshot(here, None, 2 - labels, class_names=["owl", "dog", "cat"])
    more = Snapshot(here, None, 3 - labels, class_names=["zebra", "owl", "dog", "cat"])  # no sample is a zebra
    for target in (turned, more):
        assert as_target(open_domain(target)[0], open_domain(source)[0]).labels.tolist() == labels.tolist()  # type: ignore[union-attr]
    zebra = Snapshot(here, None, labels, class_names=["zebra", "dog", "owl"])
    with pytest.raises(InputError, match="a class that the source does not have, 'zebra'"):
        as_target(open_domain(zebra)[0], open_domain(source)[0])
    with pytest.raises(InputError, match="labels up to 4, but the source knows classes 0 to 2: number both alike"):
        as_target(open_domain((here, labels + 2))[0], open_domain((there, labels))[0])


def test_values_of_another_kind_are_refused() -> None:
    wrong: dict[str, Any] = {"seeds": None, "methods": 3, "portion": None}
    for name, value in wrong.items():
        with pytest.raises(InputError, match=f"^{name} .*got {value}"):
            AdaptSettings(**{name: value})
    with pytest.raises(InputError, match="precision float16 needs a GPU"):
        AdaptSettings(precision="float16", device="cpu")


def test_paired_differences_are_those_of_a_t_test() -> None:
    from scipy import stats

    rng = np.random.default_rng(0)
    one, other = rng.normal(size=6), rng.normal(size=6)
    found = paired_difference(list(one), list(other))
    expected = stats.ttest_rel(one, other).confidence_interval()
    assert [found["low"], found["high"]] == pytest.approx([expected.low, expected.high])
    assert paired_difference([0.5], [0.4])["low"] is None


def test_pooled_differences_are_over_pairs() -> None:
    reached = {("a", "source"): [0.5, 0.5], ("a", "cbst"): [0.6, 0.8], ("b", "source"): [0.6, 0.6], ("b", "cbst"): [0.9, 0.9]}
    rounds = {
        (pair, method, seed): [{"round": 1, "portion": None, "accuracy": accuracy, "class_accuracy": [accuracy]}]
        for (pair, method), accuracies in reached.items()
        for seed, accuracy in enumerate(accuracies)
    }
    table = tables_of(rounds, ["x"])["differences"].to_pylist()
    assert [row["pair"] for row in table] == ["a", "b", "all pairs"]
    assert table[-1]["difference"] == pytest.approx((0.2 + 0.3) / 2) and table[-1]["count"] == 2
    assert table[1]["low"] == pytest.approx(0.3)


def test_images_with_a_trained_model(tmp_path: Path) -> None:
    done = run(
        "digits:train", "digits:test", tmp_path / "run", methods="source,cbst+avh", model="hardsight.models.networks:DigitsCNN",
        rounds=2, epochs=1, source_epochs=12, limit=400, augment="none", lr=2e-3, batch_size=32,
    )  # fmt: skip
    reached = dict(zip(done.accuracy.column("method").to_pylist(), done.accuracy.column("accuracy").to_pylist(), strict=True))
    assert reached["cbst+avh"] > 0.7
    folder = done.run / "digits-train-to-digits-test" / "seed=0" / "cbst+avh"
    again = run(
        "digits:train", "digits:test", tmp_path / "again", methods="source,cbst", model=folder, rounds=1, epochs=1, limit=400,
        flip_labels=True,
    )  # fmt: skip
    assert reached["logistic regression"] > 0.7  # on the source model's features
    assert again.accuracy.to_pylist()[0]["accuracy"] == pytest.approx(reached["cbst+avh"])  # a trained model is where it starts


# ---- what acts between rounds ----


def test_labels_come_from_an_image_and_its_mirror_image() -> None:
    from hardsight.models.trainable import open_trainable
    from hardsight.training.trainee import LossChoice, Trainee

    rng = np.random.default_rng(0)
    inputs = ArrayInputs(rng.normal(size=(9, 1, 8, 8)), np.arange(9) % 3)
    sample = torch.from_numpy(inputs.inputs)
    settings = with_defaults(AdaptSettings(flip_labels=True, source_epochs=1), "images", False, 9)
    make = lambda: Trainee(open_trainable("DigitsCNN", 3), sample, LossChoice("softmax", {}, 3, 9))
    loop_ = adapt_training.PairTraining(inputs, inputs, 3, settings, 0, make, torch.device("cpu"))
    learner = make().eval()
    view = loop_.view(learner)
    with torch.no_grad():
        plain, mirrored = (torch.softmax(learner.logits(x), 1).numpy() for x in (sample, sample.flip(3)))
    assert view.labeling is not None
    assert np.exp(view.labeling.logits) == pytest.approx((plain + mirrored) / 2, abs=1e-6)
    assert torch.softmax(torch.from_numpy(view.logits), 1).numpy() == pytest.approx(plain, abs=1e-6)  # evaluated as it is
    assert np.abs(plain - mirrored).max() > 1e-3


def test_images_that_come_up_twice_in_an_epoch_stay_in_their_place() -> None:
    """Balanced classes repeat samples of a small one: what is decoded ahead must still go to the row it belongs to."""
    from hardsight.data import open_data
    from hardsight.extraction.feed import ImageInputs
    from hardsight.models.preprocessing import Preprocessing

    data = open_data("digits", limit=20)
    how = Preprocessing(size=(8, 8), channels="L", mean=(0.0,), std=(1.0,))
    (once,) = (batch.inputs for batch in ImageInputs(data, how).batches([np.arange(20)]))
    inputs = ImageInputs(data, how, workers=2)
    asked = [np.array([0, 3, 3, 5]), np.array([3, 0, 7]), np.array([7, 8, 5, 9])]
    for _ in range(2):  # while they are decoded, and from memory
        for rows, batch in zip(asked, inputs.batches(asked), strict=True):
            assert batch.rows.tolist() == rows.tolist()
            assert np.array_equal(batch.inputs, once[rows])


def test_self_training_by_sample_domain() -> None:
    X, y, domain = by_sample_domain()
    names, target = np.array(["ant", "bee", "cat"])[y], domain < 0
    classifier = SelfTrainingClassifier(rounds=1, hidden=16, options={"epochs": 4}).fit(X, names, sample_domain=domain)
    assert (classifier.predict(X[target]) == names[target]).mean() > 0.9
    assert (classifier.predict(X, sample_domain=domain) == names).mean() > 0.9  # of both domains
    assert classifier.predict_proba(X).sum(1) == pytest.approx(1)
    with pytest.raises(ValueError, match="samples of a source"):
        SelfTrainingClassifier().fit(X, names, sample_domain=np.ones(240))
