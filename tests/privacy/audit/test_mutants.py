"""Mechanisms that are wrong are caught."""

import numpy as np
import pytest

from pgc.device.device import Device
from pgc.device.ledger import Ledger
from pgc.privacy.audit.audit import Subject, audit, audit_mechanism, judge, subject
from pgc.privacy.audit.bounds import lower_epsilon
from pgc.randomise.exact.words import public_words
from pgc.randomise.mechanisms.randomized_response import WORD
from pgc.wire import Report
from tests.conftest import more
from tests.privacy.audit import mutants
from tests.wire.samples import make_offer

CAUGHT = {
    "scale off by 1.2": (mutants.SmallScale, {}, "simulated"),
    "2ε from a wrong neighbouring relation": (mutants.WrongNeighbours, {}, "simulated"),
    "ε for each bit in place of ε/d̂": (mutants.WholeEpsilonEach, {"reduced_dim": 2}, "simulated"),
    "and on the way out": (mutants.WholeEpsilonEach, {"reduced_dim": 2}, "release"),
    "M chosen after g": (mutants.ChosenAfter, {"reduced_dim": 1}, "simulated"),
    "M chosen after g, released": (mutants.ChosenAfter, {"reduced_dim": 1}, "release"),
    "a top-k set of varying size": (mutants.VaryingSet, {"code_size": 16}, "simulated"),
    "a zero gradient that is skipped": (mutants.SkipsZero, {}, "release"),
    "each coordinate clipped": (mutants.EachClipped, {}, "simulated"),
    "an L2 ball with noise for an L1 ball": (mutants.L2Clipped, {}, "simulated"),
    "one draw for all coordinates": (mutants.OneDraw, {}, "simulated"),
    "no noise from the third coordinate on": (mutants.HalfNoise, {}, "simulated"),
    "two codes of one sum": (mutants.TwoNumbers, {}, "simulated"),
    "two codes of one sum, released": (mutants.TwoNumbers, {}, "release"),
    "noise shared by two coordinates far apart": (mutants.SharedNoise, {}, "simulated"),
    "no report of what is not finite": (mutants.RaisesOnNaN, {"reduced_dim": 1}, "release"),
    "a longer report of zero": (mutants.LongerForZero, {}, "release"),
    "infinity in the clear": (mutants.InfinityInTheClear, {}, "release"),
    "large gradients in the clear": (mutants.LargeInTheClear, {}, "simulated"),
}


AGAIN = ("and on the way out", "M chosen after g, released", "two codes of one sum, released")
"""Mutants that are caught on another path as well."""


@pytest.mark.parametrize("what", [*(what for what in CAUGHT if what not in AGAIN), *more(*AGAIN)])
def test_mutants_are_caught(what, bits_of_a_seed):
    kind, options, path = CAUGHT[what]
    row = audit_mechanism(kind(dim=8, epsilon=1.0, clip=1.0, **options), path, seed=0)
    assert row.verdict == "FAIL" and row.lower_bound > 1.0, row


class Forgetful(Ledger):
    """Draws again whenever it is asked."""

    def answered(self, offer_id, digest):
        return None

    def reserve(self, *_, **__):
        return None

    def seal(self, offer_id, digest, report=None):
        return report


def test_a_retry_that_is_randomised_again_is_caught(tmp_path, bits_of_a_seed):
    """What an adversary sees is the answer to an offer and that to its retry."""
    offer, g, n = make_offer("duchi", epsilon=1.0), np.ones(6), 250
    public = public_words(offer.public_seed, offer.query.mechanism.public_words)
    side = bool(offer.query.mechanism.prepare(g, public)[0] > WORD // 2)
    number = iter(range(10**6))

    def bound(kind):
        def both_on_its_side(gradient):
            device = Device(kind.create(tmp_path / f"{next(number)}.db", 10.0))
            answers = [Report.decode(device.release(offer, gradient), offer) for _ in range(2)]
            return all(bool(a.code[0]) == side for a in answers)

        hits = [sum(both_on_its_side(gradient) for _ in range(n)) for gradient in (g, -g)]
        return lower_epsilon(hits[0], n, hits[1], n, 0.01)

    assert 0.4 < bound(Ledger) < 1.0 < bound(Forgetful)


@pytest.mark.parametrize(
    "name", ["laplace-coordinatewise", *more("laplace-coordinatewise-wide", "laplace-l2")]
)
def test_a_reading_that_is_not_honest_fails_its_printed_epsilon(name, bits_of_a_seed):
    [row] = audit(name, 1.0, dim=4, seed=0)
    assert row.verdict == "FAIL" and row.lower_bound > 1.1, row


def test_floating_point_is_found_in_the_last_bits(bits_of_a_seed):
    """What the support test is for: a claim that holds in real arithmetic is broken by the numbers that are sent."""
    row = audit_mechanism(
        mutants.FloatsAsIntegers(dim=4, epsilon=0.5, clip=1.0), "simulated", seed=0
    )
    assert row.verdict == "pass"  # nothing simulated leaves
    it = judge_floats()
    assert it.verdict == "FAIL" and it.found_by == "search", it


def judge_floats():
    made = subject(
        mutants.FloatsAsIntegers(dim=4, epsilon=0.5, clip=1.0),
        "simulated",
        np.random.default_rng(0),
    )
    return judge(
        Subject("floats", "release", made.epsilon, made.source, made.event, made.candidates),
        claim=None,
        error=0.01,
    )


def test_a_promise_that_is_less_than_what_is_spent_is_caught(bits_of_a_seed):
    row = audit_mechanism(mutants.Boaster(dim=4, epsilon=1.0, clip=1.0), "simulated", seed=0)
    assert row.claim == 0.05 and row.verdict == "FAIL"
