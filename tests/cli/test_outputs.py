"""Output of commands: the hardest first, a document with --json, nothing with --quiet, progress in a log, and tables as files."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from hardsight import score
from hardsight.attacks import Attack
from hardsight.cli.command_options import with_options
from hardsight.domains import Adapted, Generalized
from hardsight.errors import InputError
from hardsight.render.saving import figures_as, save_figure
from hardsight.render.showing import as_latex, as_markdown, show_lines, write_tables
from hardsight.screen import (
    Cell,
    ProgressLines,
    Shown,
    ShownTable,
    interval,
    number,
    percent,
    print_line,
    print_next,
    print_table,
    print_warning,
    print_wrote,
    showing,
)
from hardsight.table import Summary, as_hardness, hard_end, hardest, is_hardness, read_scores, write_table
from hardsight.version import VERSION
from undrawn import undrawn

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty samples of two classes at right angles, each at its own angle; the last one is closest to the other class."""
    path = tmp_path_factory.mktemp("photos") / "photos.npz"
    degrees = np.linspace(0, 40, 40)
    own = np.stack([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))], axis=1)
    labels = np.arange(40) % 2
    features = np.where(labels[:, None] == 0, own, own[:, ::-1])
    sites = np.where(np.arange(40) < 20, "a", "b")
    rest: dict[str, Any] = {"labels": labels, "ids": np.arange(40), "site": sites, "day": np.arange(40) % 7}
    for name, moved in (("photos.npz", 0), ("later.npz", 0.01)):
        np.savez(path.with_name(name), features=features + moved, weight=10 * np.eye(2), **rest)
    return path


def said(*, json: bool = False, quiet: bool = False) -> Shown:
    with showing(json=json, quiet=quiet) as shown:
        print_line("n = 2", samples=2, share=float("nan"))
        header = ("name", Cell("accuracy %", "accuracy"), Cell("95 %", "accuracy"), "mean change", "")
        print_table(header, [("a", percent(0.71234567), interval(0.7, 0.8), "–", "ok")], title="one", name="rows")
        print_table(("name", "n"), [("b", number(3))], title="two", name="rows", of={"model": "m"})
        print_warning("too few")
        print_wrote("out file.csv", ": all")
        print_next("hardsight", "explore", "my run")
    return shown


def test_the_document_has_full_numbers_and_nulls(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(said().document("x"))
    accuracy = {"accuracy": 0.71234567, "accuracy_low": 0.7, "accuracy_high": 0.8}
    assert document == {
        "hardsight": VERSION,
        "command": "x",
        "summary": {"samples": 2, "share": None},
        "tables": {
            "rows": [
                {"name": "a", **accuracy, "mean_change": None, "note": "ok"},
                {"model": "m", "name": "b", "n": 3},
            ]
        },
        "warnings": ["too few"],
        "files": ["out file.csv"],
        "next": "hardsight explore 'my run'",
    }
    assert list(document)[:3] == ["hardsight", "command", "warnings"]  # before the numbers that they are about
    out, err = capsys.readouterr()
    assert "71.23" in out and "wrote out file.csv: all" in out and "next: hardsight explore 'my run'" in out
    assert err == "warning: too few\n"


def test_tables_are_not_drawn_beside_a_document_and_warnings_not_when_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    said(json=True)
    assert "71.23" not in capsys.readouterr().out
    said(quiet=True)
    assert capsys.readouterr().err == ""


def test_samples_without_labels_are_ranked_by_what_there_is(tmp_path: Path, cli: Cli) -> None:
    features = np.array([[9.0, 0], [1, 1], [0, 3]])  # sure, at a loss, in between
    np.savez(tmp_path / "x.npz", features=features, weight=np.eye(2))
    done = json.loads(cli("score", tmp_path / "x.npz", "--json").out)
    assert [row["id"] for row in done["tables"]["hardest"]] == [1, 2, 0]
    assert done["tables"]["hardest"][0]["entropy"] == pytest.approx(np.log(2)) and "avc_predicted" in done["tables"]["hardest"][0]
    table = score(features, np.eye(2))
    assert table.ranked_by == "entropy" and "hardest 3 by entropy (high is hard)" in repr(table)
    labeled = score(features, np.eye(2), [-1, 0, -1])  # one label is enough
    assert labeled.ranked_by == "avh" and "hardest 1 by avh" in repr(labeled)


def test_part_by_part_one_label_is_enough() -> None:
    parts = [score(np.eye(2)[rows], np.eye(2), labels).table for rows, labels in (([0], [-1]), ([1], [1]))]
    summary = Summary(otherwise="entropy")
    summary.add(parts[0])
    assert summary.ranked_by == "entropy" and len(summary.hardest or ()) == 1
    summary.add(parts[1])
    assert summary.ranked_by == "avh" and len(summary.hardest or ()) == 1


def run(words: list[str]) -> None:
    """A command that ends with an exit code after it has said something."""
    app = typer.Typer()

    @app.command()
    @with_options()
    def check(code: int = 0) -> None:
        """Check."""
        print("by the way")
        print_line("checked", code=code)
        if code:
            raise typer.Exit(code)

    app(words, standalone_mode=False)


@pytest.mark.parametrize("code", [0, 2])
def test_json_is_all_of_standard_output(code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run(["--json", "--code", str(code)])
    out, err = capsys.readouterr()
    assert json.loads(out)["summary"] == {"code": code} and json.loads(out)["command"] == "check"
    assert err == "by the way\nchecked\n"
    run(["--json", "--quiet"])
    out, err = capsys.readouterr()
    assert json.loads(out)["summary"] == {"code": 0} and err == ""
    run(["--quiet"])
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("RANK", "1")  # of several processes, the first prints the document
    run(["--json"])
    assert capsys.readouterr().out == ""


def test_progress_in_a_log_is_lines_with_a_new_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = ProgressLines("scoring", clock=lambda: now)
    for second in range(0, 101):  # 10 a second, then half as many
        now = float(second)
        progress(10 * second if second <= 50 else 500 + 5 * (second - 50), 1000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "scoring: 100 of 1,000 (10 %), about 90 s left".replace("90 s", "2 min"),
        "scoring: 300 of 1,000 (30 %), about 70 s left",
        "scoring: 600 of 1,000 (60 %), about 47 s left",
    ]
    assert "\r" not in "".join(lines)


def test_another_count_has_its_own_pace_and_a_short_job_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = ProgressLines("reading", clock=lambda: now)
    progress(0, 10)
    now = 9.0
    progress(10, 10)
    assert capsys.readouterr().err == ""
    progress(40, 100, "epoch 2")  # resumed in the middle
    now = 19.0
    progress(60, 100, "epoch 2")
    assert capsys.readouterr().err == "epoch 2: 60 of 100 (60 %), about 20 s left\n"
    progress.quiet, now = True, 500.0
    progress(61, 100)
    assert capsys.readouterr().err == ""


COMMANDS: dict[str, tuple[list[str], list[str]]] = {  # words after the input, and the tables of the document
    "score": (["--verbose"], ["hardest", "means"]),
    "clean": ([], ["verdicts"]),
    "select": (["--budget", "10", "-o", "OUT/subset.csv"], ["classes"]),
    "curriculum": (["--epochs", "4", "-o", "OUT/order.csv"], ["epochs"]),
    "mine": ([], ["hardest"]),
    "audit": (["--group", "site", "-o", "OUT/audit.csv"], ["groups"]),
    "drift": (["OTHER"], ["classes", "samples"]),
    "correlate": (["--against", "day", "--replicates", "20", "--permutations", "20"], ["agreement", "hypotheses"]),
    "verify": ([], ["files"]),
}


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of an audit is another test's."""
    monkeypatch.setattr("hardsight.groups.audit_page.write_audit_page", lambda *_: None)


@pytest.fixture
def document(cli: Cli, photos: Path, tmp_path: Path, no_page: None) -> Iterator[Callable[[str], dict[str, Any]]]:
    """The document of a command on the forty samples."""

    def read(command: str) -> dict[str, Any]:
        words = [
            word.replace("OUT", str(tmp_path)).replace("OTHER", str(photos.with_name("later.npz")))
            for word in COMMANDS[command][0]
        ]
        done = cli(command, photos, *words, "--json")
        assert done.code == 0, done.err
        found: dict[str, Any] = json.loads(done.out)
        assert found["command"] == command and not done.err.startswith("{")
        return found

    yield read


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_with_tables_has_a_document(document: Callable[[str], dict[str, Any]], command: str) -> None:
    found = document(command)
    assert list(found["tables"]) == COMMANDS[command][1]
    for rows in found["tables"].values():
        assert rows and len({tuple(row) for row in rows}) == 1  # the same columns in every row
        assert not [key for row in rows for key in row if not key.isprintable() or " " in key]


def test_documents_of_train_extract_check_and_report(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    commands = {  # the files, tables and some of the summary of each
        "train digits --model DigitsCNN --epochs 1 --limit 60 -o run": ("run", ["epochs"], {"epoch": 1}),
        "extract run digits --limit 60 -o extracted": ("extracted", [], {"samples": 60, "head": True}),
        "check extracted --fail-on leaks>0 -o checked": ("checked/report.html", ["worst", "rules"], {"samples": 60, "leaks": 0}),
        "report extracted -o report.html": ("report.html", [], {}),
    }
    with undrawn():
        for words, (file, tables, summary) in commands.items():
            done = cli(*words.split(), "--json")
            assert done.code == 0, done.err
            found = json.loads(done.out)
            assert found["files"] == [file] and list(found["tables"]) == tables and summary.items() <= found["summary"].items()
            assert list(found) == ["hardsight", "command", "warnings", "summary", "tables", "files", "next"]
            if "rules" in tables:
                assert [(rule["rule"], rule["failed"]) for rule in found["tables"]["rules"]] == [("leaks>0", False)]
            quiet = cli("score", "extracted", "--quiet") if words.startswith("report") else None
            assert quiet is None or (quiet.out, quiet.err) == ("", "")


def tables(rows: dict[str, list[dict[str, Any]]]) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(rows[name]) for name in rows}


def test_documents_of_the_long_commands() -> None:
    """From the tables that they write, without a training."""
    differences = {"against": "source", "difference": 0.0123456, "low": 0.01, "high": 0.02, "verdict": "better"}
    accuracy = {"pair": "a-to-b", "method": "cbst", "accuracy": 0.9, "accuracy std": 0.1, "oracle_accuracy": None}
    adapted = {
        "accuracy": [accuracy],
        "differences": [{"pair": "a-to-b", "method": "cbst", **differences}],
        "selection": [],
        "rounds": [{"pair": "a-to-b", "method": "cbst", "seed": 0, "round": 1}],
    }
    generalized = {
        "accuracy": [{"loss": "avh", "selection": "last", "dark": 0.5, "dark std": 0.1, "average": 0.5, "oracle average": 0.6}],
        "differences": [{"loss": "avh", "domain": "average", **differences}],
        "epochs": [{"loss": "avh", "domain": "dark", "seed": 0, "scale": None}],
    }
    row = {"method": "fgsm", "epsilon": 0.1, "error": 0.5, "low": 0.4, "high": 0.6}
    medians = dict.fromkeys(("avh", "norm", "confidence", "likelihood", "score"), 0.25)
    attacked = {
        "attack": [],
        "epsilons": [row | medians],
        "detection": [row | {"inputs": "all", "detector": "norm", "auroc": 0.7}],
        "trajectories": [],
    }
    counts = {"images": 3, "score": "s", "gaussians": "g", "trajectories": {"followed": 0, "switched": 0}}
    with showing(json=True) as shown:
        show_lines(Adapted("run", tables(adapted)).lines())
        show_lines(Generalized("run", tables(generalized)).lines())
        attack = Attack("run", tables(attacked), counts=counts)
        show_lines(attack.lines())
    assert attack.summary == counts and counts.items() <= shown.summary.items()
    assert shown.summary["oracle"] == {"a-to-b": {"cbst": None}} and shown.summary["accuracy"] == {"avh": 0.5}
    rows = shown.records()
    assert list(rows) == ["accuracy", "differences", "epsilons", "detection"]
    assert rows["accuracy"][0] == {
        "domains": "a-to-b", "method": "cbst", "accuracy": 0.9, "accuracy_std": 0.1, "oracle_accuracy": None,
    }  # fmt: skip
    assert rows["accuracy"][1] == {"loss": "avh", "dark": 0.5, "dark_std": 0.1, "oracle_average": 0.6}
    same = {"difference": 0.0123456, "difference_low": 0.01, "difference_high": 0.02, "verdict": "better"}
    assert all(same.items() <= found.items() for found in rows["differences"])
    assert rows["epsilons"][0]["error_low"] == 0.4 and rows["detection"][0]["norm_high"] == 0.6


def test_values_of_the_document_are_those_of_the_table(document: Callable[[str], dict[str, Any]], photos: Path) -> None:
    table = score(photos)
    found = document("score")
    assert found["tables"]["hardest"][0]["avh"] == table.column("avh").to_pylist()[39]  # to the last digit
    assert found["summary"]["accuracy"] == 1.0 and found["summary"]["samples"] == 40
    assert found["next"].startswith("hardsight score ")
    means = {row["score"]: row["mean"] for row in found["tables"]["means"]}
    assert means["avh"] == pytest.approx(np.mean(table.column("avh").to_numpy()), rel=1e-12)
    assert pa.types.is_floating(table.schema.field("avh").type)


def test_tables_as_files(cli: Cli, photos: Path, tmp_path: Path) -> None:
    def written(name: str) -> str:
        done = cli("score", photos, "--top", 2, "--verbose", "--table", tmp_path / name)
        assert done.code == 0 and f"wrote {tmp_path / name}" in done.out, done.err
        return (tmp_path / name).read_text() if not name.endswith(".parquet") else ""

    header, first, second = written("hardest.csv").splitlines()
    assert header == '"id","label","predicted","avh","confidence","angular_gap"' and first.startswith("39,1,1,0.4")
    assert (tmp_path / "hardest-means.csv").read_text().startswith('"score","mean","hard_end"\n"avh",')
    assert [row["id"] for row in json.loads(written("hardest.json"))] == [39, 38]
    written("hardest.parquet")
    assert pq.read_table(tmp_path / "hardest.parquet").column("id").to_pylist() == [39, 38]
    tex = written("hardest.tex")
    assert tex.count(r"\begin{tabular}") == 2 and r"\begin{tabular}{lllrrr}" in tex and r"angular\_gap" in tex
    assert "| id | label | predicted | avh | confidence | angular\\_gap |\n| :-- | :-- | :-- | --: | --: | --: |" in written(
        "h.md"
    )


def test_a_missing_value_and_words_among_numbers_in_a_file(tmp_path: Path) -> None:
    rows = [("a", number(1), "–", "–"), ("=b", number(0.5), "x", "–")]
    (path,) = write_tables([ShownTable("t", ("n_ame", "v", "w", "z"), rows, "a & b", 1, {"of": 1})], tmp_path / "t.csv")
    assert path.read_text() == '"of","n_ame","v","w","z"\n1,"a",1,,\n1,"\'=b",0.5,"x",\n'
    table = ShownTable("t", ("n_ame", "v"), [("[a] | b", "1 ± 2 → 3")], None, 1, {})
    assert as_latex(table).splitlines()[7] == r"{}[a] \textbar{} b & 1 $\pm$ 2 $\to$ 3 \\"
    assert as_markdown(table) == "**t**\n\n| n\\_ame | v |\n| :-- | --: |\n| \\[a\\] \\| b | 1 ± 2 → 3 |\n"


def test_latex_says_the_names_of_scores_and_sets_numbers() -> None:
    rows = [("-a_gap", "-25.2 [-31.0, +0.5]", "1.014e-05")]
    table = ShownTable("t", ("id", "mean avh", "angular_gap"), rows, "by avh_relative of my_run", 1, {})
    lines = as_latex(table).splitlines()
    assert lines[2] == r"\caption{by AVH $\times$ classes of my\_run}" and lines[5] == r"id & mean AVH & angular gap \\"
    assert lines[7] == r"-a\_gap & $-$25.2 [$-$31.0, +0.5] & $1.014 \times 10^{-5}$ \\"


@pytest.mark.slow
def test_latex_compiles(photos: Path, cli: Cli, tmp_path: Path) -> None:
    """Hostile cells, and what `score --table` and `correlate -o` write."""
    compiler = shutil.which("tectonic") or shutil.which("pdflatex")
    if compiler is None:
        pytest.skip("there is no TeX here: install tectonic or pdflatex, as make nightly does where it may")
    cells = [("a_b & 50 %", "1 ± 2"), ("[~^\\{}] <|>", "→ … × –")]
    body = as_latex(ShownTable("t", ("na#me", "$"), cells, "100 % of_all", 1, {"model": "x_1"}))
    np.save(tmp_path / "human.npy", np.linspace(0, 1, 40))
    agreement = ("--human", tmp_path / "human.npy", "--replicates", 20, "--permutations", 20, "-o", tmp_path / "agreement")
    for words in (("score", photos, "--table", tmp_path / "hardest.tex"), ("correlate", photos, *agreement)):
        done = cli(*words)
        assert done.code == 0, done.err
    written = (tmp_path / "hardest.tex", *sorted((tmp_path / "agreement").glob("*.tex")))
    assert len(written) == 3
    body += "\n".join(path.read_text(encoding="utf-8") for path in written)
    (tmp_path / "t.tex").write_text(f"\\documentclass{{article}}\\begin{{document}}\n{body}\\end{{document}}\n", encoding="utf-8")
    done = subprocess.run(
        [compiler, "t.tex"], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and (tmp_path / "t.pdf").is_file(), done.stdout[-2000:]


def test_figures_beside_png(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1, 1))
    figure.add_subplot().plot([0, 1])
    assert save_figure(figure, tmp_path / "a.png") == [tmp_path / "a.png"]
    with figures_as("svg,pdf"):
        paths = save_figure(figure, tmp_path / "b.1.png")
        before = [path.read_bytes() for path in paths]
    assert [path.name for path in paths] == ["b.1.png", "b.1.svg", "b.1.pdf"]
    assert [data[:4] for data in before] == [b"\x89PNG", b"<?xm", b"%PDF"]
    with figures_as("svg"):
        again = save_figure(figure, tmp_path / "b.1.png")  # replaces what is there
    assert before[:2] == [path.read_bytes() for path in again]  # without a date, the same bytes
    with pytest.raises(InputError, match="figures are written as png, pdf, svg, got 'gif'"), figures_as("gif"):
        pass


def test_each_method_can_be_told_from_the_others() -> None:
    from hardsight.render import domains

    rng = np.random.default_rng(0)
    rounds = {f"method {k}": rng.uniform(size=(3, 4)) for k in range(9)}
    lines = domains.accuracy_per_round(rounds, rng.uniform(size=3), "a to b").axes[0].lines[1:]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 9


def test_every_score_turned_to_hardness(photos: Path, tmp_path: Path) -> None:
    measured, turned = (score(photos, scores="avh,confidence,norm", hardness=turn) for turn in (False, True))
    assert turned.column("avh").equals(measured.column("avh"))
    assert turned.column("confidence").to_pylist() == [-value for value in measured.column("confidence").to_pylist()]
    assert json.loads(turned.schema.metadata[b"hardsight"])["as"] == "hardness"
    assert is_hardness(turned.schema) and not is_hardness(measured.schema)
    assert as_hardness(turned).equals(turned.table)  # twice does not flip it back
    first = [hardest(table, "confidence", 3).column("id").to_pylist() for table in (measured, turned)]
    assert first[0] == first[1]
    assert "hardest 10 by confidence (low is hard)" in repr(measured.hardest("confidence"))
    assert "hardest 10 by confidence (high is hard)" in repr(turned.hardest("confidence"))
    for ending in ("parquet", "csv", "json"):
        write_table(turned, tmp_path / f"scores.{ending}")
        read = read_scores(tmp_path / f"scores.{ending}")
        assert read.column_names == measured.column_names and not is_hardness(read.schema)
        assert read.column("confidence").to_pylist() == measured.column("confidence").to_pylist()
    assert (tmp_path / "scores.csv").read_text().splitlines()[0].endswith('"hard_end"')


def test_a_zero_stays_a_zero_and_nulls_stay() -> None:
    table = as_hardness(pa.table({"id": ["a", "b"], "confidence": pa.array([0.0, None], pa.float32()), "note": [1, 2]}))
    assert str(table.column("confidence")[0].as_py()) == "0.0" and table.column("confidence").null_count == 1
    assert table.column("note").to_pylist() == [1, 2] and hard_end(table.schema, "confidence") == "high"


@pytest.mark.usefixtures("no_page")
@pytest.mark.parametrize("command", ["select", "curriculum", "correlate", "audit"])
def test_commands_know_a_table_of_hardness(cli: Cli, photos: Path, tmp_path: Path, command: str) -> None:
    """What they make of it is what they make of the table as it was measured."""
    options = {
        "select": ["--budget", "5", "--method", "hardest", "--by", "confidence", "-o", "OUT"],
        "curriculum": ["--by", "confidence", "--epochs", "3", "-o", "OUT"],
        "correlate": ["--against", "avh", "--scores", "confidence", "--replicates", "20", "--permutations", "20"],
        "audit": ["--group", "site", "--by", "confidence", "-o", "OUT"],
    }[command]
    said = []
    for view in ([], ["--as", "hardness"]):
        source, out = tmp_path / f"table{len(view)}.csv", tmp_path / f"out{len(view)}.csv"
        assert cli("score", photos, "-o", source, *view).code == 0
        if command == "audit":
            source.write_text(
                "\n".join(f"{line},{'site' if at == 0 else at % 2}" for at, line in enumerate(source.read_text().splitlines()))
            )
        done = cli(command, source, *[str(out) if word == "OUT" else word for word in options], "--json")
        assert done.code == 0, done.err
        document = json.loads(done.out)
        said.append((document["tables"], out.read_text() if out.exists() else ""))
    assert str(said[0]).replace("table0", "table2") == str(said[1])
