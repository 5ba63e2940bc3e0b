"""The tutorials of docs/, executed cell after cell.

`make test` runs all four in this process: a kernel takes seconds to start. The nightly run has them in a kernel of Jupyter, as a
person would run them.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from doc_blocks import ROOT
from real_data import DATA, real

nbformat = pytest.importorskip("nbformat", reason="the notebooks need Jupyter: pip install nbclient ipykernel")
nbclient = pytest.importorskip("nbclient", reason="the notebooks need Jupyter: pip install nbclient ipykernel")

NOTEBOOKS = sorted((ROOT / "docs").glob("tutorial-*.ipynb"))
WIDGET = "application/vnd.jupyter.widget-view+json"
NEEDED_BY = {"hardsight.extract(": "torch", "hardsight.explore(": "anywidget", ".to_pandas(": "pandas"}  # besides imports


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
        assert installs(code[0]) and not any(map(installs, code[1:])), f"{path.name} must begin with pip install, for Colab"


def installs(cell: Any) -> bool:
    """Whether a cell sets up the environment, which is there when tests run."""
    return cell.source.startswith("%pip install ")


def brought(line: str) -> set[str]:
    """The packages that a `%pip install` line leaves behind, by the requirements of those installed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting, seen = [Requirement(word) for word in shlex.split(line)[3:]], set[str]()
    while waiting:
        package = waiting.pop()
        if str(package) in seen:
            continue
        seen.add(str(package))
        if package.name == "hardsight":
            own = [needed for extra in package.extras for needed in project["optional-dependencies"][extra]]
            waiting += map(Requirement, project["dependencies"] + own)
        else:
            with contextlib.suppress(metadata.PackageNotFoundError):  # of another system, or not installed here
                needed = map(Requirement, metadata.requires(package.name) or [])
                waiting += [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return {Requirement(package).name.lower().replace("-", "_") for package in seen}


def used(code: str) -> set[str]:
    """The packages that code needs: those that it imports, and those of the calls that need an optional one."""
    tree = list(ast.walk(ast.parse(code)))
    modules = {alias.name for node in tree if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in tree if isinstance(node, ast.ImportFrom) and node.module}
    modules |= {module for call, module in NEEDED_BY.items() if call in code}
    owners = metadata.packages_distributions()
    outside = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    return {owners.get(module, [module])[0].lower().replace("-", "_") for module in outside}


def shown(cell: Any) -> str:
    """All that a cell put up, as HTML where it has some; of a widget, the type of its view."""
    parts = [output.get("text") or output.get("data", {}) for output in cell.outputs]
    return "\n".join(part if isinstance(part, str) else WIDGET if WIDGET in part else hypertext(part) for part in parts)


def hypertext(part: dict[str, str]) -> str:
    return part.get("text/html", part.get("text/plain", ""))


def told_by_a_kernel(name: str, folder: Path) -> list[str]:
    """What each cell of a tutorial puts up when a kernel runs them in an empty folder; an error of any is an error here."""
    notebook = nbformat.read(ROOT / "docs" / f"tutorial-{name}.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if not installs(cell)]
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return [shown(cell) for cell in notebook.cells if cell.cell_type == "code"]


def told_here(name: str) -> list[str]:
    """The same of one tutorial, in this process: what each cell prints and what its last expression shows."""
    notebook, held, texts = nbformat.read(ROOT / "docs" / f"tutorial-{name}.ipynb", as_version=4), dict[str, Any](), []
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code" and not installs(cell)):
        body, printed = ast.parse(cell.source).body, io.StringIO()
        last = body.pop() if isinstance(body[-1], ast.Expr) and not cell.source.rstrip().endswith(";") else None
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module(body, []), name, "exec"), held)
            if (
                isinstance(last, ast.Expr)
                and (value := eval(compile(ast.Expression(last.value), name, "eval"), held)) is not None
            ):
                printed.write(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
        texts += [printed.getvalue()] if printed.getvalue() else []
    return texts


def of_a_data_frame(texts: list[str]) -> None:
    assert any("700 samples" in text and "scan-" in text for text in texts)
    assert any(text.count("<img") == 10 for text in texts)
    audit = next(text for text in texts if "accuracy_low" in text)
    assert "harder" in audit  # the noisy scanner
    assert texts[-1] == "(100, 66)"


def of_a_folder(texts: list[str]) -> None:
    table = next(text for text in texts if "300 samples" in text and "<table" in text)
    assert table.count("<img") == 10 and "hardest 10 by avh" in table and "digit " in table
    (line,) = [text for text in texts if "labels flagged" in text]
    assert int(line.split()[3]) >= 8, line  # of the ten that were moved
    assert any("report: hardsight-digits-wrong-run" in text for text in texts)
    assert any("300 rows" in text for text in texts)  # nothing is selected: all are
    assert any("CorrectedLabels: 300 samples: 0 labels changed" in text for text in texts)


def of_hugging_face_data(texts: list[str]) -> None:
    table = next(text for text in texts if "hardest 10 by avh" in text)
    assert table.count("<img") == 10 and any(name in table for name in ("eight", "nine", "three"))
    assert texts[-1].startswith("(500, ")


def of_cifar10h(texts: list[str], images: int) -> None:
    table = next(text for text in texts if f"{images} samples" in text and "<table" in text)
    accuracy = re.search(r"accuracy ([\d.]+) %", table)
    assert table.count("<img") == 10 and accuracy is not None and float(accuracy[1]) > 80
    agreement = next(text for text in texts if "Correlations: " in text and "<table" in text)
    assert re.search(rf">cifar10-run<.*?>avh<.*?>{images}<", agreement)


@pytest.fixture
def images_of_cifar(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """How many images of CIFAR-10H the tutorial takes."""
    for name in ("cifar10_test.npz", "cifar10h_counts.npy", "cifar10_resnet20.safetensors"):
        real(name)
    monkeypatch.setenv("HARDSIGHT_DATA", os.fspath(DATA))
    return lambda count: monkeypatch.setenv("LIMIT", str(count))


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "dataframe": of_a_data_frame,
    "folder": of_a_folder,
    "huggingface": of_hugging_face_data,
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, where everything that the tutorials import is installed."""
    pytest.importorskip("torch")
    pytest.importorskip("datasets").disable_progress_bars()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore:Specifying null_placement:FutureWarning")  # of datasets, in its own sort
@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CHECKS)
def test_a_tutorial(here: Path, name: str, kernel: bool) -> None:
    texts = told_by_a_kernel(name, here) if kernel else told_here(name)
    CHECKS[name](texts)
    if name == "folder":  # the page is in the notebook; without one, there is its address
        assert any(text.startswith(WIDGET if kernel else "hardsight is at http://") for text in texts)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_tutorial_installs_what_its_cells_use(path: Path) -> None:
    install, *cells = (cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    assert used("\n".join(cells)) - brought(install) == set()


def test_what_a_line_installs() -> None:
    assert brought("%pip install -q 'hardsight[notebook]'") >= {"hardsight", "anywidget", "ipywidgets", "numpy"}
    assert not {"torch", "anywidget", "pandas"} & brought("%pip install -q hardsight")
    assert used("import os, pandas.api\nhardsight.explore(run)") == {"pandas", "anywidget"}


@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_cifar10h(here: Path, images_of_cifar: Callable[[int], None], kernel: bool) -> None:
    images_of_cifar(images := 500 if kernel else 100)
    of_cifar10h(told_by_a_kernel("cifar10h", here) if kernel else told_here("cifar10h"), images)
