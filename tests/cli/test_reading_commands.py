"""info, get, neighbors, codes: they answer from a file, without torch."""

import json
from dataclasses import fields

import numpy as np
import pytest
from sample_tables import TRANSFORM_NAMES, codec_of, coded_table, words

import kdcode
from kdcode.options import LEARNER_OPTIONS, CompressOptions


def test_info(run, kdc, coded):
    result = run("info", kdc)
    assert result.exit_code == 0
    assert "K=4, D=3, 6 bits per symbol" in result.stdout
    assert f"{kdc.stat().st_size:,} B" in result.stdout
    assert f"{coded.spec.parameters:,} (excluding codes)" in result.stdout


def test_info_json_adds_up(run, kdc, coded):
    facts = json.loads(run("info", kdc, "--json").stdout)
    assert facts["file_bytes"] == kdc.stat().st_size == facts["sizes"]["total"] + facts["overhead_bytes"]
    assert facts["sizes"] == coded.sizes.as_dict()
    assert facts["ratio_embedding"] == 6 * 2 * 4 / coded.sizes.embedding
    assert facts["ratio_file"] == (6 * 2 * 4 + coded.sizes.symbols) / kdc.stat().st_size
    assert (facts["num_embeddings"], facts["embedding_dim"], facts["bits"]) == (6, 2, 6)
    assert (facts["codebook_size"], facts["code_length"], facts["composition"]) == (4, 3, "linear")
    assert (facts["codebook_dtype"], facts["groups"], facts["rotated"], facts["scale_bits"]) == ("float32", 1, False, 0)
    assert facts["parameters"] == 4 * 3 * 2


def test_info_of_a_rotated_table_with_scales(run, tmp_path):
    kdcode.save(coded_table("scaled-rotated", "int8"), tmp_path / "a.kdc")
    facts = json.loads(run("info", tmp_path / "a.kdc", "--json").stdout)
    assert (facts["codebook_dtype"], facts["groups"], facts["rotated"]) == ("int8", 2, True)
    assert (facts["composition"], facts["scale_bits"], facts["bits"]) == ("grouped", 3, 4 * 2 + 3)
    lines = run("info", tmp_path / "a.kdc").stdout.splitlines()
    assert "code         K=4, D=4, 3 bits of scale, 11 bits per symbol" in lines
    assert "composition  grouped of 2 groups, codewords of 4 int8 numbers, rotated" in lines


def test_info_shows_provenance_and_no_control_characters(run, tmp_path, coded):
    coded.provenance.update(learner="by hand", options={"seed": 7}, note="\x1b[31mred")
    kdcode.save(coded, tmp_path / "a.kdc")
    lines = [line.split() for line in run("info", tmp_path / "a.kdc").stdout.splitlines()]
    assert ["learner", "by", "hand"] in lines
    assert ["seed", "7"] in lines
    assert ["note", "\\x1b[31mred"] in lines


def test_info_shows_quality_only_where_it_was_measured(run, tmp_path, kdc, coded):
    assert "quality, measured" not in run("info", kdc).stdout
    coded.provenance.update(recall_at_10=0.684, shared_codes=5, relative_error=0.25)
    kdcode.save(coded, tmp_path / "a.kdc")
    text = run("info", tmp_path / "a.kdc").stdout
    assert "quality, measured when the file was made\n  relative error      0.2500 " in text
    assert "  nearest neighbours  68% of the nearest symbols are the same as before\n" in text
    assert "  shared codes        5 of 6 symbols have the same code as another\n" in text
    assert "recall_at_10" not in text
    assert json.loads(run("info", tmp_path / "a.kdc", "--json").stdout)["provenance"]["recall_at_10"] == 0.684


@pytest.mark.parametrize("value", [10**400, -1, "long", True, [], {"learner": 3}])
def test_info_of_a_file_whose_provenance_is_nonsense(run, tmp_path, coded, value):
    coded.provenance.update(dict.fromkeys(["recall_at_10", "shared_codes", "fingerprint", "learner", "options"], value))
    kdcode.save(coded, tmp_path / "a.kdc")
    assert run("info", tmp_path / "a.kdc").exit_code == 0


@pytest.mark.parametrize("learner", LEARNER_OPTIONS)
def test_info_shows_the_learner_that_ran_and_its_options_alone(run, tmp_path, coded, learner):
    options = CompressOptions.of(learner=learner, seed=7).as_dict()
    others = {field.name for kind in LEARNER_OPTIONS.values() for field in fields(kind)}
    coded.provenance.update(learner=learner, options=dict.fromkeys(others, "unused") | options, curve={"steps": 1})
    kdcode.save(coded, tmp_path / "a.kdc")
    lines = run("info", tmp_path / "a.kdc").stdout.split("learned with\n")[1].splitlines()
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    own = {field.name for field in fields(LEARNER_OPTIONS[learner]) if options[field.name] is not None}
    assert shown.keys() == {"learner", "loss", "seed", *own}
    assert (shown["learner"], shown["seed"], shown["loss"]) == (learner, "7", "squared")


def test_get_prints_vectors(run, kdc):
    # 3·1 + 1·0.125 + 2·0.0625 = 3.25, and its negative
    assert run("get", kdc, "france", "monday").stdout == "france 3.25 -3.25\nmonday 3.125 -3.125\n"


def test_get_json_and_codes(run, kdc):
    assert json.loads(run("get", kdc, "france", "--json").stdout) == [{"symbol": "france", "vector": [3.25, -3.25]}]
    assert run("get", kdc, "france", "--codes").stdout == "france 3-1-2\n"
    assert json.loads(run("get", kdc, "france", "--codes", "--json").stdout) == [
        {"symbol": "france", "code": [3, 1, 2]}
    ]


def test_get_reads_standard_input(run, kdc):
    result = run("get", kdc, "Paris", "-", "--codes", stdin="monday\n\ntuesday\r\n")
    assert result.stdout == "Paris 0-1-2\nmonday 3-1-0\ntuesday 3-1-0\n"


def test_get_of_an_unknown_symbol_prints_nothing_but_the_reason(run, kdc):
    result = run("get", kdc, "monday", "France")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "error: the table has no symbol 'France'; did you mean 'france'?\n"


def test_a_symbol_with_a_line_break_stays_on_its_line(run, kdc):
    assert run("get", kdc, "new\nline", "--codes").stdout == "new\\nline 0-1-2\n"
    assert json.loads(run("get", kdc, "new\nline", "--json").stdout)[0]["symbol"] == "new\nline"


def test_get_lists_all_that_is_missing(run, kdc):
    result = run("get", kdc, "France", "monday", "zebra", "France")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: the table has no symbols 'France' (did you mean 'france'?), 'zebra'\n"


def test_get_leaves_out_what_is_missing(run, kdc):
    result = run("get", kdc, "France", "monday", "ze\nbra", "--skip-missing")
    assert (result.exit_code, result.stdout) == (0, "monday 3.125 -3.125\n")
    assert result.stderr == "not in the file: France, ze\\nbra\n"
    nothing = run("get", kdc, "zebra", "--skip-missing")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert run("get", kdc, "zebra", "--skip-missing", "--json").stdout == "[]\n"


def test_neighbors_are_those_of_the_library(run, kdc, coded):
    (found,) = json.loads(run("neighbors", kdc, "france", "-k", "2", "--metric", "l2", "--json").stdout)
    expected = coded.neighbors("france", 2, metric="l2")
    assert [near["symbol"] for near in found["neighbors"]] == [near.symbol for near in expected]
    assert np.allclose([near["score"] for near in found["neighbors"]], [near.score for near in expected])
    lines = run("neighbors", kdc, "france", "-k", "2", "--metric", "l2").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [[f"{near.score:.4f}", near.symbol] for near in expected]


def test_neighbors_on_threads(run, kdc, coded, monkeypatch):
    asked = []
    found = type(coded).neighbors
    monkeypatch.setattr(
        type(coded), "neighbors", lambda *given, **how: asked.append(how["threads"]) or found(*given, **how)
    )
    symbol = coded.symbols[0]
    assert run("neighbors", kdc, symbol, "--threads", "2").output == run("neighbors", kdc, symbol).output
    assert asked == [2, None]
    assert "0 is not in the range x>=1" in run("neighbors", kdc, symbol, "--threads", "0").output


def test_neighbors_of_a_vector(run, kdc):
    found = json.loads(run("neighbors", kdc, "--vector", "3.25, -3.25", "--metric", "l2", "-k", "1", "--json").stdout)
    near = {"symbol": "france", "score": 0.0, "same_code_as": None}
    assert found == [{"query": [3.25, -3.25], "metric": "l2", "neighbors": [near]}]
    lines = run("neighbors", kdc, "--vector", "3.25 -3.25", "--metric", "l2", "-k", "1").stdout
    assert lines == "  0.0000  france\n"


def test_neighbors_with_the_same_code_are_marked(run, kdc):
    result = run("neighbors", kdc, "monday", "-k", "5", "--metric", "l2")
    assert result.stdout.splitlines() == [
        "  0.0000  tuesday  (same code as monday)",
        "  0.0000  wednesday  (same code as monday)",
        "  0.1768  france",
        "  4.0659  Paris",
        "  4.0659  new\\nline  (same code as Paris)",
    ]
    (found,) = json.loads(run("neighbors", kdc, "monday", "-k", "5", "--metric", "l2", "--json").stdout)
    assert [near["same_code_as"] for near in found["neighbors"]] == ["monday", "monday", None, None, "Paris"]


def test_neighbors_of_several_words_are_a_block_each(run, kdc, coded):
    result = run("neighbors", kdc, "france", "-", "-k", "1", "--metric", "l2", stdin="Paris\n\nfrance\n")
    assert result.stdout == (
        "france\n  0.1768  monday\n\nParis\n  0.0000  new\\nline  (same code as Paris)\n\nfrance\n  0.1768  monday\n"
    )
    found = json.loads(run("neighbors", kdc, "france", "Paris", "-k", "1", "--json").stdout)
    assert [answer["query"] for answer in found] == ["france", "Paris"]


def test_neighbors_of_missing_words(run, kdc):
    refused = run("neighbors", kdc, "France", "monday", "zebra")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "no symbols 'France' (did you mean 'france'?), 'zebra'" in refused.stderr
    skipped = run("neighbors", kdc, "France", "monday", "-k", "1", "--skip-missing")
    assert skipped.exit_code == 0
    assert skipped.stderr == "not in the file: France\n"
    assert skipped.stdout == "monday\n  1.0000  tuesday  (same code as monday)\n"
    assert run("neighbors", kdc, "France", "--skip-missing").stdout == ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("france", "--vector", "1 2"), 2),
        (("france", "-k", "0"), 2),
        (("--vector", "a b"), 1),
        (("--vector", "1"), 1),
    ],
)
def test_neighbors_refuses(run, kdc, words, code):
    result = run("neighbors", kdc, *words)
    assert result.exit_code == code
    assert result.stdout == ""


def test_codes_shows_the_largest_groups_first(run, kdc):
    result = run("codes", kdc)
    assert result.stdout == "3-1-0  monday tuesday wednesday\n0-1-2  Paris new\\nline\n"
    assert json.loads(run("codes", kdc, "--json").stdout)[1] == {"code": [0, 1, 2], "symbols": ["Paris", "new\nline"]}


def test_codes_with_a_prefix_are_sorted(run, kdc):
    assert run("codes", kdc, "--prefix", "3-1").stdout == "3-1-0  monday tuesday wednesday\n3-1-2  france\n"
    assert run("codes", kdc, "--prefix", "3-1-2").stdout == "3-1-2  france\n"


def test_codes_says_what_it_leaves_out(run, kdc):
    result = run("codes", kdc, "--limit", "1", "--min-group", "1")
    assert result.stdout == "3-1-0  monday tuesday wednesday\n"
    assert "2 more groups" in result.stderr
    none = run("codes", kdc, "--prefix", "2")
    assert (none.exit_code, none.stdout) == (0, "")
    assert "no code here" in none.stderr


@pytest.mark.parametrize("prefix", ["x", "", "1-2-3-0", "4", "3--1"])
def test_codes_refuses_what_is_no_prefix(run, kdc, prefix):
    result = run("codes", kdc, "--prefix", prefix)
    assert result.exit_code == 1
    assert "--prefix" in result.stderr


def test_groups_agree_with_a_plain_dictionary(run, tmp_path):
    codes = np.random.default_rng(3).integers(0, 3, size=(20_000, 5))  # more rows than one chunk
    codec = codec_of("linear", length=5, size=3)
    kdcode.save(kdcode.CodedTable.from_codes(None, codes, codec), tmp_path / "many.kdc")
    expected = {}
    for row, code in enumerate(codes.tolist()):
        expected.setdefault(tuple(code), []).append(str(row))
    found = json.loads(run("codes", tmp_path / "many.kdc", "--limit", "0", "--json").stdout)
    assert {tuple(group["code"]): group["symbols"] for group in found} == expected
    begun = json.loads(run("codes", tmp_path / "many.kdc", "--prefix", "2-0", "--limit", "0", "--json").stdout)
    assert [tuple(group["code"]) for group in begun] == sorted(code for code in expected if code[:2] == (2, 0))


def test_codes_of_rows_with_scales_end_with_the_level(run, tmp_path):
    codec = codec_of("scaled-linear", length=2, size=4)
    kdcode.save(kdcode.CodedTable.from_codes(list("abc"), np.array([[3, 1, 7], [3, 1, 0], [3, 1, 7]]), codec),
                tmp_path / "a.kdc")  # fmt: skip
    assert run("codes", tmp_path / "a.kdc").stdout == "3-1-7  a c\n"
    assert run("codes", tmp_path / "a.kdc", "--prefix", "3-1").stdout == "3-1-0  b\n3-1-7  a c\n"
    assert run("codes", tmp_path / "a.kdc", "--prefix", "3-1-7").stdout == "3-1-7  a c\n"
    refused = run("codes", tmp_path / "a.kdc", "--prefix", "3-1-8")
    assert refused.exit_code == 1
    assert "codes here have 3 integers in [0, 4), and the last in [0, 8)" in refused.stderr


@pytest.mark.parametrize("command", ["info", "get", "neighbors", "codes"])
def test_a_file_that_is_no_kdc_is_an_error_of_one_line(run, tmp_path, command):
    broken = tmp_path / "broken.kdc"
    broken.write_bytes(b"not a table at all")
    result = run(command, broken, *(["x"] if command in ("get", "neighbors") else []))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {broken}: ")
    assert result.stderr.count("\n") == 1


def test_a_missing_file_is_wrong_usage(run, tmp_path):
    assert run("info", tmp_path / "none.kdc").exit_code == 2


@pytest.fixture(params=TRANSFORM_NAMES)
def transform_file(request, tmp_path):
    kdcode.save(coded_table(request.param, rows=300, symbols=words(300)), tmp_path / f"{request.param}.kdc")
    return tmp_path / f"{request.param}.kdc"


def test_info_says_what_transform_codes_are(run, transform_file):
    coded, lines = kdcode.load(transform_file), run("info", transform_file).stdout.splitlines()
    together, few, most = coded.spec.rows_per_block, min(coded.spec.lengths), max(coded.spec.lengths)
    blocks = f", for blocks of {together} rows" if together > 1 else ""
    if "plain" not in transform_file.stem:
        each = f"{coded.packed.nbytes * together / 300:.1f} bytes on average, 6 lengths from {few} to {most}"
        assert f"code         a level for each dimension, {each}{blocks}" in lines
        assert "composition  transform, rotation of 3 reflections, 64 states" in lines
    else:
        assert f"code         a level for each dimension, {most} bytes{blocks}" in lines
        assert "composition  transform, no rotation, 32 states" in lines
    assert ("centroids    5, 6 bits a number" in lines) == ("centroids" in transform_file.stem)
    assert not any("codebook" in line or "K=" in line for line in lines)
    facts = json.loads(run("info", transform_file, "--json").stdout)
    assert facts["sizes"] == coded.sizes.as_dict()
    assert facts["lengths"] == list(coded.spec.lengths)
    assert (facts["composition"], facts["states"]) == ("transform", coded.spec.states)
    assert "groups" not in facts


def test_transform_codes_are_shown_as_levels(run, transform_file):
    coded = kdcode.load(transform_file)
    word = words(300)[0]
    *values, row_class, sides = coded.code_of(word)
    levels = [(value + 1) // 2 if value % 2 else -(value // 2) for value in values[:7]]
    block = f" of {coded.spec.rows_per_block} rows" if "blocks" in transform_file.stem else ""
    beginning = f"from centroid {values[7]}: " if coded.spec.centroids else ""
    shown = f"{beginning}{' '.join(map(str, levels))} ({coded.spec.lengths[row_class]} bytes{block}, sides "
    found = run("get", transform_file, word, "--codes").stdout
    assert found.startswith(f"{word} {shown}")
    assert found.removeprefix(f"{word} {shown}").rstrip(")\n") == f"{sides:b}"[1:].translate({49: "+", 48: "-"})
    [group, *_] = json.loads(run("codes", transform_file, "--json").stdout)
    assert coded.symbols_with_code(group["code"]) == group["symbols"]
    assert "sides" in run("codes", transform_file).stdout
    refused = run("codes", transform_file, "--prefix", "3-1")
    assert refused.exit_code == 1
    assert "--prefix: this table has transform codes, whose integers are levels of coordinates" in refused.stderr


def test_other_commands_read_transform_codes(run, transform_file, tmp_path):
    coded, word = kdcode.load(transform_file), words(300)[7]
    numbers = run("get", transform_file, word).stdout.split()[1:]
    np.testing.assert_array_equal(np.array(numbers, dtype=np.float32), coded[word])
    near = run("neighbors", transform_file, word, "-k", "3").stdout
    assert [line.split()[1] for line in near.splitlines()] == [one.symbol for one in coded.neighbors(word, 3)]
    assert "is valid and undamaged" in run("verify", transform_file).stdout
    assert run("expand", transform_file, tmp_path / "all.npy").exit_code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "all.npy"), coded.decode(np.arange(300)))
    for target, said in (
        ("a.onnx", "ONNX has no operators that read transform"),
        ("a.faiss", "transform codes have none"),
    ):
        refused = run("export", transform_file, tmp_path / target)
        assert refused.exit_code == 1
        assert said in refused.stderr
        assert not (tmp_path / target).exists()
