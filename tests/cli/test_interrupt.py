import os
import signal

import pytest

from kdcode.cli.learn import stopping_at_safe_places


def test_the_first_ctrl_c_waits_for_a_safe_place(capsys):
    before = signal.getsignal(signal.SIGINT)
    reached = []

    def work():
        with stopping_at_safe_places() as stop_if_asked:
            stop_if_asked()
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("the work goes on")
            stop_if_asked()
            reached.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["the work goes on"]
    assert "Ctrl-C again" in capsys.readouterr().err
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
