"""Gather the tables of several processes on the first one, as Arrow bytes, without pickle."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch
import torch.distributed as dist
from torch import Tensor


def num_processes() -> int:
    """Number of processes in the distributed group; 1 without one."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Rank of this process; 0 without a distributed group."""
    return dist.get_rank() if num_processes() > 1 else 0


def row_counts(count: int, device: torch.device) -> list[int]:
    """Number of rows in each process."""
    each = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(num_processes())]
    dist.all_gather(each, torch.tensor([count], device=device))
    return [int(number) for number in each]


def collected(x: Tensor, counts: list[int]) -> list[Tensor]:
    """The tensor of each process; the numbers of rows may differ."""
    room = x.new_zeros((max(counts), *x.shape[1:]))
    room[: len(x)] = x
    each = [torch.empty_like(room) for _ in counts]
    dist.all_gather(each, room)
    return [part[:count] for part, count in zip(each, counts, strict=True)]


def gathered_tables(table: pa.Table, device: torch.device) -> list[pa.Table] | None:
    """The tables of all processes on the first one, None on the others."""
    if num_processes() == 1:
        return [table]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    x = torch.from_numpy(np.frombuffer(sink.getvalue(), np.uint8).copy()).to(device)
    parts = collected(x, row_counts(len(x), device))
    return [pa.ipc.open_stream(part.cpu().numpy().tobytes()).read_all() for part in parts] if rank() == 0 else None
