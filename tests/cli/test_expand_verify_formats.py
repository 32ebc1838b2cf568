import json

import numpy as np
import pytest

import kdcode
from kdcode.io import FORMATS, read


def test_expand_writes_the_decoded_vectors(run, tmp_path, coded):
    plain = kdcode.CodedTable.from_codes(["a", "b"], coded.codes[:2], coded.codec)
    kdcode.save(plain, tmp_path / "plain.kdc")
    result = run("expand", tmp_path / "plain.kdc", tmp_path / "out.txt")
    assert result.exit_code == 0, result.stderr
    assert "2 x 2" in result.stdout
    table = read(tmp_path / "out.txt")
    assert list(table.symbols) == ["a", "b"]
    assert np.array_equal(table.matrix, plain.decode([0, 1]))


def test_expand_keeps_what_is_there(run, kdc, tmp_path):
    target = tmp_path / "out.parquet"
    target.write_text("mine")
    assert run("expand", kdc, target).exit_code == 1
    assert target.read_text() == "mine"
    assert run("expand", kdc, target, "--force").exit_code == 0
    assert len(read(target)) == 6
    assert run("expand", kdc, kdc, "--force").exit_code == 1


def test_expand_refuses_an_unknown_format(run, kdc, tmp_path):
    result = run("expand", kdc, tmp_path / "out.txt", "--format", "pickle")
    assert result.exit_code == 1
    assert "pickle" in result.stderr
    assert not (tmp_path / "out.txt").exists()


def test_verify_a_good_file(run, kdc, coded):
    result = run("verify", kdc)
    assert result.exit_code == 0
    overhead = kdc.stat().st_size - coded.sizes.total
    assert result.stdout.splitlines() == [
        f"{kdc} is valid and undamaged: {kdc.stat().st_size} B, of which {overhead} B are header and digests",
        "  shared codes  5 of 6 symbols have the same code as another",
    ]
    facts = json.loads(run("verify", kdc, "--json").stdout)
    assert facts == {
        "file": str(kdc),
        "original": None,
        "file_bytes": kdc.stat().st_size,
        "overhead_bytes": overhead,
        "num_embeddings": 6,
        "shared_codes": 5,
        "recorded_error": None,
    }


def test_verify_against_the_original(run, kdc, coded, tmp_path):
    original = tmp_path / "original.parquet"
    kdcode.write(coded.to_table(), original)
    facts = json.loads(run("verify", kdc, original, "--json", "--quiet").stdout)
    assert (facts["relative_error"], facts["mean_cosine"], facts["recall_at_10"]) == (0.0, pytest.approx(1.0), 1.0)
    assert (facts["match"]["rows"], facts["match"]["by_symbol"], facts["match"]["same_order"]) == (6, True, True)
    assert run("verify", kdc, original).stdout.splitlines()[1:] == [
        f"compared with {original}: all 6 symbols",
        "  relative error      0.0000   (0: perfect, 1: the mean vector for every row)",
        "  mean cosine         1.0000   (between a vector and its copy)",
        "  worst rows          cosine below 1.000 for 1 in 100, 1.000 for the worst",
        "  nearest neighbours  100% of the nearest symbols are the same as before",
        "  shared codes        5 of 6 symbols have the same code as another",
    ]


def test_verify_compares_with_the_recorded_error(run, kdc, coded, tmp_path):
    original = tmp_path / "original.parquet"
    table = coded.to_table()
    moved = kdcode.VectorTable(table.symbols, table.matrix + 0.25)
    kdcode.write(moved, original)
    coded.provenance["relative_error"] = round(kdcode.evaluate(moved, coded).relative_error, 6)
    kdcode.save(coded, kdc)
    good = run("verify", kdc, original)
    assert good.exit_code == 0
    assert "  recorded error      0.0" in good.stdout
    assert json.loads(run("verify", kdc, original, "--json").stdout)["is_as_recorded"] is True
    kdcode.write(table, original)
    other = run("verify", kdc, original)
    assert other.exit_code == 1
    assert f"its relative error against {original} is 0, and 0.0" in other.stderr
    assert other.stderr.endswith(" was recorded when it was made; it was made from another table\n")
    assert json.loads(run("verify", kdc, original, "--json").stdout)["is_as_recorded"] is False


def test_verify_against_the_same_symbols_in_another_order(run, kdc, coded, tmp_path):
    original, table = tmp_path / "original.parquet", coded.to_table()
    kdcode.write(kdcode.VectorTable(table.symbols[::-1], table.matrix[::-1]), original)
    result = run("verify", kdc, original)
    assert result.exit_code == 0
    assert f"compared with {original}: all 6 symbols, which are in another order there" in result.stdout
    assert "  relative error      0.0000 " in result.stdout


def test_verify_says_which_symbols_differ(run, kdc, coded, tmp_path):
    original, table = tmp_path / "original.parquet", coded.to_table()
    symbols = [*table.symbols[:4], *(f"new {number}" for number in range(8))]
    kdcode.write(kdcode.VectorTable(symbols, np.resize(table.matrix, (12, 2))), original)
    result = run("verify", kdc, original)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:4] == [
        f"compared with {original}: the 4 symbols that both have",
        f"8 symbols are only in {original}: new 0, new 1, new 2, new 3, new 4, …",
        f"2 symbols are only in {kdc}: Paris, new\\nline",
    ]
    assert "  relative error      0.0000 " in result.stdout
    assert result.stderr == f"error: {kdc}: its symbols are not those of {original}: 8 are missing, 2 are added\n"
    in_json = run("verify", kdc, original, "--json", "--quiet")
    assert in_json.exit_code == 1
    match = json.loads(in_json.stdout)["match"]
    assert (match["rows"], match["only_in_original"], match["only_in_copy"]) == (4, 8, 2)
    assert (match["missing"], match["added"]) == ([f"new {number}" for number in range(5)], ["Paris", "new\nline"])


def test_verify_against_rows_without_symbols(run, kdc, coded, tmp_path):
    np.save(tmp_path / "original.npy", coded.to_table().matrix)
    result = run("verify", kdc, tmp_path / "original.npy")
    assert result.exit_code == 0, result.stderr
    assert "row by row, since there are no symbols to match: 6 rows" in result.stdout
    np.save(tmp_path / "original.npy", coded.to_table().matrix[:4])
    refused = run("verify", kdc, tmp_path / "original.npy")
    assert refused.exit_code == 1
    assert "the original has no symbols, so rows are compared by number" in refused.stderr


def test_verify_fails_on_other_symbols_and_on_a_damaged_file(run, kdc, words):
    result = run("verify", kdc, words)
    assert result.exit_code == 1
    assert "dimension" in result.stderr
    damaged = kdc.read_bytes()
    kdc.write_bytes(damaged[:-1])
    result = run("verify", kdc)
    assert result.exit_code == 1
    assert result.stderr.startswith("error:")


def test_formats_lists_them_all(run):
    listed = json.loads(run("formats", "--json").stdout)
    assert [item["name"] for item in listed] == list(FORMATS)
    assert all(item["write"] == (FORMATS[item["name"]].write is not None) for item in listed)
    text = run("formats").stdout
    assert all(name in text for name in FORMATS)
    assert "pip install 'pyarrow>=" in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_the_command(run, shell):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_KDCODE_COMPLETE" in result.stdout
