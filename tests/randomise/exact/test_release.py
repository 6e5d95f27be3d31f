"""Releases: distributed as simulated, from the operating system's bits alone, and refused where there is no exact form."""

import inspect
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from pgc.errors import PgcError
from pgc.randomise.exact.words import public_words, secret_words
from pgc.randomise.mechanisms.registry import make_mechanism
from pgc.randomise.release import release
from tests.chance import agrees, differs, surely
from tests.waiting import LIMIT

G = np.array([0.5, -0.3, 0.2, 0.1])
EXACT = {
    "index": {"code_size": 16}, "duchi": {}, "prs": {"reduced_dim": 2}, "prs-sign": {"reduced_dim": 2},
    "index, lifted": {"code_size": 16, "lift": True},
}  # fmt: skip


def numbered(code):
    """A code as one small integer."""
    bits = np.atleast_1d(np.asarray(code)).astype(int)
    return int(bits @ 2 ** np.arange(len(bits))) if np.asarray(code).dtype == bool else int(bits[0])


def alike(released, simulated):
    """The p value of their being drawn from one distribution."""
    table = np.array(
        [
            [np.sum(codes == v) for v in np.union1d(released, simulated)]
            for codes in (released, simulated)
        ]
    )
    return stats.chi2_contingency(table).pvalue


@pytest.mark.parametrize("name", EXACT)
def test_released_and_simulated_codes_are_alike(name, rng):
    seed, n = b"one public seed", 10_000 if "lifted" in name else 32_000

    def made(epsilon):
        return make_mechanism(
            name.partition(",")[0],
            dim=4,
            epsilon=epsilon,
            clip=0.1,
            **{"lift": False, **EXACT[name]},
        )

    def simulated(mechanism, gradient):
        words = rng.integers(0, 2**32, (n, mechanism.secret_words), np.uint32)
        prepared = mechanism.prepare(gradient, public_words(seed, mechanism.public_words))
        return np.array([numbered(mechanism.draw(prepared, w)) for w in words])

    released = np.array([numbered(release(made(2.0), G, seed)) for _ in range(n)])
    assert agrees(alike(released, simulated(made(2.0), G)))
    assert differs(alike(released, simulated(made(2.4), G)))  # a fifth would be noticed
    assert differs(alike(released, simulated(made(2.0), -G)))  # and they do say something


@pytest.mark.parametrize("name", ["privunit", "privunitg", "piecewise", "none"])
def test_without_an_exact_form_nothing_is_released(name):
    mechanism = make_mechanism(name, dim=4, epsilon=np.inf if name == "none" else 1.0, clip=1.0)
    with pytest.raises(PgcError, match="no exact form and is for simulation only"):
        release(mechanism, G, b"")


def test_any_array_like_of_the_right_size_and_nothing_else():
    mechanism = make_mechanism("laplace", dim=4, epsilon=1.0, clip=1.0)
    for gradient in (list(G), tuple(G), G.astype(np.float32), G.reshape(2, 2), [np.nan] * 4):
        numbers = release(mechanism, gradient, b"")
        assert len(numbers) == 4 and all(type(y) is int for y in numbers)
    with pytest.raises(PgcError, match="gradients of 4 numbers, not of 3"):
        release(mechanism, G[:3], b"")


def test_public_words_are_the_same_everywhere_and_secret_ones_never():
    assert public_words(b"pgc", 3).tolist() == [
        int.from_bytes(VECTOR[i : i + 4], "little") for i in (0, 4, 8)
    ]
    assert (
        not np.array_equal(secret_words(8), secret_words(8)) and secret_words(5).dtype == np.uint32
    )
    assert set(inspect.signature(release).parameters) == {
        "mechanism",
        "gradient",
        "seed",
    }  # no key, no generator


def test_a_fork_does_not_repeat_bits():
    """In a process of its own: this one has threads, which a fork would lose."""
    script = (
        "import os; from pgc.randomise.exact.words import secret_words; secret_words(4); child = os.fork(); "
        "child and os.waitpid(child, 0); print(secret_words(4).tobytes().hex(), flush=True)"  # one after the other, a line each
    )
    made = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=LIMIT
    ).stdout.split()
    assert len(made) == 2 and made[0] != made[1]


VECTOR = bytes.fromhex("cf5e2131af628f1390ce2493")
"""The first 12 bytes of SHAKE-128("pgc")."""


ONE = 1 / (1 + 15 * math.e)
"""Of sixteen vectors, whichever are near, each has at least this share at ε = 1."""
SUPPORT = {
    "laplace": (8, 0.1),
    "index": (16, ONE),
    "index, lifted": (16, ONE),
    "duchi": (2, 1 / (1 + math.e)),
}


@pytest.mark.parametrize("name", [*EXACT, "laplace"])
def test_the_support_of_a_release_does_not_depend_on_the_gradient(name):
    """The floating-point attack needs an output that one gradient can have and another cannot. Here each can have all of them.

    Codes of few values: each is seen under every gradient, zero, NaN and huge ones included. Laplace: integers, any last bits.
    """
    options = {"lift": False, **EXACT.get(name, {})}
    mechanism = make_mechanism(name.partition(",")[0], dim=4, epsilon=1.0, clip=1.0, **options)
    seen, n = [], 1200
    values, least = SUPPORT.get(
        name, (4, (1 / (1 + math.exp(0.5))) ** 2)
    )  # how many there are, and the least likely one's share
    for gradient in (G, -G, 0 * G, np.full(4, np.nan), 1e300 * G, 1e-300 * G):
        codes = [release(mechanism, gradient, b"one public seed") for _ in range(n)]
        if name == "laplace":
            assert all(type(y) is int for code in codes for y in code)
            seen.append({y % 8 for code in codes for y in code})
        else:
            seen.append({numbered(code) for code in codes})
    assert all(surely(len(s) == values, values * (1 - least) ** n) for s in seen)
