"""Whether the Hugging Face hub can be reached: where it cannot, timm and transformers would retry for a minute."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from hardsight.errors import InputError


def check_hub(spec: str, repositories: str, instead: str) -> None:
    """Refuse a model that is neither in the hub's cache nor to be had over the network.

    Args:
        spec: what the user calls it.
        repositories: owner/name on the hub, or a pattern of them.
        instead: what to do without a network.
    """
    from huggingface_hub import constants

    host = urlsplit(constants.ENDPOINT).hostname or constants.ENDPOINT
    cached = Path(constants.HF_HUB_CACHE).glob(f"models--{repositories.replace('/', '--')}")
    if not any(cached) and not _is_known(host):
        raise InputError(f"{spec}: its weights are not on this machine, and {host} cannot be reached: {instead}.")


def _is_known(host: str) -> bool:
    """Whether the name of the host is found; behind a proxy, the proxy looks it up."""
    if urllib.request.getproxies():
        return True
    try:
        return bool(socket.getaddrinfo(host, 443))
    except OSError:
        return False
