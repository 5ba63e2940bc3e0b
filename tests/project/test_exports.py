"""The public names, and what importing them costs."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hardsight
from doc_blocks import doc_script
from hardsight.scores import SCORES


def test_all_is_sorted_and_every_name_is_there() -> None:
    assert hardsight.__all__ == sorted(hardsight.__all__)
    assert set(SCORES) <= set(hardsight.scores.__all__) and len(hardsight.__all__) <= 30


@pytest.mark.parametrize("stub", sorted(Path(hardsight.__file__).parent.rglob("__init__.pyi")), ids=str)
def test_a_stub_says_what_there_is(stub: Path) -> None:
    """Editors read the stub, Python loads what it names: imports and a literal `__all__`, nothing else."""
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    package = importlib.import_module(".".join(stub.relative_to(Path(hardsight.__file__).parents[1]).parts[:-1]))
    (names,) = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)]
    assert names == package.__all__ == sorted(names)
    assert all(getattr(package, name) is not None for name in names)
    assert {type(node) for node in tree.body} <= {ast.ImportFrom, ast.Assign, ast.AnnAssign}


def test_the_options_of_verbs_are_those_of_their_settings() -> None:
    """`python docs/make_option_types.py > src/hardsight/option_types.pyi` writes them."""
    assert (
        Path(hardsight.__file__).with_name("option_types.pyi").read_text(encoding="utf-8")
        == doc_script("make_option_types").text()
    )


POSITIONAL = {
    "adapt": "source target output", "attack": "run output", "audit": "x group", "avh": "features head labels",
    "check": "x labels", "clean": "x labels", "correlate": "x human", "curriculum": "x", "drift": "a b", "explore": "x",
    "export": "x to output", "extract": "model data output", "generalize": "domains output", "mine": "x",
    "people": "x answers reference", "report": "x output", "score": "x head labels", "select": "x budget",
    "train": "data output", "verify": "path",
}  # fmt: skip


def test_verbs_take_all_but_their_data_by_keyword() -> None:
    verbs = {name: getattr(hardsight, name) for name in hardsight.__all__}
    signatures = {name: inspect.signature(verb) for name, verb in verbs.items() if inspect.isfunction(verb)}
    by_position = {
        name: " ".join(each.name for each in signature.parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD)
        for name, signature in signatures.items()
    }
    assert by_position == POSITIONAL


def test_scoring_arrays_never_imports_torch(fresh_python: Callable[..., Any]) -> None:
    done = fresh_python(
        "import sys, numpy as np, hardsight\n"
        "table = hardsight.score(np.eye(4), np.eye(4), [0, 1, 2, 3], scores='all')\n"
        "hardsight.avh(np.eye(4), np.eye(4), [0, 1, 2, 3])\n"
        "hardsight.table.hardest(table)\n"
        "print('torch' in sys.modules, 'matplotlib' in sys.modules, len(table))"
    )
    assert done.out == "False False 4\n", done.err


def test_scoring_works_where_torch_cannot_be_imported(fresh_python: Callable[..., Any], tmp_path: Path) -> None:
    done = fresh_python(
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np, hardsight\n"
        "hardsight.Snapshot(np.eye(3), np.eye(3), [0, 1, 2]).save('s.npz')\n"
        "print(len(hardsight.score('s.npz')))\n"
        "sys.argv = ['hardsight', 'demo', '-o', 'run']\n"
        "from hardsight.cli import main; main()".replace("'s.npz'", repr(str(tmp_path / "s.npz"))).replace(
            "'run'", repr(str(tmp_path / "run"))
        )
    )
    assert done.out == "3\n"
    assert done.code == 2 and done.err == "hardsight: the demo needs torch: pip install 'hardsight[torch]'\n"


def test_import_is_quick(fresh_python: Callable[..., Any]) -> None:
    """Under 0.3 s, measured inside: the best of up to twenty, for others may be busy on this machine."""
    code = "import time; start = time.perf_counter(); import hardsight; print(time.perf_counter() - start)"
    times: list[float] = []
    while not times or (min(times) >= 0.3 and len(times) < 20):
        times.append(float(fresh_python(code).out))
    assert min(times) < 0.3


def test_nothing_heavy_comes_with_the_import(fresh_python: Callable[..., Any]) -> None:
    heavy = (
        "torch",
        "torchmetrics",
        "pyarrow",
        "sklearn",
        "scipy",
        "pandas",
        "onnx",
        "onnxruntime",
        "timm",
        "transformers",
        "skops",
    )
    for room in ("hardsight", "hardsight.data, hardsight.models"):
        assert fresh_python(f"import sys, {room}; print([name for name in {heavy} if name in sys.modules])").out == "[]\n"
