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
    assert f"{found['random codes']:.2f}" in printed
    kept = folder / "work" / "random_codes-seed0" / "random-codes.json"
    kept.write_text('{"perplexity": 1.5, "seconds": 2}')
    (folder / "work" / "vary_k_d-seed0").mkdir()
    (folder / "work" / "vary_k_d-seed0" / "full.json").write_text('{"perplexity": 2.5, "seconds": 3}')
    run_tiny("random_codes", "--threads", "1", folder=folder)
    again = json.loads((folder / "results" / "random_codes.json").read_text())["rows"]
    values = {row["row"]: row["short_test_perplexity"] for row in again}
    assert (values["random codes"], values["full table"]) == (1.5, 2.5)


def test_slow_codewords_get_a_tenth_of_their_gradient():
    gradients = []
    for change in random_codes.CHANGES.values():
        corpus = made_up_corpus()
        layer = random_codes.embedding_of(corpus, TINY.hidden, 0)
        torch.nn.init.ones_(layer.codec.codebook)
        if change is not None:
            change(LanguageModel(layer, len(corpus.words), TINY))
        layer(torch.arange(20)).sum().backward()
        gradients.append(layer.codec.codebook.grad)
    torch.testing.assert_close(gradients[1], 0.1 * gradients[0])
