"""The report as a value: what its sentences say, which rows it has, what it takes."""

import base64
import json
import re

import numpy as np
import pytest
from sample_tables import TRANSFORM_NAMES, coded_table, words

import kdcode
from kdcode import bitpack
from kdcode.errors import FileError, OptionError, TableError
from kdcode.report import About, make_report
from kdcode.table import VectorTable


def table_of(coded, noise=0.1, symbols=None, weights=None):
    """A table near to a coded one."""
    matrix = np.array(coded) + noise * np.random.default_rng(0).normal(size=(len(coded), coded.embedding_dim))
    return VectorTable(list(symbols or coded.symbols), matrix.astype(np.float32), weights)


def data_of(report):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', report.html)[1])


def numbers(packed):
    return np.frombuffer(base64.b64decode(packed["data"]), np.dtype(packed["type"]).newbyteorder("<"))


def text_of(report, section):
    found = re.search(rf'<section id="{section}".*?</section>', report.html, flags=re.DOTALL)[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found))


@pytest.fixture
def coded():
    return coded_table(rows=300, symbols=words(300), dim=8, length=4, size=4)


@pytest.mark.parametrize(
    ("noise", "grade", "say"),
    [(0.0, "good", "nearly everything"), (1.0, "fair", "rough"), (9.0, "poor", "much is lost")],
)
def test_the_verdict_follows_the_neighbours(noise, grade, say):
    vectors = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    moved = vectors + noise * 0.3 * np.random.default_rng(1).normal(size=vectors.shape).astype(np.float32)
    found = make_report(vectors, moved, about=About("a.txt", "b.npy", 3200))
    assert f'class="verdict {grade}"' in found.html
    assert say in found.verdict
    assert found.verdict.startswith("b.npy is 4.0 times smaller than a.txt in float32 and keeps ")
    assert found.verdict in text_of(found, "verdict")


def test_a_table_that_became_larger_is_told_so():
    vectors = np.eye(4, dtype=np.float32)
    assert "is 2.0 times larger than" in make_report(vectors, vectors, about=About(file_bytes=128)).verdict


def test_sizes_add_up(coded):
    report = make_report(table_of(coded), coded, about=About(file_bytes=coded.sizes.total + 77))
    parts = data_of(report)["charts"]["sizes"]["parts"]
    after = {part["part"]: part["bytes"] for part in parts if part["table"] == "after"}
    assert sum(after.values()) == coded.sizes.total + 77
    assert after["codes"] == coded.sizes.codes
    before = sum(part["bytes"] for part in parts if part["table"] == "before")
    assert before == 4 * 300 * 8 + coded.sizes.symbols
    assert f"{before / (coded.sizes.total + 77):.1f} times smaller" in report.verdict


def test_numbers_are_those_of_evaluate(coded):
    table = table_of(coded)
    found, said = kdcode.evaluate(table, coded), text_of(make_report(table, coded), "quality")
    for name in ("relative_error", "mean_cosine", "recall_at_10", "recall_at_100", "rank_correlation", "norm_error"):
        assert f"{getattr(found, name):.4f}" in said
    assert f"{found.cosine_percentiles[5]:.4f}" in said
    assert "weighted" not in said


def test_weights_choose_the_rows_of_the_explorer(coded):
    weights = np.random.default_rng(3).permutation(300).astype(np.float64)
    table = table_of(coded)
    report = make_report(table, coded, weights, rows=20)
    data = data_of(report)["explorer"]
    heaviest = np.argsort(-weights)[:20]
    assert data["symbols"] == [table.symbols[row] for row in heaviest]
    assert numbers(data["rows"]).tolist() == heaviest.tolist()
    assert "the 20 symbols with the largest weights, of 300" in text_of(report, "explorer")
    assert f"{kdcode.evaluate(table, coded, weights).weighted.relative_error:.4f}" in text_of(report, "quality")


def test_the_first_rows_are_in_the_page_and_it_says_so(coded):
    report = make_report(table_of(coded), coded, rows=50)
    data = data_of(report)["explorer"]
    assert data["symbols"] == list(coded.symbols)[:50]
    assert data["rows"] is None
    assert report.explored == 50
    assert "This page has the 50 symbols that come first in the table" in text_of(report, "explorer")
    whole = make_report(table_of(coded), coded)
    assert "All 300 symbols are in this page." in text_of(whole, "explorer")


def test_neighbours_are_those_of_a_search(coded):
    table = table_of(coded)
    data = data_of(make_report(table, coded))["explorer"]
    for side, searched in (("before", table), ("after", coded)):
        rows = numbers(data[side]["rows"]).reshape(300, 10)
        cosines = numbers(data[side]["cosines"]).reshape(300, 10)
        for row in (0, 150, 299):
            true = searched.neighbors(searched.symbols[row], 10)
            assert [data["symbols"][near] for near in rows[row]] == [one.symbol for one in true]
            np.testing.assert_allclose(cosines[row] / 100, [one.score for one in true], atol=0.006)


def test_rows_are_matched_by_symbol(coded):
    table = table_of(coded)
    order = np.random.default_rng(0).permutation(300)[:200]
    shuffled = VectorTable(
        [*(table.symbols[row] for row in order), "new"], np.concatenate([table.matrix[order], np.ones((1, 8))])
    )
    report = make_report(shuffled, coded)
    data = data_of(report)["explorer"]
    assert data["symbols"] == [table.symbols[row] for row in order]
    packed = numbers(data["codes"]["packed"]).reshape(200, -1)
    assert np.array_equal(packed, np.asarray(coded.packed)[order])
    assert "1 are only in" in text_of(report, "verdict")
    assert "and 100 only in" in text_of(report, "verdict")


def test_worst_rows_lead_into_the_explorer_where_it_has_them(coded):
    table = table_of(coded)
    table.matrix[250] = -table.matrix[250]
    table.matrix[3] = -table.matrix[3]
    report = make_report(table, coded, rows=100)
    worst = re.search(r'<section id="worst".*?</section>', report.html, flags=re.DOTALL)[0]
    assert f'<a class="symbol" href="#symbol-3"><bdi>{table.symbols[3]}</bdi></a>' in worst
    assert f'<bdi class="symbol">{table.symbols[250]}</bdi>' in worst


@pytest.mark.parametrize(
    ("provenance", "points"),
    [
        ({"curve": {"steps": 10, "losses": [0.5, 0.25]}}, [[5.0, 0.5], [10.0, 0.25]]),
        ({"taken_from": {"curve": {"steps": 2, "losses": [0.5, None, 0.3, 0.2]}}}, [[0.5, 0.5], [1.5, 0.3], [2, 0.2]]),
    ],
)
def test_the_learning_curve_is_that_of_the_file(coded, provenance, points):
    coded.provenance.update(provenance)
    assert data_of(make_report(table_of(coded), coded))["charts"]["curve"]["points"] == points


@pytest.mark.parametrize(
    "curve",
    [None, [], 3, {}, {"steps": 0, "losses": [1]}, {"steps": "x", "losses": [1, 2]}, {"steps": 3, "losses": "ab"}],
)
def test_where_there_is_no_curve_the_page_says_so(coded, curve):
    coded.provenance["curve"] = curve
    report = make_report(table_of(coded), coded)
    assert "curve" not in data_of(report)["charts"]
    assert "No learning curve: the file does not record" in text_of(report, "quality")


def test_one_step_makes_no_curve(coded):
    coded.provenance["curve"] = {"steps": 1, "losses": [0.5]}
    assert "the codes were learned in one step" in text_of(make_report(table_of(coded), coded), "quality")


def test_how_it_was_made(coded):
    coded.provenance.update(learner="additive", options={"seed": 7, "effort": "best"}, versions={"torch": "2.9"})
    said = text_of(
        make_report(table_of(coded), coded, about=About(command="kdcode report a b", made_by="kdcode compress")), "made"
    )
    for part in (
        "seed 7",
        "effort best",
        "torch 2.9",
        "kdcode report a b",
        "kdcode compress",
        "4 codewords (D), each one of 4 (K)",
    ):
        assert part in said
    unknown = coded_table(rows=20, dim=8)
    assert "the file does not say how its codes were learned" in text_of(
        make_report(unknown.to_table(), unknown), "made"
    )


def test_ten_thousand_symbols_take_less_than_five_megabytes():
    coded = coded_table(
        rows=10_000, symbols=[f"a-rather-long-symbol-{row:06}" for row in range(10_000)], dim=32, length=32, size=256
    )
    report = make_report(coded.to_table(), coded)
    assert report.explored == 10_000
    assert len(report.html.encode()) < 5_000_000


def test_very_long_codes_leave_room_for_fewer_symbols():
    coded = coded_table("product", rows=9000, symbols=words(9000), dim=400, length=400, size=256)
    report = make_report(coded.to_table(), coded)
    assert 5000 < report.explored < 9000
    assert len(report.html.encode()) < 5_000_000
    assert f"This page has the {report.explored:,} symbols" in text_of(report, "explorer")


@pytest.mark.parametrize(("kind", "dim"), [("transform", 40), *((kind, 7) for kind in TRANSFORM_NAMES[1:])])
def test_transform_codes_are_shown_as_levels(kind, dim):
    coded = coded_table(kind, rows=300, symbols=words(300), dim=dim)
    report = make_report(coded.to_table(), coded)
    data = data_of(report)
    codes, use = data["explorer"]["codes"], data["charts"]["use"]
    assert (codes["length"], codes["levels"]) == (min(16, dim), dim)
    packed = np.frombuffer(base64.b64decode(codes["packed"]["data"]), dtype=np.uint8).reshape(300, -1)
    np.testing.assert_array_equal(bitpack.unpack(packed, codes["widths"]), coded.codes[:, : codes["length"]])
    taken = np.frombuffer(base64.b64decode(codes["bytes"]["data"]), dtype=np.uint32)
    np.testing.assert_array_equal(taken, np.array(coded.spec.lengths)[coded.codes[:, -2]])
    assert (use["row"], use["column"]) == ("coordinate", "level")
    assert use["columns"] == 1 - 2 * use["first"]
    assert "Use of the levels" in text_of(report, "codes")
    assert codes["together"] == coded.spec.rows_per_block
    assert f"stored in {coded.packed.nbytes / 300:.1f} bytes on average" in text_of(report, "codes")
    assert "shared codes" not in text_of(report, "quality")
    assert "are not learned step by step" in text_of(report, "quality")
    assert "rotation, tables of levels" in text_of(report, "size")


def test_paths_name_the_tables(coded, tmp_path):
    kdcode.save(coded, tmp_path / "c.kdc")
    kdcode.write(table_of(coded), tmp_path / "o.txt")
    report = make_report(tmp_path / "o.txt", str(tmp_path / "c.kdc"))
    assert report.verdict.startswith("c.kdc is ")
    assert "than o.txt in float32" in report.verdict
    assert report.measured.bytes_after == (tmp_path / "c.kdc").stat().st_size


def test_the_same_tables_make_the_same_page(coded):
    assert make_report(table_of(coded), coded).html == make_report(table_of(coded), coded).html


def test_progress_rises_to_the_end(coded):
    seen = []
    make_report(table_of(coded), coded, on_progress=lambda done, total: seen.append(done / total))
    assert seen == sorted(seen)
    assert seen[0] < 0.5
    assert seen[-1] == pytest.approx(1)


def test_refusals(coded, tmp_path):
    with pytest.raises(OptionError, match="rows: expected at least 1, got 0"):
        make_report(table_of(coded), coded, rows=0)
    with pytest.raises(TableError, match="same dimension"):
        make_report(np.ones((300, 3)), coded)
    with pytest.raises(FileError, match="there is no folder"):
        make_report(table_of(coded), coded).write(tmp_path / "none" / "page.html")


def test_a_page_is_written_whole(coded, tmp_path):
    report = make_report(table_of(coded), coded)
    size = report.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.html
    assert (tmp_path / "page.html").stat().st_size == size
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
