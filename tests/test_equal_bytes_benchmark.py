"""The benchmarks against peers: settings keep to their bytes, and a tiny run measures every method."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scripts import printed_by

FOLDER = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(FOLDER))
import own_process  # noqa: E402
from equal_bytes import EVERYONE, LIMIT, SHORTLIST, _expected_error, _fit_peer, _overlap  # noqa: E402
from own_process import measured_apart  # noqa: E402
from peer_kinds import Fitted, Peer  # noqa: E402
from peers import PEERS  # noqa: E402

METHODS = EVERYONE
ONLY_COUNTED = "entropy-coded scalar"
WITHOUT_ENCODER = ("int8 rows", "int4 rows", "SVD, float16", ONLY_COUNTED)


def measured_here(script, arguments, kept, threads, minutes=None):
    """As `measured_apart`, in this process: to import torch and faiss again takes longer than a tiny measurement."""
    return json.loads(printed_by(Path(script), *arguments))


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("equal_bytes")
    output, figure = folder / "r.json", folder / "f.svg"
    options = ["--tables", "tiny", "--times", "8,16", "--work", folder / "work", "--output", output, "--figure", figure]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_process, "measured_apart", measured_here)
        printed_by(FOLDER / "equal_bytes.py", *options, "--threads", "1")
    assert figure.stat().st_size > 1000
    return json.loads(output.read_text())


def test_every_method_keeps_to_the_bytes(result):
    assert [row["method"] for row in result["rows"]] == 2 * METHODS
    for row in result["rows"]:
        assert row["bytes"] is None or row["bytes"] <= 400 * 50 * 4 // row["times"]
    assert {"kdcode", "torch", "faiss-cpu", "numpy"} <= result["versions"].keys()


@pytest.mark.parametrize("times", [8, 16])
def test_errors_and_speeds_are_measured(result, times):
    rows = {row["method"]: row for row in result["rows"] if row["bytes"] and row["times"] == times}
    ours = rows["kdcode"]
    limit = rows.pop(LIMIT)["relative_error"]
    assert all(ours["relative_error"] < rows[name]["relative_error"] for name in ("faiss OPQ", "faiss RQ", "int4 rows"))
    assert 0.3 < ours["neighbour_overlap"] < 1
    for row in rows.values():
        assert limit < row["relative_error"] < 1
        assert row["mean_cosine"] > 0.5
        assert (row["decode_rows_per_second"] is None) == (row["method"] == ONLY_COUNTED)
        assert (row["encode_rows_per_second"] is None) == (row["method"] in WITHOUT_ENCODER)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("times", [5, 30])
def test_settings_keep_to_the_bytes(peer, times):
    most = 5000 * 24 * 4 // times
    settings = list(peer.settings(5000, 24, most))
    assert settings
    assert all(size <= most for _, size in settings)


def test_settings_are_ranked_by_the_error_that_all_rows_will_have():
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(30_000, 4)).astype(np.float32)
    peer = next(peer for peer in PEERS if peer.name == "faiss PQ")
    for bits in (5, 10):  # the second has codewords for every eighth row that is looked at
        setting = {"positions": 1, "bits": bits}
        error = np.square(peer.look(vectors, setting).copy - vectors).sum(axis=1).mean()
        assert _expected_error(vectors, peer.look, setting) == pytest.approx(error, rel=0.03)


def test_the_second_look_has_the_last_word_among_the_first_few():
    vectors, learned = np.zeros((20, 4), dtype=np.float32), []

    def fit(vectors, setting):
        learned.append(setting["error"])
        return Fitted(vectors + setting["error"], None, None)

    def settings(rows, dim, most):
        return (({"error": error, "looks_like": looks_like}, most) for error, looks_like in pairs)

    def look(vectors, setting):
        return Fitted(vectors + setting["looks_like"], None, None)

    def second(vectors, setting):
        return Fitted(vectors + setting["error"], None, None)

    pairs = [(20 - seen, seen) for seen in range(20)]  # what looks best is worst
    assert _fit_peer(vectors, Peer("made", settings, fit, look=look, second_look=second), 9)[0]["looks_like"] == 5
    assert learned == [20 - SHORTLIST + 1]
    assert _fit_peer(vectors, Peer("made", settings, fit, look=look, learned=3), 9)[0]["looks_like"] == 2
    assert learned[1:] == [20, 19, 18]


def test_neighbours_that_stay_are_counted():
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(300, 10)).astype(np.float32)
    assert _overlap(vectors, 3 * vectors) == 1
    assert _overlap(vectors, draw.normal(size=(300, 10)).astype(np.float32)) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "flags"),
    [("scaling.py", ["--tiny"]), ("equal_bits.py", ["--positions", "2", "--methods", "kdcode, fast;faiss RQ"])],
)
def test_the_other_benchmarks_write_their_results(script, flags, tmp_path):
    output = tmp_path / "r.json"
    printed_by(FOLDER / script, *flags, "--work", tmp_path / "work", "--output", output)
    rows = json.loads(output.read_text())["rows"]
    assert rows
    assert all(0 < row["relative_error"] < 1 for row in rows)


def test_made_tables_have_any_size():
    from scaling import BASE, VARIED, made_table, points

    real = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float16)
    made = made_table(real, 120, 15)
    assert made.matrix.shape == (120, 15)
    assert np.abs(made.matrix.mean()) < 0.3
    assert 0.5 < made.matrix.std() < 0.9  # the mean of two has 0.71 of the spread
    assert len(points(BASE, VARIED)) == 14


def test_a_measurement_is_given_up_in_time_and_kept(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, time; time.sleep(float(sys.argv[1])); print('{\"error\": 1}')")
    slow, quick = tmp_path / "slow.json", tmp_path / "quick.json"
    assert measured_apart(str(script), ["60"], slow, 1, minutes=0.02) == {"unfinished_minutes": 0.02}
    assert measured_apart(str(script), ["0"], quick, 1, minutes=1) == {"error": 1}
    script.write_text("raise SystemExit(1)")
    assert measured_apart(str(script), ["0"], quick, 1) == {"error": 1}  # not measured again


def test_a_run_of_some_cells_leaves_the_others_of_the_result(tmp_path):
    work, output = tmp_path / "work", tmp_path / "r.json"
    work.mkdir()
    record = {"setting": {}, "bytes": 2000, "relative_error": 0.5, "train_seconds": 1.0}
    (work / "tiny-8x-int8_rows.json").write_text(json.dumps(record))
    (work / "tiny-8x-faiss_LSQ.json").write_text('{"unfinished_minutes": 5}')

    def run(methods):
        options = ["--tables", "tiny", "--times", "8", "--methods", methods, "--figure", tmp_path / "f.svg"]
        told = printed_by(FOLDER / "equal_bytes.py", *options, "--work", work, "--output", output)
        return told, {row["method"]: row for row in json.loads(output.read_text())["rows"]}

    told, rows = run("int8 rows;faiss LSQ")
    assert list(rows) == ["faiss LSQ", "int8 rows"]  # as methods are listed
    assert rows["faiss LSQ"]["bytes"] is None
    assert "not finished" in told
    (work / "tiny-8x-int8_rows.json").write_text(json.dumps({**record, "relative_error": 0.4}))
    told, rows = run("int8 rows")
    assert rows["int8 rows"]["relative_error"] == 0.4
    assert rows.keys() == {"faiss LSQ", "int8 rows"}
    assert "faiss LSQ" not in told
