"""Scales that are found in public: of good play, the same every time, within the steps that are given."""

import numpy as np
import pytest

from pgc.local_training.worlds.public_play import RANDOM_STEPS, public_scales
from pgc.spaces import Categorical, Gaussian

FAR = 10.0


class Corridor:
    """Whoever walks on the spot is thrown out; whoever goes right gets far. The second number is always 7."""

    def __init__(self, discrete=True):
        self.discrete, self.taken, self.seeds = discrete, 0, []

    def reset(self, seed):
        self.seeds.append(seed)
        self.place, self.left = 0.0, 20
        return self.seen()

    def seen(self):
        return np.array([self.place, 7.0])

    def step(self, action):
        self.taken += 1
        self.left -= 1
        move = (1.0 if action == 1 else -1.0) if self.discrete else float(action[0])
        self.place += move
        ended = self.left == 0 or abs(self.place) >= FAR or self.place < 0
        return self.seen(), move, ended


@pytest.mark.parametrize("discrete", [True, False])
def test_scales_are_those_of_good_play_and_not_of_random_actions(discrete):
    actions = Categorical(2) if discrete else Gaussian((-1.0,), (1.0,))
    by_chance = public_scales(Corridor(discrete), actions, RANDOM_STEPS)
    found = public_scales(Corridor(discrete), actions, 20_000)
    assert found.mean[0] > 2 * by_chance.mean[0]
    assert found.deviation[0] > 1.2 * by_chance.deviation[0]
    assert found.mean[1] == 7.0 and found.deviation[1] < 1e-6


def test_they_are_the_same_every_time():
    one, other = (public_scales(Corridor(), Categorical(2), 5000) for _ in range(2))
    assert np.array_equal(one.mean, other.mean) and np.array_equal(one.deviation, other.deviation)


@pytest.mark.parametrize("steps", [1, 500, 5000])
def test_they_take_no_more_steps_than_given_and_an_episode(steps):
    corridor = Corridor()
    public_scales(corridor, Categorical(2), steps)
    assert steps <= corridor.taken < steps + 20 and len(set(corridor.seeds)) == len(corridor.seeds)
