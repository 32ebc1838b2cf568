from __future__ import annotations

import json

import random_codes
import torch
from language_model import LanguageModel
from penn_treebank import made_up_corpus
from shortened import TINY


def test_a_tiny_run_tries_every_change(run_tiny):
    folder, printed = run_tiny("random_codes", "--threads", "1")
    rows = json.loads((folder / "results" / "random_codes.json").read_text())["rows"]
    found = {row["row"]: row["short_test_perplexity"] for row in rows}
    assert set(found) == set(random_codes.CHANGES)
    assert len(set(found.values())) >= 3  # a slower rate is hard to see in a few steps
    assert f"{found['random codes']:.2f}" in printed
    kept = folder / "work" / "random_codes-seed0" / "random-codes.json"
    kept.write_text('{"perplexity": 1.5}')
    (folder / "work" / "vary_k_d-seed0").mkdir()
    (folder / "work" / "vary_k_d-seed0" / "full.json").write_text('{"perplexity": 2.5}')
    run_tiny("random_codes", "--threads", "1", folder=folder)
    again = json.loads((folder / "results" / "random_codes.json").read_text())["rows"]
    values = {row["row"]: row["short_test_perplexity"] for row in again}
    assert (values["random codes"], values["full table"]) == (1.5, 2.5)


def test_changes_reach_the_codewords():
    def gradient(before):
        corpus = made_up_corpus()
        layer = random_codes.embedding_of(corpus, TINY.hidden, TINY.hidden, 0)
        model = LanguageModel(layer, len(corpus.words), TINY)
        start = layer.composition.codebook.detach().clone()
        before(model)
        layer(torch.arange(20)).sum().backward()
        return start, layer.composition.codebook.detach(), layer.composition.codebook.grad

    start, small, whole = gradient(random_codes._small_start)
    torch.testing.assert_close(small, 0.1 * start)
    _, same, slow = gradient(random_codes._slow_codewords)
    torch.testing.assert_close(same, start)
    torch.testing.assert_close(slow, 0.1 * whole)
