"""Whether weights that a library would fetch can be had: on this machine already, or over the network."""

from __future__ import annotations

import os
import socket
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from hardsight.errors import InputError


def check_reachable(library: str, name: str) -> None:
    """Refuse a model whose weights are not here where there is no network: the libraries would try for a minute."""
    if library == "hf" and Path(name).exists():
        return
    host = "download.pytorch.org" if library == "torchvision" else _hub()
    if not _is_kept(library, name) and not _is_known(host):
        instead = "give hf:DIRECTORY" if library == "hf" else "give --weights FILE"
        raise InputError(f"{library}:{name}: its weights are not on this machine, and {host} cannot be reached: {instead}.")


def _hub() -> str:
    return urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co").hostname or "huggingface.co"


def _is_kept(library: str, name: str) -> bool:
    """Whether the library's cache holds anything of this name; which of it is needed, the library knows."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if library == "torchvision":
        checkpoints = Path(os.environ.get("TORCH_HOME") or caches / "torch") / "hub" / "checkpoints"
        return any(checkpoints.glob(f"{name}-*"))
    home = Path(os.environ.get("HF_HOME") or caches / "huggingface")
    models = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    own = name.partition(":")[2] or name  # timm:hf_hub:owner/name
    pattern = f"models--{own.replace('/', '--')}" if "/" in own or library == "hf" else f"models--timm--{own.partition('.')[0]}*"
    return any(models.glob(pattern))


def _is_known(host: str) -> bool:
    """Whether the name of the host is found; behind a proxy, the proxy looks it up."""
    if urllib.request.getproxies():
        return True
    try:
        return bool(socket.getaddrinfo(host, 443))
    except OSError:
        return False
