"""Pages of the site that are not Markdown of docs/: README and the like, papers/, notebooks, the API (a hook of mkdocs.yml)."""

from __future__ import annotations

import importlib
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

import hardsight
from hardsight.scores import SCORES

ROOT = Path(__file__).resolve().parents[1]
TOP = {  # file at the top of the tree -> page
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
PAPERS = ROOT / "papers" / "docs"  # shown below papers/
LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s:]+)(?=[)#])")


def public_modules() -> list[str]:
    """hardsight and everything below it that has an `__all__`: rooms, and modules that write one down."""
    package = Path(hardsight.__file__).parent
    rooms = sorted(path.parent.name for path in package.glob("*/__init__.py"))
    modules = sorted(path.stem for path in package.glob("*.py") if "\n__all__ = [" in path.read_text(encoding="utf-8"))
    found = [f"hardsight.{name}" for name in rooms + modules if name != "__init__"]
    return ["hardsight", *(name for name in found if getattr(importlib.import_module(name), "__all__", None))]


def links(text: str, config: Any, *, folder: str, page: str = "index.md") -> str:
    """`text` of a file in `folder`, shown as `page`: links lead to pages of the site if there are any, else to the repository."""

    def on_site(link: re.Match[str]) -> str:
        path = (ROOT / folder / link["target"]).resolve().relative_to(ROOT)
        shown = site_path(path)
        if shown is None:
            return f"{config.repo_url}/blob/main/{path.as_posix()}"
        return posixpath.relpath(shown, posixpath.dirname(page) or ".")

    return LINK.sub(on_site, text)


def site_path(path: Path) -> str | None:
    """Where the site shows a file of the repository; None for one that it does not show."""
    if str(path) in TOP:
        return TOP[str(path)]
    if path.suffix not in (".md", ".png", ".ipynb", ".csv"):
        return None
    if path.is_relative_to("docs"):
        return path.relative_to("docs").as_posix()
    return f"papers/{path.relative_to('papers/docs').as_posix()}" if path.is_relative_to("papers/docs") else None


def reference(module: str) -> str:
    """The API page of a module: every name of its `__all__`; scores have a page of their own."""
    public = importlib.import_module(module)
    names = [name for name in public.__all__ if name not in (*SCORES, "__version__")]
    scores = "Each score is also a function of this module: [the scores](../scores.md).\n\n" if module == "hardsight" else ""
    return f"# {module}\n\n{scores}" + "\n\n".join(f"::: {module}.{name}" for name in names) + "\n"


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: its text, and its code in blocks. Outputs are not kept in the repository."""
    parts = [f"[Download this notebook]({path.name}) and run it in JupyterLab.\n"]
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(f"```python\n{source}\n```\n" if cell["cell_type"] == "code" else f"{source}\n")
    parts[:2] = [parts[1], parts[0]]  # the title first
    return "\n".join(parts)


def on_files(files: Any, config: Any) -> Any:
    """The pages made here, beside those of docs/."""
    for source, page in TOP.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=links(text, config, folder=".")))
    for path in sorted((ROOT / "docs").glob("*.ipynb")):
        text = links(notebook_page(path), config, folder="docs")
        files.append(File.generated(config, f"{path.stem}.md", content=text))
    for path in sorted(PAPERS.rglob("*")):
        page = f"papers/{path.relative_to(PAPERS).as_posix()}"
        if path.suffix == ".md":
            text = links(path.read_text(encoding="utf-8"), config, folder="papers/docs", page=page)
            files.append(File.generated(config, page, content=text))
        elif path.suffix == ".png":
            files.append(File.generated(config, page, abs_src_path=str(path)))
    for module in public_modules():
        page = f"api/{module.removeprefix('hardsight.')}.md"
        files.append(File.generated(config, page, content=reference(module)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links of docs/ that point out of it, such as `../README.md`."""
    return markdown if page.file.generated_by else links(markdown, config, folder="docs", page=page.file.src_uri)
