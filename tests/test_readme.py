"""The README's numbers are those of the committed results, and it stays short."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import kdcode
from kdcode.cli import main
from kdcode.codec import make_codec

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
METHODS = (
    *("kdcode", "kdcode, fast", "faiss LSQ", "faiss RQ", "faiss OPQ", "faiss PQ"),
    *("int4 rows", "int8 rows", "SVD, float16"),
)
RECORDS = json.loads((ROOT / "benchmarks" / "results" / "reconstruction.json").read_text())["rows"]


def row(record) -> str:
    return (
        f"| {record['name']} | {record['relative_error']:.3f} | {record['mean_cosine']:.3f} "
        f"| {record['ratio']:.0f}x | {record['file_ratio']:.0f}x | {record['seconds']:.0f} s |"
    )


def test_every_result_stands_in_the_readme_as_measured():
    missing = [row(record) for record in RECORDS if row(record) not in README]
    assert not missing, "\n".join(missing)


def test_the_readme_has_no_other_rows_of_results():
    rows = [line for line in README.splitlines() if line.startswith("|") and line.rstrip().endswith(" s |")]
    assert sorted(rows) == sorted(map(row, RECORDS))


def kept(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())["rows"]


def test_errors_at_equal_bytes_are_those_of_the_benchmark():
    rows = [row for row in kept("equal_bytes") if row["table"] == "glove-50k"]
    errors = {(row["method"], row["times"]): row.get("relative_error") for row in rows}
    times = (10, 20, 40, 80)
    lines = [
        "| " + " | ".join(["50,000 words of GloVe", *(f"{each}x" for each in times)]) + " |",
        "|---|---|---|---|---|",
    ]
    for method in METHODS:
        found = [errors.get((method, each)) for each in times]
        if any(found):
            lines.append("| " + " | ".join([method, *("–" if one is None else f"{one:.3f}" for one in found)]) + " |")
    assert "\n".join(lines) + "\n\n" in README, "\n".join(lines)


def test_times_at_equal_bits_are_those_of_the_benchmark():
    lines = []
    for row in kept("equal_bits"):
        new = next(way for way in row["unseen"] if way["way"] in ("its own", "beam 8, sweeps 0"))
        lines.append(
            f"| {row['method']} | {8 * row['positions']} | {row['relative_error']:.3f} | {row['train_seconds']:.0f} s "
            f"| {new['relative_error']:.3f} | {new['rows_per_second']:,} |"
        )
    assert "\n".join(lines) + "\n" in README, "\n".join(lines)


def test_the_time_of_a_million_rows_is_that_of_the_benchmark():
    [row] = [row for row in kept("scaling") if row["rows"] == 1_000_000]
    assert f"A million rows with 64 bits take {row['seconds']:.0f} seconds" in README


def test_the_perplexities_are_those_of_the_experiment():
    results = ROOT / "experiments" / "results" / "ptb_perplexity-small.json"
    rows = {record["row"]: record for record in json.loads(results.read_text())["rows"] if record["seed"] == 0}
    shown = {
        "full table": "conventional",
        "random codes, linear": "random-linear",
        "learned codes, linear": "linear-linear",
        "learned codes, LSTM": "linear-lstm",
    }
    for name, row in shown.items():
        record = rows[row]
        line = (
            f"| {name} | {record['embedding_parameters']:,} | {record['test_perplexity']:.1f} "
            f"| {record['paper_test_perplexity']:.1f} |"
        )
        assert line in README


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 200


def test_the_sizes_it_shows_are_those_of_the_commands(tmp_path, monkeypatch):
    """The codes of the demo depend on learning; its shape and its sizes do not."""
    monkeypatch.chdir(tmp_path)
    codes = np.zeros((10_000, 16), dtype=np.int64)
    spec = kdcode.CompressOptions(codebook_size=16, code_length=16, codebook_dtype="int8").spec(embedding_dim=50)
    codec = make_codec(spec, {"codebook": np.ones((16, 16, 50))})
    kdcode.save(kdcode.CodedTable.from_codes(kdcode.data.glove_50d().symbols, codes, codec), "demo.kdc")
    told = CliRunner().invoke(main, ["info", "demo.kdc"]).stdout
    shown = README.partition("$ kdcode info demo.kdc\n")[2].partition("  …\n")[0]
    assert shown
    assert told.startswith(shown)
