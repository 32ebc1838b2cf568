from __future__ import annotations

import pytest
import torch
from knowledge_graph import Graph, Queries, made_up_graph, read_graph

TRIPLES = torch.tensor([[2, 0, 1], [0, 1, 2], [2, 0, 0], [0, 0, 2]])


def test_queries_have_all_their_tails():
    queries = Queries(TRIPLES, relations=2)
    pairs = list(zip(queries.heads.tolist(), queries.relations.tolist(), strict=True))
    assert pairs == [(0, 0), (0, 1), (2, 0)]
    tails = queries.tails(torch.tensor([2, 0]))
    assert tails.query.tolist() == [0, 0, 1]
    assert tails.entity.tolist() == [1, 0, 2]
    assert tails.count.tolist() == [2, 1]
    assert queries.find(torch.tensor([2, 0]), torch.tensor([0, 1])).tolist() == [2, 1]


def test_other_right_tails_do_not_count_and_equal_scores_count_half():
    graph = Graph(4, 1, torch.tensor([[0, 0, 1]]), torch.tensor([[0, 0, 2]]), torch.tensor([[3, 0, 0]]))
    scores = torch.tensor([[0.5, 9.0, 1.0, 0.0]])
    assert graph.ranks(graph.valid, lambda *_: scores.clone())["mrr"] == 1  # 1 is a right tail too
    assert graph.ranks(graph.test, lambda *_: scores.clone())["mrr"] == pytest.approx(1 / 3)
    tie = graph.ranks(graph.valid, lambda *_: torch.tensor([[1.0, 0.0, 1.0, 1.0]]))
    assert tie["mrr"] == pytest.approx(1 / 2)
    assert (tie["hits_at_1"], tie["hits_at_3"]) == (0, 1)


def test_a_graph_is_read_in_both_directions(tmp_path):
    texts = {"entity": "3\n/a\t0\n/b\t1\n/c\t2\n", "relation": "1\n/r\t0\n", "train": "2\n0 1 0\n1 2 0\n"}
    texts |= {"valid": "1\n0 2 0\n", "test": "1\n2 0 0\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}2id.txt").write_text(text)
    graph = read_graph(tmp_path)
    assert (graph.entities, graph.relations) == (3, 2)
    assert graph.train.tolist() == [[0, 0, 1], [1, 0, 2], [1, 1, 0], [2, 1, 1]]  # head, relation, tail
    assert graph.test.tolist() == [[2, 0, 0], [0, 1, 2]]


def test_parts_of_a_made_up_graph_do_not_overlap():
    graph = made_up_graph()
    triples = torch.cat([graph.train, graph.valid, graph.test])
    assert len(torch.unique(triples, dim=0)) == len(triples)
    assert int(triples[:, [0, 2]].max()) < graph.entities
