import os
import signal
import threading

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.learning.interrupts import stopping_at_safe_places
from kdcode.options import CompressOptions


def test_the_first_ctrl_c_waits_for_a_safe_place():
    before = signal.getsignal(signal.SIGINT)
    reached = []

    def work():
        with stopping_at_safe_places(on_asked=lambda: reached.append("asked")) as stop_if_asked:
            stop_if_asked()
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("the work goes on")
            stop_if_asked()
            reached.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["asked", "the work goes on"]
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_does_not_wait():
    reached = []

    def work():
        with stopping_at_safe_places():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("after the first")
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("after the second")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["after the first"]


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


def test_ctrl_c_in_python_writes_the_checkpoint_first(tmp_path):
    """The step is finished, so that the same call ends as if nothing had happened."""
    table, path = glove_50d().head(200), tmp_path / "c"
    options = CompressOptions.of(codebook_size=8, code_length=9, effort="fast")
    steps = []

    def press(report):
        steps.append(report.step)
        if report.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        kdcode.compress(table, options=options, progress=press, checkpoint=path)
    assert steps == [1, 2, 3]
    resumed = kdcode.compress(
        table, options=options, progress=lambda report: steps.append(report.step), checkpoint=path
    )
    assert steps[3] == 4
    np.testing.assert_array_equal(resumed.codes, kdcode.compress(table, options=options).codes)


def test_ctrl_c_in_python_without_a_checkpoint_does_not_wait():
    def press(_):
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("it went on")

    with pytest.raises(KeyboardInterrupt):
        kdcode.compress(glove_50d().head(50), codebook_size=4, code_length=2, effort="fast", progress=press)
