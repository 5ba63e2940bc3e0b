"""From the words of `hardsight explore` to a page that answers."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from hardsight.errors import InputError
from hardsight.explorer.comparing import compare
from hardsight.explorer.opening import Progress, open_sheet
from hardsight.explorer.pictures import Pictures
from hardsight.explorer.ports import listen
from hardsight.explorer.review import Review
from hardsight.explorer.security import Guard
from hardsight.explorer.server import Page, build, serve


@dataclass
class Started:
    """A server that is listening, and what to say about it."""

    guard: Guard
    socket: socket.socket
    address: str  # with the token
    pictures: Pictures
    notes: list[str] = field(default_factory=list)

    def run(self, browser: bool) -> None:
        """Answer until Ctrl-C; the address is printed when the first request would be answered."""

        def ready() -> None:
            print(f"hardsight is at {self.address}\nCtrl-C ends it.", flush=True)
            Thread(target=self.pictures.warm, daemon=True).start()
            if browser:
                Thread(target=webbrowser.open, args=(self.address,), daemon=True).start()

        serve(self.guard, self.socket, ready)


def start(
    run: str | Path,
    second: str | Path | None = None,
    *,
    port: int | None = None,
    read_only: bool = False,
    images: str | None = None,
    class_names: Path | None = None,
    human: Path | None = None,
    split: str | None = None,
    host: str = "127.0.0.1",
    allow_remote: bool = False,
    allowed_hosts: Sequence[str] = (),
    progress: Progress | None = None,
) -> Started:
    """Open what is to be shown, and a port to show it at."""
    _check_host(host, allow_remote)
    names = [_check_allowed(name) for name in allowed_hosts]
    sheet = open_sheet(run, class_names=class_names, human=human, split=split, keep=not read_only, progress=progress)
    other = None
    if second is not None:
        other = open_sheet(second, class_names=class_names, split=split, keep=not read_only, progress=progress)
        compare(sheet, other)
    notes = list(sheet.notes)
    writable = sheet.directory is not None and os.access(sheet.directory, os.W_OK)
    if not read_only and not writable:
        notes.append("Marks are not saved: only a run directory that can be written keeps a review.")
    file = None if sheet.directory is None else sheet.directory / "review.parquet"
    read_only = read_only or not writable
    pictures = Pictures(sheet, images)
    page = Page(sheet, pictures, Review(file, sheet.class_names), read_only, other)
    opened, moved = listen(host, port)
    number = opened.getsockname()[1]
    if not _is_loopback(host):
        notes.append("Other machines can connect: whoever has the address with its token sees the images and can mark them.")
        if not _is_any(host):
            names.append(f"[{host}]:{number}" if ":" in host else f"{host}:{number}")
    guard = build(page, number, names)
    shown = "127.0.0.1" if _is_any(host) else f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{number}/?token={guard.token}"
    return Started(guard, opened, address, pictures, [*([moved] if moved else []), *notes])


def _check_host(host: str, allow_remote: bool) -> None:
    if not _is_loopback(host) and not allow_remote:
        raise InputError(
            f"--host {host} would let other machines connect. Use ssh -L from there, or add --allow-remote if it is meant."
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_any(host: str) -> bool:
    return host in ("0.0.0.0", "::")


def _check_allowed(name: str) -> str:
    if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}", name):
        raise InputError(f"--allowed-host must be NAME:PORT as it stands in the browser's address bar, got {name!r}.")
    return name
