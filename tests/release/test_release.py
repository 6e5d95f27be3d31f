"""Releases: distributed as simulated, from the operating system's bits alone, and refused where there is no exact form."""

import inspect
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from pgc.errors import PgcError
from pgc.mechanisms import make_mechanism
from pgc.release.release import public_words, release, secret_words

G = np.array([0.5, -0.3, 0.2, 0.1])
EXACT = {
    "index": {"code_size": 16}, "duchi": {}, "prs": {"reduced_dim": 2}, "prs-sign": {"reduced_dim": 2},
    "index, lifted": {"code_size": 16, "lift": True},
}  # fmt: skip


def numbered(code):
    """A code as one small integer."""
    bits = np.atleast_1d(np.asarray(code)).astype(int)
    return int(bits @ 2 ** np.arange(len(bits))) if np.asarray(code).dtype == bool else int(bits[0])


@pytest.mark.parametrize("name", EXACT)
def test_released_and_simulated_codes_are_alike(name, rng):
    options = {"lift": False, **EXACT[name]}
    mechanism = make_mechanism(name.partition(",")[0], dim=4, epsilon=1.0, clip=1.0, **options)
    seed, n = b"one public seed", 4000
    public = public_words(seed, mechanism.public_words)
    words = rng.integers(0, 2**32, (n, mechanism.secret_words), np.uint32)
    simulated = np.array([numbered(mechanism.draw(mechanism.prepare(G, public), w)) for w in words])
    released = np.array([numbered(release(mechanism, G, seed)) for _ in range(n)])
    values = np.union1d(released, simulated)
    table = [[np.sum(codes == v) for v in values] for codes in (released, simulated)]
    assert stats.chi2_contingency(table).pvalue > 1e-5
    opposite = np.array([numbered(release(mechanism, -G, seed)) for _ in range(n)])
    table = [[np.sum(codes == v) for v in np.union1d(released, opposite)] for codes in (released, opposite)]
    assert stats.chi2_contingency(np.array(table)[:, np.sum(table, axis=0) > 0]).pvalue < 1e-5  # and they do say something


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
    assert public_words(b"pgc", 3).tolist() == [int.from_bytes(VECTOR[i : i + 4], "little") for i in (0, 4, 8)]
    assert not np.array_equal(secret_words(8), secret_words(8)) and secret_words(5).dtype == np.uint32
    assert set(inspect.signature(release).parameters) == {"mechanism", "gradient", "seed"}  # no key, no generator


def test_a_fork_does_not_repeat_bits():
    """In a process of its own: this one has threads, which a fork would lose."""
    script = (
        "import os; from pgc.release.release import secret_words; secret_words(4); child = os.fork(); "
        "child and os.waitpid(child, 0); print(secret_words(4).tobytes().hex(), flush=True)"  # one after the other, a line each
    )
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert len(made) == 2 and made[0] != made[1]


VECTOR = bytes.fromhex("cf5e2131af628f1390ce2493")
"""The first 12 bytes of SHAKE-128("pgc")."""
