"""What a run of self-training holds: tables, predictions, the page for people, and a model that takes features as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch")

from adapt_runs import METHODS, QUICK, SHOWN, check_kept_model, domains
from hardsight import adapt as run
from hardsight.domains.adapt_result import Adapted, tables_of
from hardsight.domains.comparison import class_accuracies, known_mean
from hardsight.domains.opening import standards
from hardsight.domains.pseudo_labels import select_pseudo_labels
from hardsight.errors import RunError
from hardsight.render.domains import accuracy_per_round
from hardsight.render.showing import as_page


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    there, here, labels = domains()
    folder = tmp_path_factory.mktemp("adapt") / "run"
    return run((there, labels), (here, labels), folder, methods=METHODS, seeds=2, **QUICK), (there, here, labels)


def row_of(table: pa.Table, method: str) -> dict[str, Any]:
    """The first row of the method."""
    return next(row for row in table.to_pylist() if row["method"] == method)


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
        assert (done.run / name).is_file(), name
    assert list(done.figures()) == ["accuracy-source-to-target"] and list(done.tables())[0] == "accuracy"
    page = (done.run / "report.html").read_text("utf-8")
    assert "data:image/png;base64" in page and "cbst+avh" in page and "do it again" not in page  # Python has no command line
    parts = json.loads((done.run / "run.json").read_text("utf-8"))["parts"]
    names = [part["name"] for part in parts]
    assert len(set(names)) == len(names)
    on_disk = {p.relative_to(done.run).as_posix() for p in done.run.rglob("*") if p.is_file()}
    assert set(names) == on_disk - {"start.json", "run.json", ".lock"}


def test_the_headline_is_the_last_round_and_the_best_is_the_oracle(compared: Any) -> None:
    done, _ = compared
    rounds = [row for row in done.rounds.to_pylist() if row["method"] == "cbst"]
    last = [row["accuracy"] for row in rounds if row["round"] == 3]
    best = [max(row["accuracy"] for row in rounds if row["seed"] == seed) for seed in (0, 1)]
    row = row_of(done.accuracy, "cbst")
    assert row["accuracy"] == pytest.approx(np.mean(last)) and row["accuracy std"] == pytest.approx(np.std(last, ddof=1))
    assert row["oracle_accuracy"] == pytest.approx(np.mean(best))
    assert done.summary == json.loads((done.run / "run.json").read_text("utf-8"))["counts"]
    assert done.summary["accuracy"]["source-to-target"]["cbst"] == pytest.approx(np.mean(last))


def test_pseudo_labels_of_a_round_are_those_of_the_rule(compared: Any) -> None:
    """Recomputed from the saved source model: the first round's table is what select_pseudo_labels says."""
    from safetensors.torch import load_file

    done, (there, here, labels) = compared
    folder = done.run / "source-to-target" / "seed=1"
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
            pq.read_table(done.run / "source-to-target" / f"seed={seed}" / method / "round=01.parquet").to_pandas()
            for seed in (0, 1)
        ]
        row = row_of(done.selection, method)
        assert row["not_selected_by_cbst"] == np.mean([(table.kept & ~table.kept_by_cbst).sum() for table in tables])
        assert row["only_selected_by_cbst"] == np.mean([(~table.kept & table.kept_by_cbst).sum() for table in tables])
        kept = [table[table.kept] for table in tables]
        for name in ("avh", "avc", "confidence", "norm"):  # Table 4
            assert row[name] == pytest.approx(np.mean([table[name].mean() for table in kept]), rel=1e-5)
        assert row["true_positive_rate"] == pytest.approx(np.mean([(one.pseudo_label == one.label).mean() for one in kept]))


def test_predictions_lie_beside_the_rounds(compared: Any) -> None:
    done, _ = compared
    pair = done.run / "source-to-target"
    for method in METHODS:
        table = pq.read_table(pair / "seed=1" / method / "predictions.parquet").to_pandas()
        last = json.loads((pair / "seed=1" / method / "rounds.json").read_text("utf-8"))[-1]
        hits = (table.predicted == table.label).groupby(table.label).mean()
        assert hits.tolist() == pytest.approx(last["class_accuracy"]) and table.confidence.between(1 / 3, 1).all()


def test_the_report_reads_like_the_papers_tables(compared: Any) -> None:
    done, _ = compared
    page = (done.run / "report.html").read_text("utf-8")
    row = row_of(done.accuracy, "cbst+avh")
    assert f"{100 * row['accuracy']:.2f} ± {100 * row['accuracy std']:.2f}" in page
    assert f"{100 * row['class 2']:.2f} ± {100 * row['class 2 std']:.2f}" in page
    difference = next(row for row in done.differences.to_pylist() if (row["method"], row["against"]) == ("cbst+avh", "source"))
    assert f"{100 * difference['difference']:+.2f}" in page and f"{100 * difference['low']:+.2f}" in page
    for words in ("best (oracle)", "The last round is the result", "true_positive_rate", "neighbors", "How it was made"):
        assert words in page, words
    assert page.count("data:image/png") == 1 and "http://" not in page and "https://" not in page and "<script" not in page


def test_names_are_text_on_the_page_and_a_dollar_is_no_formula(tmp_path: Path) -> None:
    names, words = [f"US${k}<b>" for k in range(30)], "hardsight adapt a.npz:a$ --rounds 1 -o '<b>'"
    entry = {"round": 0, "portion": 0.2, "accuracy": 0.5, "class_accuracy": [0.5] * len(names)}
    result = Adapted(tmp_path, tables_of({("a$-to-b$", "source", 0): [entry]}, names))
    text = as_page(result, [], {"arguments": {"rounds": 1}, "versions": {"hardsight": "0"}, "words": words})
    assert text.count("US$29&lt;b&gt;") == 1 and "50.00" in text
    assert "<pre>hardsight adapt a.npz:a$ --rounds 1 -o &#x27;&lt;b&gt;&#x27;</pre>" in text  # how to do it again
    accuracy_per_round({"cbst": np.array([[0.5, 0.6]])}, np.array([0.4]), "a$x_ to $b").savefig(tmp_path / "one.png")


def test_standardizing_each_domain_undoes_a_shift_and_the_model_takes_raw_features(compared: Any) -> None:
    done, (_, here, labels) = compared
    assert row_of(done.accuracy, "cbst+avh")["accuracy"] > 0.8
    check_kept_model(done.run / "source-to-target" / "seed=0" / "cbst+avh", here, labels)


def test_a_complete_run_is_read_and_another_one_refused(compared: Any) -> None:
    done, (there, here, labels) = compared
    said: list[str] = []
    spelled_out = {**QUICK, "method_options": {"crst": {"alpha": 0.25}}}  # the default
    again = run((there, labels), (here, labels), done.run, methods=METHODS, seeds=2, say=said.append, **spelled_out)
    assert again.accuracy.equals(done.accuracy) and "complete already" in said[0]
    with pytest.raises(RunError, match="rounds was 3 and is 4"):
        run((there, labels), (here, labels), done.run, methods=METHODS, seeds=2, **{**QUICK, "rounds": 4})
    with pytest.raises(RunError, match="other inputs"):
        run((there, labels), (here + 1, labels), done.run, methods=METHODS, seeds=2, **QUICK)


def test_target_labels_change_nothing_but_the_report(compared: Any, tmp_path: Path) -> None:
    done, (there, here, labels) = compared
    blind = run((there, labels), (here, np.full(len(here), -1)), tmp_path / "blind", methods=METHODS, seeds=2, **QUICK)
    for method in METHODS[1:]:
        path = Path("source-to-target") / "seed=0" / method
        one, other = (pq.read_table(run_.run / path / "round=03.parquet") for run_ in (done, blind))
        assert one.column("pseudo_label").equals(other.column("pseudo_label"))
        heads = [(run_.run / path / "head.safetensors").read_bytes() for run_ in (done, blind)]
        assert heads[0] == heads[1]
    assert len(blind.accuracy) == 0
    assert json.loads((blind.run / "run.json").read_text("utf-8"))["counts"]["accuracy"] == {"source-to-target": {}}


def test_logistic_regression_is_scikit_learns(compared: Any) -> None:
    from sklearn.linear_model import LogisticRegression

    done, (there, here, labels) = compared
    ours, theirs = standards(there, here, "domain")
    predicted = LogisticRegression(max_iter=1000).fit(ours(there), labels).predict(theirs(here))
    row = row_of(done.accuracy, "logistic regression")
    assert row["accuracy"] == pytest.approx(known_mean(class_accuracies(labels, predicted, 3)), abs=0.01)
    assert row["accuracy std"] == 0
