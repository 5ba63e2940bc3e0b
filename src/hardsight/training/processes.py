"""What several processes of one training tell each other: features, sums and tables. Alone, each returns what it got.

Tables travel as Arrow bytes; nothing is pickled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import torch
import torch.distributed as dist
from torch import Tensor, nn


def num_processes() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if num_processes() > 1 else 0


def part() -> None:
    """Say goodbye, where there was anybody else: the last thing that a command does."""
    if num_processes() > 1:
        dist.destroy_process_group()


def gathered(features: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """(b, d) features and (b,) integers of each process -> those of all, in the order of the processes.

    The gradient flows back to the process that a feature came from, so that averaging the processes' gradients, as
    DistributedDataParallel does, gives the gradient of the one loss.
    """
    if num_processes() == 1:
        return features, *others
    counts = _counts(len(features), features.device)
    whole: Tensor = _Gather.apply(features, counts)  # type: ignore[no-untyped-call]
    return whole, *(torch.cat(_collected(x, counts)) for x in others)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, counts: list[int]) -> Tensor:
        ctx.counts = counts
        return torch.cat(_collected(features, counts))

    @staticmethod
    def backward(ctx: Any, *by_whole: Tensor) -> tuple[Tensor, None]:
        total = by_whole[0].contiguous().clone()
        dist.all_reduce(total)  # each process has computed the loss once: the sum is divided again with the gradients
        start = sum(ctx.counts[: rank()])
        return total[start : start + ctx.counts[rank()]], None


def _counts(count: int, device: torch.device) -> list[int]:
    each = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(num_processes())]
    dist.all_gather(each, torch.tensor([count], device=device))
    return [int(one) for one in each]


def _collected(x: Tensor, counts: list[int]) -> list[Tensor]:
    """Each process's tensor, however many rows it has."""
    room = x.new_zeros((max(counts), *x.shape[1:]))
    room[: len(x)] = x
    each = [torch.empty_like(room) for _ in counts]
    dist.all_gather(each, room)
    return [one[:count] for one, count in zip(each, counts, strict=True)]


def summed(values: dict[str, float], device: torch.device) -> dict[str, float]:
    """The sums of all processes, key by key."""
    if num_processes() == 1:
        return values
    wide = torch.float32 if device.type == "mps" else torch.float64
    total = torch.tensor([values[key] for key in sorted(values)], dtype=wide, device=device)
    dist.all_reduce(total)
    return dict(zip(sorted(values), total.tolist(), strict=True))


def gathered_tables(table: pa.Table, device: torch.device) -> list[pa.Table] | None:
    """Every process's table on the first one, None on the others."""
    contents = _gathered_bytes(_as_bytes(table), device)
    return [pa.ipc.open_stream(one).read_all() for one in contents] if rank() == 0 else None


def _as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _gathered_bytes(content: bytes, device: torch.device) -> list[bytes]:
    x = torch.from_numpy(np.frombuffer(content, np.uint8).copy()).to(device)
    if num_processes() == 1:
        return [content]
    return [one.cpu().numpy().tobytes() for one in _collected(x, _counts(len(x), device))]


def same_buffers(module: nn.Module) -> None:
    """Buffers as the first process has them: batch statistics have drifted apart since they were last made one."""
    if num_processes() > 1:
        for buffer in module.buffers():
            dist.broadcast(buffer, 0)


def told_by_first(value: int, device: torch.device) -> int:
    """A number that the first process decides for all."""
    if num_processes() == 1:
        return value
    told = torch.tensor([value], device=device)
    dist.broadcast(told, 0)
    return int(told)
