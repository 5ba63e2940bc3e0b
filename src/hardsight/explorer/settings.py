"""Options of `hardsight explore` and `hardsight report`, each defined once."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardsight.errors import InputError
from hardsight.options import OpeningOptions, common, option


def _names(texts: Iterable[str]) -> tuple[str, ...]:
    """NAME:PORT, each as in the browser's address bar."""
    names = tuple(texts)
    for name in names:
        if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}", name):
            raise InputError(f"--allowed-host must be NAME:PORT as shown in the browser's address bar, got {name!r}.")
    return names


def _data(images: Any) -> str:
    """What leads to images is named: it is written into the commands that show the same page again."""
    if isinstance(images, (str, os.PathLike)):
        return os.fspath(images)
    raise InputError(
        f"images must be a folder or any data that extract takes, by its path or name, got {type(images).__name__}. An array of "
        "uint8 goes in a file, one image per row: np.save('images.npy', array), then images='images.npy'."
    )


@dataclass(frozen=True)
class ReportSettings(OpeningOptions):
    """What to show of samples."""

    images: str | None = option(
        None,
        "Images, if the run does not record where they are: a folder, or any DATA that extract takes.",
        metavar="DATA",
        read=_data,
    )
    human: Path | None = common("human", read=Path)
    allow_missing: bool = common("allow_missing")
    subset: Path | None = option(
        None, "Subset to filter by, as hardsight select writes it. Default: subset.parquet of the run.", metavar="FILE", read=Path
    )
    audit: Path | None = option(
        None, "Groups to filter by, as hardsight audit writes them. Default: audit.parquet of the run.", metavar="FILE", read=Path
    )
    drift: Path | None = option(
        None, "Drift to filter by, as hardsight drift writes it. Default: drift.parquet of the run.", metavar="FILE", read=Path
    )
    split: str | None = option(None, "Split to show; of a run with dynamics, as of the last epoch, such as a watched test set.")


@dataclass(frozen=True)
class ExploreSettings(ReportSettings):
    """What to show, and who may see it."""

    port: int | None = option(
        None, "Port of the page; the next free one if it is taken. Default: from 8321.", least=0, most=65535
    )
    read_only: bool = option(False, "Do not save anything, neither marks nor scores.")
    host: str = option("127.0.0.1", "Address to listen on; other machines need --allow-remote.")
    allow_remote: bool = option(
        False, "Allow connections from other machines. Anyone with the address and its token sees everything."
    )
    allowed_hosts: tuple[str, ...] = option(
        (),
        "Additional host name of the page, behind ssh -L or a proxy; repeatable.",
        flag="--allowed-host",
        metavar="NAME:PORT",
        repeat=True,
        read=_names,
    )

    def check(self) -> None:
        """A remote host also needs allow_remote."""
        super().check()
        if self.remote and not self.allow_remote:
            raise InputError(
                f"--host {self.host} would let other machines connect. Use ssh -L from there, or add --allow-remote to allow it."
            )

    @property
    def remote(self) -> bool:
        """Whether other machines can reach the host."""
        try:
            return self.host != "localhost" and not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return True

    @property
    def every_address(self) -> bool:
        """Whether the host stands for all addresses of this machine."""
        return self.host in ("0.0.0.0", "::")
