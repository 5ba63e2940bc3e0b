"""Pages of the site that are no Markdown of docs/: the top of the tree, notebooks, public modules (a hook of mkdocs.yml)."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from hardsight.scores import SCORES

ROOT = Path(__file__).resolve().parents[1]
TOP = {  # file at the top of the tree -> page
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
MODULES = (
    "hardsight",
    "hardsight.training",
    "hardsight.domains.adaptation",
    "hardsight.domains.generalization",
    "hardsight.losses",
    "hardsight.stats",
)
LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s:]+)(?=[)#])")


def links(text: str, config: Any, *, folder: str) -> str:
    """`text` of a file in `folder`, with links that hold on the site: to pages where there are some, else to the repository."""

    def on_site(link: re.Match[str]) -> str:
        path = (ROOT / folder / link["target"]).resolve().relative_to(ROOT)
        if str(path) in TOP:
            return TOP[str(path)]
        if path.parts[0] == "docs" and path.suffix != ".py":
            return path.relative_to("docs").as_posix()
        return f"{config.repo_url}/blob/main/{path.as_posix()}"

    return LINK.sub(on_site, text)


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
    for module in MODULES:
        page = f"api/{module.removeprefix('hardsight.')}.md"
        files.append(File.generated(config, page, content=reference(module)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links of docs/ that point out of it, such as `../README.md`."""
    return markdown if page.file.generated_by else links(markdown, config, folder="docs")
