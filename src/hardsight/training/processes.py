"""Communication between the processes of one training: features, gradients and sums. A single process gets its own back.

`hardsight train` wraps its network in DistributedDataParallel. In adapt and generalize, which train many networks one after
the other, each process takes its share of every batch, `Updater` averages the gradients, `forward_pass` brings the results
of all together, and one process writes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from hardsight.dynamics.gathering import collected, num_processes, rank, row_counts
from hardsight.errors import require_installed
from hardsight.files.writing import discarding
from hardsight.models.network import torch_device


def launched() -> bool:
    """Whether torchrun, accelerate launch or their like started several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def join(device: str) -> torch.device:
    """The device of this process; if a launcher started several, it joins them."""
    chosen = torch_device(device)
    if not launched():
        return chosen
    require_installed("accelerate", extra="torch", purpose="several processes")
    from accelerate import Accelerator

    return Accelerator(cpu=chosen.type == "cpu").device


@contextlib.contextmanager
def one_writes() -> Iterator[None]:
    """The first process writes; what the others write is discarded. At the end, all wait for it."""
    with contextlib.nullcontext() if is_first() else discarding():
        yield
    wait()


def is_first() -> bool:
    """Whether this is the process that writes and prints."""
    return rank() == 0


def by_first(say: Callable[[str], None]) -> Callable[[str], None]:
    """Messages for the user, from the first process only."""
    return say if is_first() else lambda sentence: None


def wait() -> None:
    """Wait for all processes."""
    if num_processes() > 1:
        dist.barrier()


def leave() -> bool:
    """Leave the process group, if there is one, at the end of a command; whether this is the process that prints."""
    first = is_first()
    if num_processes() > 1:
        dist.destroy_process_group()
    return first


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


def same_in_all(tensors: Iterable[Tensor]) -> None:
    """Copy the tensors of the first process to all, such as batch statistics, which differ between processes."""
    if num_processes() > 1:
        for tensor in tensors:
            dist.broadcast(tensor.data, 0)


def decided_by_first(value: int, device: torch.device) -> int:
    """A number that the first process decides for all."""
    if num_processes() == 1:
        return value
    decided = torch.tensor([value], device=device)
    dist.broadcast(decided, 0)
    return int(decided)


def shares(batches: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Of each batch of rows, this process's share; all shares are of the same size, give or take one."""
    return [np.array_split(rows, num_processes())[rank()] for rows in batches]


def rows_of_all(rows: np.ndarray, values: Tensor | None, device: torch.device) -> tuple[np.ndarray, Tensor]:
    """(b,) rows and (b, d) values of each process, one that has none excepted -> those of all, in the order of the processes."""
    sizes = torch.tensor([len(rows), 0 if values is None else values.shape[1]], device=device)
    each = [torch.zeros_like(sizes) for _ in range(num_processes())]
    dist.all_gather(each, sizes)
    counts, width = [int(size[0]) for size in each], max(int(size[1]) for size in each)
    rows_here = torch.zeros((0, width), device=device) if values is None else values.float()
    numbers = torch.from_numpy(np.asarray(rows, np.int64)).to(device)
    return torch.cat(collected(numbers, counts)).cpu().numpy(), torch.cat(collected(rows_here, counts))


def average_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """The mean over the processes, as DistributedDataParallel takes it, of the parameters that have a gradient."""
    if num_processes() == 1:
        return
    with_gradient = [p for p in parameters if p.grad is not None]  # the same ones in every process, as all compute one loss
    gradients = [p.grad for p in with_gradient if p.grad is not None]
    together = torch.cat([gradient.reshape(-1) for gradient in gradients])
    dist.all_reduce(together)
    parts = (together / num_processes()).split([gradient.numel() for gradient in gradients])
    for p, gradient in zip(with_gradient, parts, strict=True):
        p.grad = gradient.reshape(p.shape).to(p.dtype)
