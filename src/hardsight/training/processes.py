"""What several processes of one training tell each other: features and sums. Alone, each returns what it got."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hardsight.dynamics.gathering import collected, num_processes, rank, row_counts


def part() -> None:
    """Say goodbye, where there was anybody else: the last thing that a command does."""
    if num_processes() > 1:
        dist.destroy_process_group()


def shared(module: nn.Module, device: torch.device) -> nn.Module:
    """A module whose gradients are averaged over the processes; alone, the module itself."""
    if num_processes() == 1:
        return module
    return nn.parallel.DistributedDataParallel(module, device_ids=[device] if device.type == "cuda" else None)


def gathered(features: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """(b, d) features and (b,) integers of each process -> those of all, in the order of the processes.

    The gradient flows back to the process that a feature came from, so that averaging the processes' gradients, as
    DistributedDataParallel does, gives the gradient of the one loss.
    """
    if num_processes() == 1:
        return features, *others
    counts = row_counts(len(features), features.device)
    whole: Tensor = _Gather.apply(features, counts)  # type: ignore[no-untyped-call]
    return whole, *(torch.cat(collected(x, counts)) for x in others)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, counts: list[int]) -> Tensor:
        ctx.counts = counts
        return torch.cat(collected(features, counts))

    @staticmethod
    def backward(ctx: Any, *by_whole: Tensor) -> tuple[Tensor, None]:
        total = by_whole[0].contiguous().clone()
        dist.all_reduce(total)  # each process has computed the loss once: the sum is divided again with the gradients
        start = sum(ctx.counts[: rank()])
        return total[start : start + ctx.counts[rank()]], None


def summed(values: dict[str, float], device: torch.device) -> dict[str, float]:
    """The sums of all processes, key by key."""
    if num_processes() == 1:
        return values
    wide = torch.float32 if device.type == "mps" else torch.float64
    total = torch.tensor([values[key] for key in sorted(values)], dtype=wide, device=device)
    dist.all_reduce(total)
    return dict(zip(sorted(values), total.tolist(), strict=True))


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
