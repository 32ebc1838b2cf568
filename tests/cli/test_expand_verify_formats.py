import json

import numpy as np
import pytest

import kdcode
from kdcode.formats import FORMATS, read


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
    assert "valid" in result.stdout
    facts = json.loads(run("verify", kdc, "--json").stdout)
    assert facts["overhead_bytes"] == kdc.stat().st_size - coded.sizes.total
    assert facts["relative_error"] is None


def test_verify_against_the_original(run, kdc, coded, tmp_path):
    original = tmp_path / "original.parquet"
    kdcode.write(coded.to_table(), original)
    facts = json.loads(run("verify", kdc, original, "--json", "--quiet").stdout)
    assert facts["relative_error"] == 0.0
    assert "relative error 0.0000" in run("verify", kdc, original).stdout


def test_verify_fails_on_other_symbols_and_on_a_damaged_file(run, kdc, words):
    assert run("verify", kdc, words).exit_code == 1
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
    assert "pip install 'kdcode[parquet]'" in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_the_command(run, shell):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_KDCODE_COMPLETE" in result.stdout
