import os
import signal
import threading

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.learning.checkpoint_file import read_checkpoint
from kdcode.learning.interrupts import StoppedBySignal, ending_by_signal, stopping_at_safe_places
from kdcode.learning.planning.predictor import Predictor
from kdcode.options import CompressOptions

INTERRUPT, *ENDING = ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def each_signal(numbers=ALL):
    return pytest.mark.parametrize("number", numbers, ids=lambda number: number.name)


def ends_with(number):
    """What a run raises that a signal has ended."""
    return pytest.raises(KeyboardInterrupt if number == INTERRUPT else StoppedBySignal)


@each_signal()
def test_the_first_signal_waits_for_a_safe_place(number):
    before = {each: signal.getsignal(each) for each in ALL}
    reached = []

    def work():
        with stopping_at_safe_places(on_asked=reached.append) as stop_if_asked:
            stop_if_asked()
            os.kill(os.getpid(), number)
            reached.append("the work goes on")
            stop_if_asked()
            reached.append("never")

    with ends_with(number):
        work()
    assert reached == [number, "the work goes on"]
    assert {each: signal.getsignal(each) for each in ALL} == before


@each_signal()
def test_the_second_does_not_wait(number):
    reached = []

    def work():
        with stopping_at_safe_places():
            os.kill(os.getpid(), INTERRUPT)
            reached.append("after the first")
            os.kill(os.getpid(), number)
            reached.append("after the second")

    with ends_with(number):
        work()
    assert reached == ["after the first"]


@each_signal(ENDING)
def test_the_process_ends_as_shells_expect(number):
    stopped = StoppedBySignal(number)
    assert (stopped.code, stopped.signal) == (128 + number, number)
    assert str(stopped) == f"stopped by {number.name}"
    assert isinstance(stopped, SystemExit)


@each_signal(ENDING)
def test_where_there_is_no_safe_place_files_are_closed_at_once(number):
    done = []

    def work():
        try:
            with ending_by_signal():
                os.kill(os.getpid(), number)
                done.append("it went on")
        finally:
            done.append("closed")

    with ends_with(number):
        work()
    assert done == ["closed"]
    assert signal.getsignal(number) == signal.SIG_DFL


@each_signal(ENDING)
def test_a_safe_place_within_waits(number):
    reached = []

    def work():
        with ending_by_signal(), stopping_at_safe_places() as stop_if_asked:
            os.kill(os.getpid(), number)
            reached.append("the work goes on")
            stop_if_asked()

    with ends_with(number):
        work()
    assert reached == ["the work goes on"]


def test_a_signal_that_is_ignored_stays_ignored():
    """`nohup` starts a command so that the end of its terminal does nothing."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_by_signal(), stopping_at_safe_places() as stop_if_asked:
            os.kill(os.getpid(), signal.SIGHUP)
            stop_if_asked()
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_where_nothing_is_to_be_saved_ctrl_c_does_not_wait():
    def work():
        with stopping_at_safe_places(hold=False):
            os.kill(os.getpid(), signal.SIGINT)
            pytest.fail("it went on")

    with pytest.raises(KeyboardInterrupt):
        work()


def test_a_handler_of_the_caller_is_left_alone():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("mine"))
    try:
        with stopping_at_safe_places() as stop_if_asked:
            os.kill(os.getpid(), signal.SIGINT)
            stop_if_asked()
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == ["mine"]


def test_a_block_within_another_leaves_ctrl_c_to_it():
    reached = []

    def work():
        with stopping_at_safe_places() as stop_if_asked, stopping_at_safe_places() as inner:
            os.kill(os.getpid(), signal.SIGINT)
            inner()
            reached.append("the inner one knows nothing")
            stop_if_asked()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached


def test_other_threads_do_not_handle_signals():
    done = []

    def work():
        with stopping_at_safe_places() as stop_if_asked:
            stop_if_asked()
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.default_int_handler]


@each_signal()
def test_a_signal_in_python_writes_the_checkpoint_first(tmp_path, number):
    """The step is finished, so that the same call ends as if nothing had happened."""
    table, path = glove_50d().head(200), tmp_path / "c"
    options = CompressOptions.of(codebook_size=8, code_length=9, effort="fast")
    steps = []

    def press(report):
        steps.append(report.step)
        if report.step == 3:
            os.kill(os.getpid(), number)

    with ends_with(number):
        kdcode.compress(table, options=options, progress=press, checkpoint=path)
    assert steps == [1, 2, 3]
    assert [entry.name for entry in tmp_path.iterdir()] == ["c"]
    resumed = kdcode.compress(
        table, options=options, progress=lambda report: steps.append(report.step), checkpoint=path
    )
    assert steps[3] == 4
    np.testing.assert_array_equal(resumed.codes, kdcode.compress(table, options=options).codes)


@each_signal()
def test_a_signal_during_planning_keeps_the_probes(tmp_path, number, monkeypatch):
    path, predict, probed = tmp_path / "c", Predictor._predict, []

    def press(self, options):
        if len(probed) == 2:
            os.kill(os.getpid(), number)
        probed.append(options)
        return predict(self, options)

    monkeypatch.setattr(Predictor, "_predict", press)
    with ends_with(number):
        kdcode.compress(glove_50d().head(200), "8x", effort="fast", codewords=True, checkpoint=path)
    assert len(probed) == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["c"]
    assert len(read_checkpoint(path)["plan"]["probes"]) == 2


def test_ctrl_c_in_python_without_a_checkpoint_does_not_wait():
    def press(_):
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("it went on")

    with pytest.raises(KeyboardInterrupt):
        kdcode.compress(glove_50d().head(50), codebook_size=4, code_length=2, effort="fast", progress=press)
