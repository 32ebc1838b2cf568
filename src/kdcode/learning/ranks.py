"""Ranks: the processes that share one run, each with rows of its own, and what they add up and tell each other.

Every method is a collective: all ranks call it, from their main threads, in the same order. A rank alone has nobody to
talk to, and its methods give back what they are given; only several ranks need torch.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kdcode.cpus import available_cpus
from kdcode.errors import KdcodeError, LostRankError, OptionError

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

Value = TypeVar("Value")
Numbers = TypeVar("Numbers", bound="np.ndarray[Any, Any] | torch.Tensor")
"""An array or a tensor: ranks talk through torch.distributed, which shares the memory of arrays."""

_TIMEOUT = timedelta(minutes=30)
"""How long a rank waits for one that hangs. One that has ended is noticed at once, since its connection closes."""
_MEETING = timedelta(minutes=5)
"""How long ranks wait for each other to start."""
_PIECE_BYTES = 1 << 24
"""What is sent to the first rank at a time."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """This process among those that share a run; by default it is alone.

    Args:
        rank: its number, from 0.
        size: how many there are.
        group: that of torch.distributed through which they talk.
        store: where they met.
    """

    rank: int = 0
    size: int = 1
    group: dist.ProcessGroup | None = None
    store: Any = None

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which shows progress and writes the result."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether there are no others."""
        return self.size == 1

    def is_first_to_tell(self) -> bool:
        """Whether no other rank has asked this before: of several that have lost one, a single one says so."""
        try:
            return self.store is None or self.store.add("kdcode told", 1) == 1
        except RuntimeError:  # the store has ended with the rank that kept it
            return True

    def all_sum(self, numbers: Numbers) -> Numbers:
        """The sum over all ranks, in place where the array is contiguous; every rank gets the same bits."""
        if self.is_alone:
            return numbers
        whole = _tensor(numbers).contiguous()
        with _talking() as dist:
            dist.all_reduce(whole, group=self.group)
        return _like(numbers, whole)

    def all_sums(self, parts: Sequence[Numbers]) -> list[Numbers]:
        """The sums of several arrays of one type, in one message."""
        if self.is_alone:
            return list(parts)
        tensors = [_tensor(part) for part in parts]
        flat = self.all_sum(_joined(tensors))
        found = flat.split([tensor.numel() for tensor in tensors])
        return [_like(part, own.view(tensor.shape)) for part, own, tensor in zip(parts, found, tensors, strict=True)]

    def total(self, number: float) -> float:
        """The sum of a number over all ranks."""
        return number if self.is_alone else float(self.all_sum(np.array([number], dtype=np.float64))[0])

    def largest(self, number: int) -> int:
        """The largest of all ranks' numbers."""
        return number if self.is_alone else max(self.collect(number))

    def any(self, flag: bool) -> bool:
        """Whether any rank says so."""
        return bool(self.total(float(flag)))

    def agree(self, numbers: Sequence[Numbers]) -> None:
        """Let all ranks have what rank 0 has, in place, bit by bit."""
        if self.is_alone:
            return
        for part in numbers:
            own = _tensor(part)
            whole = own.contiguous()
            with _talking() as dist:
                dist.broadcast(whole, group=self.group, group_src=0)
            own.copy_(whole)

    def told(self, value: Value) -> Value:
        """Rank 0's value, on all ranks; anything that can be pickled."""
        if self.is_alone:
            return value
        box = [value]
        with _talking() as dist:
            dist.broadcast_object_list(box, group=self.group, group_src=0)
        return box[0]

    def collect(self, value: Value) -> list[Value]:
        """The small values of all ranks, in their order, on each of them."""
        if self.is_alone:
            return [value]
        found: list[Any] = [None] * self.size
        with _talking() as dist:
            dist.all_gather_object(found, value, group=self.group)
        return found

    def gather_rows(self, rows: Numbers) -> Numbers:
        """(Σ n, …): the (n, …) rows of all ranks, in the order of the ranks, on each of them; for few rows."""
        if self.is_alone:
            return rows
        counts, own = self.collect(len(rows)), _tensor(rows)
        padded = own.new_zeros(max(counts), *own.shape[1:])
        padded[: len(rows)] = own
        found = [padded.new_empty(padded.shape) for _ in counts]
        with _talking() as dist:
            dist.all_gather(found, padded, group=self.group)
        whole = own.new_empty(sum(counts), *own.shape[1:])
        for part, count, end in zip(found, counts, accumulate(counts), strict=True):
            whole[end - count : end] = part[:count]
        return _like(rows, whole)

    def rows_to_first(self, rows: Numbers) -> Numbers:
        """(Σ n, …): the (n, …) rows of all ranks on rank 0, sent piece by piece; on others their own."""
        if self.is_alone:
            return rows
        counts, own = self.collect(len(rows)), _tensor(rows)
        at_once = max(1, _PIECE_BYTES // max(1, own[:1].nbytes))
        if not self.is_first:
            for piece in own.contiguous().split(at_once):
                with _talking() as dist:
                    dist.send(piece, group=self.group, group_dst=0)
            return rows
        whole = own.new_empty(sum(counts), *own.shape[1:])
        whole[: counts[0]] = own
        start = counts[0]
        for sender, count in enumerate(counts[1:], 1):
            for piece in whole[start : start + count].split(at_once):
                with _talking() as dist:
                    dist.recv(piece, group=self.group, group_src=sender)
            start += count
        return _like(rows, whole)

    def values_to_first(self, value: Value) -> list[Value]:
        """The large values of all ranks, in their order, on rank 0, sent as bytes; on others their own alone."""
        if self.is_alone:
            return [value]
        packed = np.frombuffer(bytearray(pickle.dumps(value)), dtype=np.uint8)
        counts = self.collect(len(packed))
        whole = self.rows_to_first(packed)
        if not self.is_first:
            return [value]
        parts = np.split(whole, np.cumsum(counts)[:-1])
        return [pickle.loads(part.tobytes()) for part in parts]  # noqa: S301 - our own ranks'

    @contextmanager
    def together(self) -> Iterator[None]:
        """A block that ends well on all ranks or on none: where it fails on one, all raise that error.

        No rank may wait for another within the block.

        Raises:
            KdcodeError: that of the first rank that has one.
        """
        error: Exception | None = None
        try:
            yield
        except (KdcodeError, OSError) as failure:
            if self.is_alone:
                raise
            error = failure
        except BaseException as failure:
            if not self.is_alone:
                self.collect(LostRankError(f"rank {self.rank} has ended: {failure!r}"))
            raise
        errors = [found for found in self.collect(error) if found is not None]
        if errors:
            raise errors[0]

    @contextmanager
    def stopping_together(self) -> Iterator[None]:
        """A block that may fail on one rank in any way, after which all of them stop; costs one small message.

        Raises:
            BaseException: on a rank whose block fails, its error; on others a KeyboardInterrupt.
        """
        if self.is_alone:
            yield
            return
        error: BaseException | None = None
        try:
            yield
        except BaseException as failure:
            error = failure
        stop = self.any(error is not None)
        if error is not None:
            raise error
        if stop:
            raise KeyboardInterrupt


ALONE = Ranks()
"""A process that shares its run with no other."""


@contextmanager
def joined_ranks(device: str | torch.device = "cpu") -> Iterator[Ranks]:
    """The ranks that torchrun has started, this process among them; alone where it was not started by torchrun.

        with joined_ranks() as ranks:
            coded = compress_shard(read_shard("big.npy", ranks), "20x")

    They talk through a group of their own: gloo for the CPU, and nccl where `device` is a CUDA device.

    Raises:
        LostRankError: the others cannot be reached.
    """
    if not is_one_of_several():
        yield ALONE
        return
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    backend = "cpu:gloo,cuda:nccl" if torch.device(device).type == "cuda" else "gloo"
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with _talking():
        store, _, _ = next(rendezvous("env://", rank, size, timeout=_MEETING))
        is_ours = not dist.is_initialized()  # a program that has a group of its own keeps it
        if is_ours:
            own = PrefixStore("kdcode", store)
            dist.init_process_group(backend, store=own, rank=rank, world_size=size, timeout=_TIMEOUT)
        group = dist.group.WORLD if is_ours else dist.new_group(backend=backend, timeout=_TIMEOUT)
    try:
        yield Ranks(rank, size, group, store)
    finally:
        with suppress(RuntimeError):  # others may be gone
            dist.destroy_process_group(group)


def is_one_of_several() -> bool:
    """Whether torchrun has started this process with others."""
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def threads_of_rank() -> int:
    """The share of this machine's CPUs that a rank may keep busy: torchrun's own default is one thread."""
    return max(1, available_cpus() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def checked_size(rows: int, ranks: Ranks, least: int) -> None:
    """Refuse more ranks than there are rows for.

    Raises:
        OptionError: with the number of ranks that would work.
    """
    if rows < least * ranks.size and not ranks.is_alone:
        most = max(1, rows // least)
        raise OptionError(
            f"{rows:,} rows cannot be shared among {ranks.size} ranks, each of which needs {least}; "
            f"start {most} at most"
        )


def _tensor(numbers: np.ndarray[Any, Any] | torch.Tensor) -> torch.Tensor:
    import torch

    return torch.from_numpy(numbers) if isinstance(numbers, np.ndarray) else numbers.detach()


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    import torch

    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _like(numbers: Numbers, found: torch.Tensor) -> Numbers:
    """A tensor as what the caller gave: an array or a tensor."""
    return found.numpy() if isinstance(numbers, np.ndarray) else found  # type: ignore[return-value]


@contextmanager
def _talking() -> Iterator[ModuleType]:
    """torch.distributed, with its errors as one of ours.

    Raises:
        LostRankError: another rank has ended, or cannot be reached.
    """
    import torch.distributed as dist

    try:
        yield dist
    except (RuntimeError, ConnectionError) as error:  # torch's own are RuntimeErrors
        line = str(error).strip().partition("\n")[0]
        reason = re.sub(r"^\[[^\]]*\] *", "", line).partition(". ")[0]  # without the place in torch's own source
        raise LostRankError(f"another rank has ended, or cannot be reached: {reason}") from error
