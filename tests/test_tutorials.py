"""The tutorials of docs/ are executed as a person would run them: in a kernel of Jupyter, cell after cell."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doc_blocks import ROOT
from real_data import DATA, real

nbformat = pytest.importorskip("nbformat", reason="the notebooks need Jupyter: pip install nbclient ipykernel")
nbclient = pytest.importorskip("nbclient", reason="the notebooks need Jupyter: pip install nbclient ipykernel")

NOTEBOOKS = sorted((ROOT / "docs").glob("tutorial-*.ipynb"))
ON_THE_WAY = (
    "import os, shutil\nfor name in os.listdir(): shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)\n%reset -f"
)


def test_the_four_are_there_without_outputs() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "tutorial-cifar10h", "tutorial-dataframe", "tutorial-folder", "tutorial-huggingface",
    ]  # fmt: skip
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert all(cell.outputs == [] and cell.execution_count is None for cell in code), f"{path.name} holds outputs"
        assert notebook.cells[0].source.startswith("# ")
        assert json.dumps(json.loads(path.read_text(encoding="utf-8")), indent=1, ensure_ascii=False, sort_keys=True) + "\n" == (
            path.read_text(encoding="utf-8")
        ), f"{path.name}: written in another way than the others"


def executed(cells: list[Any], folder: Path) -> list[Any]:
    """The cells after a kernel ran them in an empty folder; an error of any is an error here."""
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    client.execute()
    return list(notebook.cells)


def shown(cell: Any) -> str:
    """All that a cell put up, as HTML where it has some."""
    parts = [output.get("text") or output.get("data", {}) for output in cell.outputs]
    return "\n".join(part if isinstance(part, str) else part.get("text/html", part.get("text/plain", "")) for part in parts)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """What each cell of the three that need no data of yours puts up; one kernel runs them, and forgets in between."""
    pytest.importorskip("torch")
    pytest.importorskip("datasets")
    cells, names = [], []
    for path in NOTEBOOKS:
        if path.stem == "tutorial-cifar10h":
            continue
        code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        cells += [*code, nbformat.v4.new_code_cell(ON_THE_WAY)]
        names += [path.stem] * len(code) + [""]
    done = executed(cells, tmp_path_factory.mktemp("tutorials"))
    yield {name: [shown(cell) for cell, of in zip(done, names, strict=True) if of == name] for name in set(names)}


def test_a_folder_and_a_model(outputs: dict[str, list[str]]) -> None:
    told = outputs["tutorial-folder"]
    table = next(text for text in told if "600 samples" in text)
    assert table.count("<img") == 10 and "hardest 10 by avh" in table and "digit " in table
    (line,) = [text for text in told if "labels flagged" in text]
    assert int(line.split()[3]) >= 8, line  # of the ten that were moved
    assert any("<iframe" in text or "hardsight explore" in text for text in told)
    assert any("of 600" in text or "600 rows" in text for text in told)


def test_a_data_frame(outputs: dict[str, list[str]]) -> None:
    told = outputs["tutorial-dataframe"]
    assert any("1,797 samples" in text and "scan-" in text for text in told)
    assert any(text.count("<img") == 10 for text in told)
    audit = next(text for text in told if "accuracy_low" in text)
    assert "less accurate" in audit
    assert told[-1] == "(300, 66)"


def test_hugging_face_data(outputs: dict[str, list[str]]) -> None:
    told = outputs["tutorial-huggingface"]
    table = next(text for text in told if "hardest 10 by avh" in text)
    assert table.count("<img") == 10 and any(name in table for name in ("eight", "nine", "three"))
    assert told[-1].startswith("(500, ")


@pytest.mark.slow
def test_cifar10h(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    for name in ("cifar10_test.npz", "cifar10h_counts.npy", "cifar10_resnet20.safetensors"):
        real(name)
    monkeypatch.setenv("HARDSIGHT_DATA", os.fspath(DATA))
    monkeypatch.setenv("LIMIT", "500")
    (path,) = [path for path in NOTEBOOKS if path.stem == "tutorial-cifar10h"]
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    told = [shown(cell) for cell in executed(cells, tmp_path)]
    table = next(text for text in told if "500 samples" in text and "<table" in text)
    assert table.count("<img") == 10 and "accuracy 9" in table
    assert any(text.startswith("Correlations: cifar10-run, 500 samples") for text in told)
