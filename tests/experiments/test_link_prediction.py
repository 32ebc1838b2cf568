from __future__ import annotations

import json

import link_prediction
import pytest
import torch
from knowledge_graph import Tails
from link_prediction import AFTER, FULL, LEARNED, ROWS, TUNED
from torch.nn import functional as F


@pytest.fixture(scope="module")
def tiny(run_tiny):
    return run_tiny("link_prediction", "--seed", "2")


def rows_in(folder) -> dict:
    result = json.loads((folder / "results" / "link_prediction.json").read_text())
    return {row["row"]: row for row in result["rows"]}


def test_every_row_is_trained_and_counted(tiny):
    folder, printed = tiny
    rows = rows_in(folder)
    assert list(rows) == list(ROWS)
    assert rows[FULL]["bytes"] == 4 * 120 * 16
    assert rows[AFTER]["bytes"] == rows[TUNED]["bytes"]
    assert all(row in printed and rows[row]["smaller"] >= 4 for row in ROWS[1:])
    assert rows[FULL]["test_mrr"] > 0.12  # 15 tails in a group: about 0.22 is all that can be known, 0.045 is chance
    assert rows[LEARNED]["test_mrr"] > 0.12


def test_finished_rows_and_epochs_are_not_run_again(tiny, run_tiny):
    folder, _ = tiny
    work = folder / "work" / "link_prediction-seed2"
    before = rows_in(folder)
    (work / "full-table.json").unlink()  # as if it had been stopped after its last epoch
    run_tiny("link_prediction", "--seed", "2", folder=folder)
    again = rows_in(folder)
    assert again[FULL]["test_mrr"] == before[FULL]["test_mrr"]
    assert again[LEARNED] == before[LEARNED]


def test_an_unknown_row_is_refused(run_tiny, capsys):
    with pytest.raises(SystemExit):
        run_tiny("link_prediction", "--rows", "ful table")
    assert "there is no row 'ful table'" in capsys.readouterr().err


def test_scores_are_those_of_complex_numbers():
    torch.manual_seed(0)
    model = link_prediction.ComplEx(torch.nn.Embedding(5, 6), 3, link_prediction.TINY).eval()
    table = model.entities.weight.detach()
    entities, relations = (torch.complex(*w.detach().chunk(2, dim=1)) for w in (table, model.relations.weight))
    heads, kinds = torch.tensor([0, 4]), torch.tensor([2, 1])
    expected = ((entities[heads] * relations[kinds]) @ entities.conj().T).real
    assert torch.allclose(model.scores(table, heads, kinds), expected, atol=1e-6)


def test_the_loss_and_its_gradient_are_those_of_cross_entropy():
    torch.manual_seed(0)
    scores = torch.randn(3, 7, dtype=torch.float64)
    query, entity = torch.tensor([0, 0, 2, 1]), torch.tensor([1, 5, 6, 0])
    reference = scores.clone().requires_grad_()
    expected = F.cross_entropy(reference[query], entity)
    expected.backward()
    leaf = scores.clone().requires_grad_()
    found = link_prediction._TailLoss.apply(leaf * 1, *Tails(query, entity, torch.tensor([2, 1, 1])))
    found.backward()
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)
    assert torch.allclose(leaf.grad, reference.grad, atol=1e-6)
