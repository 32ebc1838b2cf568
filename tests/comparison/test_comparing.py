import json
import sys

import numpy as np
import pytest
from sample_tables import coded_table, words

import kdcode
from kdcode import CodedTable, VectorTable
from kdcode.codec import CodewordSpec, make_codec
from kdcode.comparison import BASELINES, compare, draw
from kdcode.data import glove_50d
from kdcode.errors import MissingExtraError, OptionError
from kdcode.evaluation import compare_tables, gaussian_limit
from kdcode.evaluation.rate_distortion import principal_variances


@pytest.fixture(scope="module")
def table():
    return glove_50d().head(1500)


def rounded(table, step):
    return VectorTable(table.symbols, (np.rint(table.matrix / step) * step).astype(np.float16))


def test_copies_are_measured_at_their_bytes(table):
    copies = {"fine": rounded(table, 0.1), "coarse": rounded(table, 1.0)}
    found = compare(table, copies)
    assert [(one.name, one.method, one.bytes) for one in found.contenders] == [
        ("fine", "file", 1500 * 50 * 2),
        ("coarse", "file", 1500 * 50 * 2),
    ]
    assert found.contenders[1].lost == compare_tables(table, copies["coarse"])
    assert found.shape == (1500, 50)
    assert found.original_bytes == 1500 * 50 * 4
    assert found.contenders[0].limit == pytest.approx(gaussian_limit(principal_variances(table), 16 * 50))
    assert kdcode.compare is compare


def test_a_coded_table_counts_codes_and_codebooks():
    coded = coded_table("grouped", rows=60, symbols=words(60))
    found = compare(coded, {"itself": coded}, ["int8"])
    assert found.contenders[0].bytes == coded.sizes.embedding
    assert found.contenders[0].lost.relative_error == 0


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_keep_to_the_bytes_of_each_copy(table, name):
    if name == "pq":
        pytest.importorskip("torch")
    copies = {"small": copy_of(table, 13), "large": copy_of(table, 25)}
    found = compare(table, copies, [name])
    made = [one for one in found.contenders if one.method == name]
    assert len(made) == 2
    for one, copy in zip(made, copies.values(), strict=True):
        assert 0.85 * copy.sizes.embedding < one.bytes <= copy.sizes.embedding
    assert made[0].lost.relative_error > made[1].lost.relative_error > 0
    assert made[0].setting != made[1].setting
    assert all(one.lost.match.by_symbol and one.lost.match.is_complete for one in made)


def copy_of(table, row_bytes):
    """A coded table of so many bytes for each row, and a codebook of next to nothing."""
    spec = CodewordSpec.named("linear", 50, 2, 8 * row_bytes, codebook_dtype="int8", codeword_dim=1)
    weights = {name: np.zeros(shape) for name, shape in spec.weight_shapes().items()}
    codes = np.zeros((len(table), 8 * row_bytes), dtype=np.int64)
    return CodedTable.from_codes(table.symbols, codes, make_codec(spec, weights))


def test_equal_sizes_are_made_once_and_what_does_not_fit_is_said(table):
    copies = {"a": rounded(table, 0.1), "b": rounded(table, 0.2)}
    found = compare(table, copies, ["int8", "int4"])
    assert [one.method for one in found.contenders] == ["file", "file", "int8", "int4"]
    tiny = copy_of(table, 1)
    assert compare(table, {"tiny": tiny}, ["int8"]).left_out == (("int8", tiny.sizes.embedding),)


def test_symbols_that_look_like_row_numbers_are_matched_as_symbols():
    matrix = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    table = VectorTable([str(row) for row in reversed(range(40))], matrix)
    found = compare(table, {"copy": rounded(table, 0.01)}, ["int8"])
    assert found.contenders[1].lost.mean_cosine > 0.99


def test_the_limit_is_a_line_around_the_contenders(table):
    found = compare(table, {"fine": rounded(table, 0.1)}, ["int4"])
    sizes, limits = found.limit_line()
    assert sizes[0] < min(one.bytes for one in found.contenders)
    assert sizes[-1] > max(one.bytes for one in found.contenders)
    assert (np.diff(limits) < 0).all()
    assert limits[10] == pytest.approx(gaussian_limit(found.variances, 8 * sizes[10] / 1500))


def test_everything_as_json_and_progress(table):
    told = []
    found = compare(table, {"fine": rounded(table, 0.1)}, ["int8"], on_progress=lambda *step: told.append(step))
    facts = json.loads(json.dumps(found.as_dict()))
    assert (facts["rows"], facts["embedding_dim"], facts["original_bytes"]) == (1500, 50, 300_000)
    assert facts["contenders"][1]["relative_error"] == found.contenders[1].lost.relative_error
    assert facts["contenders"][1]["setting"] == "all coordinates"
    assert facts["contenders"][0]["ratio"] == 2
    assert told == [(0, 2, "fine"), (1, 2, "making int8 in 150,000 B"), (2, 2, "")]


def test_what_cannot_be_is_refused(table):
    with pytest.raises(OptionError, match="baselines must be among int8, int4, pq, got 'int5'"):
        compare(table, {"a": table}, ["int5"])
    with pytest.raises(OptionError, match="at least one table"):
        compare(table, {})


@pytest.mark.parametrize(("suffix", "first"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_the_figure(table, tmp_path, suffix, first):
    pytest.importorskip("matplotlib")
    copies = {"fine.kdc": rounded(table, 0.1), "coarse.kdc": copy_of(table, 20), "$\\frac 語": rounded(table, 0.3)}
    found = compare(table, copies, ["int8", "int4"])
    path = tmp_path / f"figure.{suffix}"
    draw(found, path)
    assert path.read_bytes().startswith(first)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    if suffix == "svg":
        text = path.read_text()
        for label in ("recall@10", "relative squared error", "limit for Gaussian rows", "int4", "fine.kdc"):
            assert f"<!-- {label} -->" in text or label in text
        before = path.read_bytes()
        draw(found, path)
        assert path.read_bytes() == before  # nothing in it changes from one time to another


def test_figures_that_cannot_be_drawn(table, tmp_path, monkeypatch):
    found = compare(table, {"fine": rounded(table, 0.1)})
    with pytest.raises(OptionError, match=r"a figure is drawn as .svg, .png, .pdf"):
        draw(found, tmp_path / "figure.txt")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="matplotlib is required for figures and is not installed: pip install"):
        draw(found, tmp_path / "figure.svg")
