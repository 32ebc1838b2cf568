from __future__ import annotations

import json

import pytest
import torch
from text_classification import FULL, ROWS, TINY, Classifier
from torch import nn
from torch.nn import functional as F


@pytest.fixture(scope="module")
def tiny(run_tiny):
    return run_tiny("text_classification", "--seeds", "2", "--seed", "1")


def result_in(folder) -> dict:
    return json.loads((folder / "results" / "text_classification.json").read_text())


def test_every_row_is_trained_and_counted(tiny):
    folder, printed = tiny
    result = result_in(folder)
    assert [(row["start"], row["row"]) for row in result["rows"]] == [
        (start, row) for start, rows in ROWS.items() for row in rows
    ]
    assert {run["seed"] for run in result["runs"]} == {1, 2}
    for row in result["rows"]:
        same = [run for run in result["runs"] if (run["start"], run["row"]) == (row["start"], row["row"])]
        assert row["test"] == pytest.approx(sum(run["test"] for run in same) / 2, abs=0.01)
        assert row["smaller"] >= 4 or row["row"] == FULL
        assert row["row"] in printed
    assert result["rows"][0]["test"] > 65


def test_finished_runs_are_not_run_again(tiny, run_tiny):
    folder, _ = tiny
    file = folder / "work" / "text_classification" / "made" / "random-full-table-seed1.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "test": 12.5}))
    run_tiny("text_classification", "--seeds", "2", "--seed", "1", folder=folder)
    assert 12.5 in [run["test"] for run in result_in(folder)["runs"]]


def test_glove_is_asked_for(run_tiny, tmp_path, monkeypatch, capsys):
    import text_classification

    monkeypatch.setattr("sys.argv", ["text_classification", "--data", str(tmp_path), "--output", str(tmp_path)])
    with pytest.raises(SystemExit):
        text_classification.main()
    assert "give --glove" in capsys.readouterr().err


def test_the_classifier_convolves():
    torch.manual_seed(0)
    model = Classifier(nn.Embedding(9, TINY.dim), 2, TINY).eval()
    ids = torch.randint(9, (3, 6))
    taps = model.taps.weight.view(sum(TINY.widths), TINY.filters, TINY.dim)
    words, begin, found = model.embedding(ids).transpose(1, 2), 0, []
    for width in TINY.widths:
        kernel = taps[begin : begin + width].permute(1, 2, 0)  # filters, dim, width
        begin += width
        found.append(F.conv1d(words, kernel, padding=width - 1).amax(dim=2))
    expected = model.output(torch.relu(torch.cat(found, dim=1) + model.bias))
    assert torch.allclose(model(ids, torch.ones(3, 6, 1)), expected, atol=1e-5)
