"""Ranks: the processes that share one run, each with rows of its own, and what they add up and tell each other.

Every method is a collective: all ranks call it, from their main threads, in the same order. A rank alone has nobody to
talk to, and its methods give back what they are given.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from kdcode.cpus import available_cpus
from kdcode.errors import KdcodeError, LostRankError, OptionError

Value = TypeVar("Value")

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
    store: Store | None = None

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

    def all_sum(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place where the tensor is contiguous; every rank gets the same bits."""
        if self.is_alone:
            return tensor
        whole = tensor.contiguous()
        with _noticing_lost_ranks():
            dist.all_reduce(whole, group=self.group)
        return whole

    def all_sums(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The sums of several tensors of one type, in one message."""
        if self.is_alone:
            return list(tensors)
        flat = self.all_sum(torch.cat([tensor.reshape(-1) for tensor in tensors]))
        parts = flat.split([tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def total(self, number: float) -> float:
        """The sum of a number over all ranks."""
        return number if self.is_alone else float(self.all_sum(torch.tensor(number, dtype=torch.float64)))

    def largest(self, number: int) -> int:
        """The largest of all ranks' numbers."""
        if self.is_alone:
            return number
        found = torch.tensor(number)
        with _noticing_lost_ranks():
            dist.all_reduce(found, dist.ReduceOp.MAX, group=self.group)
        return int(found)

    def any(self, flag: bool) -> bool:
        """Whether any rank says so."""
        return bool(self.total(float(flag)))

    def agree(self, tensors: Sequence[Tensor]) -> None:
        """Let all ranks have what rank 0 has, in place, bit by bit."""
        if self.is_alone:
            return
        for tensor in tensors:
            whole = tensor.detach().contiguous()
            with _noticing_lost_ranks():
                dist.broadcast(whole, group=self.group, group_src=0)
            tensor.detach().copy_(whole)

    def told(self, value: Value) -> Value:
        """Rank 0's value, on all ranks; anything that can be pickled."""
        if self.is_alone:
            return value
        box = [value]
        with _noticing_lost_ranks():
            dist.broadcast_object_list(box, group=self.group, group_src=0)
        return box[0]

    def collect(self, value: Value) -> list[Value]:
        """The small values of all ranks, in their order, on each of them."""
        if self.is_alone:
            return [value]
        found: list[Any] = [None] * self.size
        with _noticing_lost_ranks():
            dist.all_gather_object(found, value, group=self.group)
        return found

    def gather_rows(self, rows: Tensor) -> Tensor:
        """(Σ n, …): the (n, …) rows of all ranks, in the order of the ranks, on each of them; for few rows."""
        if self.is_alone:
            return rows
        counts = self.collect(len(rows))
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        found = [torch.empty_like(padded) for _ in counts]
        with _noticing_lost_ranks():
            dist.all_gather(found, padded, group=self.group)
        return torch.cat([part[:count] for part, count in zip(found, counts, strict=True)])

    def rows_to_first(self, rows: Tensor) -> Tensor:
        """(Σ n, …): the (n, …) rows of all ranks on rank 0, sent piece by piece; on others their own."""
        if self.is_alone:
            return rows
        counts = self.collect(len(rows))
        at_once = max(1, _PIECE_BYTES // max(1, rows[:1].nbytes))
        if not self.is_first:
            for piece in rows.contiguous().split(at_once):
                with _noticing_lost_ranks():
                    dist.send(piece, group=self.group, group_dst=0)
            return rows
        whole = rows.new_empty(sum(counts), *rows.shape[1:])
        whole[: counts[0]] = rows
        start = counts[0]
        for sender, count in enumerate(counts[1:], 1):
            for piece in whole[start : start + count].split(at_once):
                with _noticing_lost_ranks():
                    dist.recv(piece, group=self.group, group_src=sender)
            start += count
        return whole

    def values_to_first(self, value: Value) -> list[Value]:
        """The large values of all ranks, in their order, on rank 0, sent as bytes; on others their own alone."""
        if self.is_alone:
            return [value]
        packed = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)
        counts = self.collect(len(packed))
        whole = self.rows_to_first(packed)
        if not self.is_first:
            return [value]
        return [pickle.loads(part.numpy().tobytes()) for part in whole.split(counts)]  # noqa: S301 - our own ranks'

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
    backend = "cpu:gloo,cuda:nccl" if torch.device(device).type == "cuda" else "gloo"
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with _noticing_lost_ranks():
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


@contextmanager
def _noticing_lost_ranks() -> Iterator[None]:
    """Errors of torch.distributed as one of ours.

    Raises:
        LostRankError: another rank has ended, or cannot be reached.
    """
    try:
        yield
    except (RuntimeError, ConnectionError) as error:  # torch's own are RuntimeErrors
        line = str(error).strip().partition("\n")[0]
        reason = re.sub(r"^\[[^\]]*\] *", "", line).partition(". ")[0]  # without the place in torch's own source
        raise LostRankError(f"another rank has ended, or cannot be reached: {reason}") from error
