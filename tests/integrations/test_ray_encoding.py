"""Slices encoded on Ray: the same bytes as in one process, whatever happens to workers, and nothing left behind.

Ray is started twice: once in this process for most tests, and once by a real run of the command.
"""

import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from sample_tables import codec_of

import kdcode
from kdcode import CodedTable, assemble, encode_parts
from kdcode.bulk import EncodeSettings
from kdcode.errors import FileAccessError, FormatError, KdcodeError, MissingExtraError, MissingFileError, OptionError
from kdcode.integrations import ray_encoding
from kdcode.integrations.ray_encoding import Attempts, RayEngine

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, and of the processes that it leaves to the system

DIM, PARTS, ROWS = 8, 3, 2000
SETTINGS = EncodeSettings(beam=4, sweeps=1, rows_per_slice=250)
SLICES = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with parts, a codebook, and in `local` what one process makes of them."""
    folder = tmp_path_factory.mktemp("ray")
    (folder / "parts").mkdir()
    for part in range(PARTS):
        rows = np.random.default_rng(part).normal(size=(ROWS, DIM)).astype(np.float32)
        np.save(folder / "parts" / f"p{part}.npy", rows)
    codec = codec_of("linear", "int8", length=4, size=16, dim=DIM)
    kdcode.save(CodedTable.of_codec(codec, {"learner": "none"}), folder / "cb.kdc")
    encode_parts(str(folder / "parts"), folder / "local", folder / "cb.kdc", settings=SETTINGS)
    return folder


@pytest.fixture(scope="module")
def running_ray():
    """Ray in this process, as a program that uses it has it."""
    before = signal.getsignal(signal.SIGTERM)  # Ray's own handler would stay, and end this process in other tests
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    signal.signal(signal.SIGTERM, before)
    yield ray
    ray.shutdown()


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def workers_of(process):
    """The processes below one that encode slices."""
    found = []
    for child in process.children(recursive=True):
        try:
            found += [child] if "SliceWorker" in " ".join(child.cmdline()) else []
        except psutil.Error:
            continue  # it has just ended
    return found


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_no_row(folder, running_ray, tmp_path):
    killed = []

    def kill_one(now):
        if now.slices_done and not killed:
            worker = workers_of(psutil.Process())[0]
            os.kill(worker.pid, signal.SIGKILL)
            killed.append(worker.pid)

    report = encode_parts(
        str(folder / "parts"),
        tmp_path / "out",
        folder / "cb.kdc",
        settings=SETTINGS,
        engine=RayEngine(workers=2),
        progress=kill_one,
    )
    assert len(killed) == 1
    assert not psutil.pid_exists(killed[0])
    assert report.encoded == list(range(SLICES))
    assert files(tmp_path / "out") == files(folder / "local")
    assert running_ray.is_initialized()  # it was not ours to end
    assemble(folder / "local", tmp_path / "local.kdc", folder / "cb.kdc")
    assemble(tmp_path / "out", tmp_path / "ray.kdc", folder / "cb.kdc")
    assert (tmp_path / "local.kdc").read_bytes() == (tmp_path / "ray.kdc").read_bytes()


@pytest.mark.slow
def test_a_damaged_part_is_told_as_it_is_in_one_process(folder, running_ray, tmp_path):
    (tmp_path / "parts").mkdir()
    for part in range(2):
        rows = np.load(folder / "parts" / f"p{part}.npy")
        rows[700 if part else 0, 3] = np.nan if part else 0.0
        np.save(tmp_path / "parts" / f"p{part}.npy", rows)
    with pytest.raises(FormatError) as caught:
        encode_parts(
            str(tmp_path / "parts"), tmp_path / "out", folder / "cb.kdc", settings=SETTINGS, engine=RayEngine(workers=2)
        )
    assert str(caught.value) == f"{tmp_path / 'parts' / 'p1.npy'}: row 700: has a value that is not a finite float32"
    np.save(tmp_path / "parts" / "p1.npy", np.load(folder / "parts" / "p1.npy"))
    with pytest.raises(kdcode.errors.CheckpointError, match=r"p1.npy has changed"):
        encode_parts(str(tmp_path / "parts"), tmp_path / "out", folder / "cb.kdc", settings=SETTINGS)
    assert not list((tmp_path / "out").glob(".kdcode-*"))


def wait_for_codes(folder, process):
    while process.poll() is None and not list(folder.glob("codes-*")):
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()


@pytest.mark.slow
def test_ctrl_c_ends_ray_too_and_the_run_goes_on_elsewhere(folder, tmp_path):
    out = tmp_path / "out"
    line = [sys.executable, "-m", "kdcode", "encode", folder / "parts", out, "--codebook", folder / "cb.kdc"]
    line += ["--beam", "4", "--sweeps", "1", "--rows-per-slice", "250", "--engine", "ray", "--workers", "2"]
    process = subprocess.Popen(list(map(str, line)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_codes(out, process)
    started = psutil.Process(process.pid).children(recursive=True)
    assert any("raylet" in child.name() for child in started)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    gone, alive = psutil.wait_procs(started, timeout=60)
    assert not alive
    assert len(gone) == len(started)
    assert stdout == ""
    kept = sorted(path.name for path in out.glob("codes-*"))
    written = [text for text in stderr.splitlines() if not text.startswith("encoding")]  # lines of progress
    if process.returncode == 0:
        pytest.skip("all slices were there before the signal was")
    assert process.returncode == 130, stderr
    assert written == [
        f"{PARTS * ROWS:,} rows in {SLICES} slices; codes will take {PARTS * ROWS * 2:,} B, with ids more",
        f"interrupted; {len(kept)} of {SLICES} slices are written, and the same command goes on with the others",
    ]
    assert {path.name for path in out.iterdir()} == {*kept, "manifest.json"}
    report = encode_parts(str(folder / "parts"), out, folder / "cb.kdc", settings=SETTINGS)
    assert len(report.encoded) == SLICES - len(kept)
    assert files(out) == files(folder / "local")


@pytest.mark.slow
def test_a_slice_that_kills_every_worker_is_given_up(folder, running_ray, tmp_path, monkeypatch):
    def deadly(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    from kdcode.codec.block_sum import BlockSum

    class Deadly(BlockSum):
        as_float32 = deadly

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    codec = kdcode.load(folder / "cb.kdc").codec
    codebook = CodedTable.of_codec(Deadly(codec.spec, codec.stored))
    with pytest.raises(KdcodeError, match="4 workers died while they encoded rows 0 to"):
        encode_parts(str(folder / "parts" / "p0.npy"), tmp_path / "out", codebook, engine=RayEngine(workers=1))
    assert not list((tmp_path / "out").glob("codes-*"))


def test_slices_are_counted_when_they_are_begun():
    attempts = Attempts()
    assert [attempts.begin(3), attempts.begin(4), attempts.begin(3), attempts.begin(3)] == [0, 0, 1, 2]


@pytest.mark.parametrize(
    "error",
    [
        FormatError("p.npy: row 3: is bad"),
        MissingFileError(2, "there is no such file", "p.npy"),
        FileAccessError(13, "cannot be read: Permission denied", "p.npy"),
        MissingExtraError("reading Parquet", "parquet"),
    ],
)
def test_refusals_cross_processes_as_they_are(error):
    found = ray_encoding._refusal_of(ray_encoding._told(error))
    assert type(found) is type(error)
    assert str(found) == str(error)


def test_a_refusal_of_another_class_becomes_the_one_above_it():
    class OwnError(FormatError):
        pass

    assert type(ray_encoding._refusal_of(ray_encoding._told(OwnError("x")))) is FormatError


def test_less_than_one_worker_is_refused():
    with pytest.raises(OptionError, match="workers must be an integer from 1, got 0"):
        RayEngine(workers=0)


def test_without_ray_the_line_to_install_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ray\[data\]>=2.40'"):
        RayEngine().check()
