"""A knowledge graph: queries (head, relation) with all their tails, and the filtered ranks of link prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

DATA = "folder with entity2id.txt, relation2id.txt, train2id.txt, valid2id.txt and test2id.txt"
RANK_BATCH = 1024


class Tails(NamedTuple):
    """The tails of some queries: (pairs,) which query, (pairs,) which entity, and (queries,) how many."""

    query: Tensor
    entity: Tensor
    count: Tensor


class Queries:
    """Distinct (head, relation) pairs, sorted, and the tails that are known of each.

    Args:
        triples: (count, 3) head, relation and tail.
        relations: how many relations there are.

    Attributes:
        heads: (queries,).
        relations: (queries,).
    """

    def __init__(self, triples: Tensor, relations: int) -> None:
        keys = triples[:, 0] * relations + triples[:, 1]
        order = keys.argsort(stable=True)
        self._keys, counts = keys[order].unique_consecutive(return_counts=True)
        self._tails = triples[order, 2]
        self._begin = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
        self._base = relations
        self.heads, self.relations = self._keys // relations, self._keys % relations

    def __len__(self) -> int:
        return len(self._keys)

    def tails(self, queries: Tensor) -> Tails:
        """All tails of (n,) queries."""
        begin, count = self._begin[queries], self._begin[queries + 1] - self._begin[queries]
        query = torch.repeat_interleave(torch.arange(len(queries)), count)
        within = torch.arange(len(query)) - torch.repeat_interleave(count.cumsum(0) - count, count)
        return Tails(query, self._tails[begin[query] + within], count)

    def find(self, heads: Tensor, relations: Tensor) -> Tensor:
        """(n,) the numbers of queries that are there."""
        return torch.searchsorted(self._keys, heads * self._base + relations)


@dataclass(frozen=True)
class Graph:
    """Triples (head, relation, tail) of three parts; every triple is there in both directions.

    Args:
        entities: how many.
        relations: how many, with the reciprocal ones.
        train: (count, 3).
        valid: (count, 3).
        test: (count, 3).
    """

    entities: int
    relations: int
    train: Tensor
    valid: Tensor
    test: Tensor

    def ranks(self, part: Tensor, scores_of: Callable[[Tensor, Tensor], Tensor]) -> dict[str, float]:
        """Filtered MRR and Hits@1, 3 and 10 over both directions; of equal scores, half count as better.

        Args:
            part: (count, 3) triples to rank.
            scores_of: (n,) heads and (n,) relations to (n, entities) scores.
        """
        known = Queries(torch.cat([self.train, self.valid, self.test]), self.relations)
        found = []
        for triples in part.split(RANK_BATCH):
            scores = scores_of(triples[:, 0], triples[:, 1])
            right = scores.gather(1, triples[:, 2:])
            others = known.tails(known.find(triples[:, 0], triples[:, 1]))
            scores[others.query, others.entity] = -torch.inf
            found.append(1 + (scores > right).sum(dim=1) + (scores == right).sum(dim=1) / 2)
        rank = torch.cat(found)
        hits = {f"hits_at_{k}": float((rank <= k).float().mean()) for k in (1, 3, 10)}
        return {"mrr": float(rank.reciprocal().mean()), **hits}


def read_graph(folder: Path) -> Graph:
    """Read a graph whose files have a count in the first line, then `head tail relation`."""
    sizes = [
        int((folder / f"{name}2id.txt").read_text(encoding="utf-8").split(maxsplit=1)[0])
        for name in ("entity", "relation")
    ]
    parts = [_both_ways(_triples(folder / f"{name}2id.txt"), sizes[1]) for name in ("train", "valid", "test")]
    return Graph(sizes[0], 2 * sizes[1], *parts)


def made_up_graph(entities: int = 120, relations: int = 4, count: int = 2500) -> Graph:
    """Entities in groups, and relations that lead from each group to another one: for `--tiny` runs."""
    draw = np.random.default_rng(0)
    groups = 8
    target = draw.integers(groups, size=(relations, groups))
    heads, kinds = draw.integers(entities, size=count), draw.integers(relations, size=count)
    tails = target[kinds, heads % groups] + groups * draw.integers(entities // groups, size=count)
    triples = torch.unique(torch.from_numpy(np.stack([heads, kinds, tails], axis=1)), dim=0)
    triples = triples[torch.from_numpy(draw.permutation(len(triples)))]
    cut = len(triples) * 8 // 10, len(triples) * 9 // 10
    return Graph(entities, 2 * relations, *(_both_ways(part, relations) for part in triples.tensor_split(cut)))


def _triples(path: Path) -> Tensor:
    """(count, 3) head, relation and tail."""
    values = np.fromstring(path.read_text(encoding="ascii"), dtype=np.int64, sep=" ")[1:]
    return torch.from_numpy(values.reshape(-1, 3))[:, [0, 2, 1]]


def _both_ways(triples: Tensor, relations: int) -> Tensor:
    """The triples, and each from tail to head by the reciprocal relation."""
    head, relation, tail = triples.unbind(1)
    return torch.cat([triples, torch.stack([tail, relation + relations, head], dim=1)])
