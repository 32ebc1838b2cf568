"""The trellis: levels and code values, and the state machines."""

import numpy as np
import pytest
from kdcode.codec.transform.trellis import STATES, parity, signed, states_before, transitions, unsigned


def test_code_values_of_levels():
    assert signed(np.arange(5)).tolist() == [0, 1, -1, 2, -2]
    assert unsigned(np.array([0, 1, -1, 2, -2])).tolist() == [0, 1, 2, 3, 4]
    levels = np.arange(-300, 300)
    np.testing.assert_array_equal(signed(unsigned(levels)), levels)
    np.testing.assert_array_equal(parity(unsigned(levels)), np.abs(levels) & 1)


def test_four_and_eight_states_by_hand():
    assert transitions(4).tolist() == [[0, 1], [2, 3], [1, 0], [3, 2]]
    assert transitions(8)[:, 0].tolist() == [0, 5, 1, 4, 2, 7, 3, 6]
    assert transitions(8)[:, 1].tolist() == [2, 7, 3, 6, 0, 5, 1, 4]


@pytest.mark.parametrize("states", STATES)
def test_both_parities_lead_on_and_no_state_is_lost(states):
    following = transitions(states)
    assert following.shape == (states, 2)
    np.testing.assert_array_equal(np.bincount(following.reshape(-1), minlength=states), np.full(states, 2))
    if states > 1:
        assert (following[:, 0] != following[:, 1]).all()
    reached, new = set(), {0}
    while new - reached:
        reached |= new
        new = {int(state) for state in following[sorted(reached)].reshape(-1)}
    assert reached == set(range(states))


@pytest.mark.parametrize("states", [4, 8, 16, 32])
def test_paths_that_part_meet_again_only_later(states):
    """Two paths that leave a state apart do not meet at once: what makes a trellis better than one quantizer."""
    following, apart = transitions(states), 0
    pairs = {tuple(sorted(following[0]))}
    while all(left != right for left, right in pairs):
        pairs = {
            tuple(sorted((int(following[left, p]), int(following[right, q]))))
            for left, right in pairs
            for p in (0, 1)
            for q in (0, 1)
        }
        apart += 1
    assert apart >= states.bit_length() - 2


def test_states_follow_the_parities():
    values = np.array([[1, 3, 0, 5], [0, 0, 2, 1]])  # of sizes 1, 2, 0, 3 and 0, 0, 1, 1
    assert states_before(values, 4).tolist() == [[0, 1, 2, 1], [0, 0, 0, 1]]
    assert states_before(values, 1).tolist() == [[0] * 4] * 2
