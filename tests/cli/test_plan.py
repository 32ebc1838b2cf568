import json

import pytest

import kdcode
from kdcode.data import glove_50d


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "vectors.txt"
    kdcode.write(glove_50d().head(300), path, format="glove")
    return path


def test_the_starred_setting_is_the_one_that_compress_takes(run, vectors, tmp_path):
    planned = run("plan", vectors, "--size", "12x", "--effort", "fast")
    assert planned.exit_code == 0
    lines = planned.stdout.splitlines()
    assert lines[0] == "300 x 50 within 12x"
    (starred,) = [line.split() for line in lines if line.startswith("*")]
    target = tmp_path / "out.kdc"
    result = run("compress", vectors, target, "--size", "12x", "--effort", "fast")
    assert result.exit_code == 0
    coded = kdcode.load(target)
    assert f" {coded.codebook_size} {coded.code_length} int8 " in " ".join(starred)
    assert coded.sizes.ratio(300, 50) >= 12
    assert f"K={coded.codebook_size}, D={coded.code_length}, {coded.composition.name}, int8" in result.stderr


def test_json_has_the_recommended_one_first(run, vectors):
    found = json.loads(run("plan", vectors, "--bits", "32", "--effort", "fast", "--json", "--quiet").stdout)
    errors = [candidate["relative_error"] for candidate in found]
    assert errors == sorted(errors)
    assert {"codebook_size", "codes", "codebook", "embedding", "seconds", "ratio_embedding"} <= found[0].keys()


@pytest.mark.parametrize("limits", [(), ("--size", "20x", "--bits", "8")])
def test_one_limit_is_needed(run, vectors, limits):
    result = run("plan", vectors, *limits)
    assert result.exit_code == 2
    assert "one of --size, --bits and --max-error" in result.stderr


@pytest.mark.parametrize(("flag", "value"), [("-K", "8"), ("--numbers", "int8"), ("--composition", "product")])
def test_compress_refuses_what_the_size_decides(run, vectors, tmp_path, flag, value):
    result = run("compress", vectors, tmp_path / "out.kdc", "--size", "12x", flag, value)
    assert result.exit_code == 2
    assert "is chosen for the size; leave it or the size out" in result.stderr
    assert not (tmp_path / "out.kdc").exists()


def test_a_size_that_cannot_be_is_refused(run, vectors, tmp_path):
    result = run("compress", vectors, tmp_path / "out.kdc", "--size", "9999x")
    assert result.exit_code == 1
    assert "size 9999x: too small for this table" in result.stderr
    assert run("plan", vectors, "--size", "twenty").exit_code == 1


@pytest.mark.parametrize("form", ["named", "plain"])
def test_weights_of_a_file_count(run, vectors, tmp_path, form):
    table = kdcode.read(vectors)
    numbers = [100 if row < 30 else 1 for row in range(300)]
    lines = [f"{symbol}\t{number}" for symbol, number in zip(table.symbols, numbers, strict=True)]
    path = tmp_path / "weights.txt"
    path.write_text("\n".join([*reversed(lines), "unheard-of 7"] if form == "named" else map(str, numbers)))
    target = tmp_path / "out.kdc"
    flags = ("-K", "8", "-D", "6", "--effort", "fast", "--numbers", "float32")
    assert run("compress", vectors, target, *flags, "--weights", path).exit_code == 0
    expected = kdcode.compress(
        kdcode.VectorTable(table.symbols, table.matrix, numbers), codebook_size=8, code_length=6, effort="fast",
        numbers="float32",
    )  # fmt: skip
    assert kdcode.load(target).provenance["weighted_error"] == expected.provenance["weighted_error"]
    assert run("plan", vectors, "--size", "10x", "--effort", "fast", "--weights", path).exit_code == 0


def test_a_file_of_no_weights_is_refused(run, vectors, tmp_path):
    path = tmp_path / "weights.txt"
    path.write_text("the many\n")
    result = run("compress", vectors, tmp_path / "out.kdc", "--weights", path)
    assert result.exit_code == 1
    assert "expected lines of a symbol and a number, or of numbers alone" in result.stderr
    path.write_text("1\n2\n")
    assert "expected one number for each of 300 rows" in run("plan", vectors, "--bits", 8, "--weights", path).stderr
