"""The public names, and what importing them costs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hardsight
from hardsight.scores import SCORES


def test_all_is_sorted_and_every_name_is_there() -> None:
    assert hardsight.__all__ == sorted(hardsight.__all__)
    assert len(set(hardsight.__all__)) == len(hardsight.__all__)
    for name in hardsight.__all__:
        assert getattr(hardsight, name) is not None
    assert dir(hardsight) == hardsight.__all__


def test_every_score_is_public() -> None:
    assert set(SCORES) <= set(hardsight.__all__)


def test_what_type_checkers_see_is_what_there_is() -> None:
    source = Path(hardsight.__file__).read_text(encoding="utf-8")
    checked = source.split("if TYPE_CHECKING:")[1].split("def __getattr__")[0]
    imported = re.findall(r"\b([A-Za-z_]\w*)\b(?=[,\n)])", re.sub(r"from \S+ import", "", checked))
    assert sorted(set(imported) | {"__version__"}) == hardsight.__all__


def test_unknown_names_are_refused() -> None:
    try:
        hardsight.hardness  # noqa: B018
    except AttributeError as error:
        assert "hardness" in str(error)
    else:
        raise AssertionError


def test_scoring_arrays_never_imports_torch(fresh_python: Callable[..., Any]) -> None:
    done = fresh_python(
        "import sys, numpy as np, hardsight\n"
        "table = hardsight.score(np.eye(4), np.eye(4), [0, 1, 2, 3], scores='all')\n"
        "hardsight.avh(np.eye(4), np.eye(4), [0, 1, 2, 3])\n"
        "hardsight.hardest(table)\n"
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
    done = fresh_python(
        "import sys, hardsight; print([m for m in ('torch', 'pyarrow', 'sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    assert done.out == "[]\n"
