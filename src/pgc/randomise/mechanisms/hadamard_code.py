"""A random spherical code for many dimensions, of which no more than one vector is ever made.

    Z_j = D₂ H D₁ H e_{s_j},   H the Walsh–Hadamard matrix of size n = 2^⌈log₂ d⌉ over √n,
    D₁, D₂ random signs,   s_j any row,

cut to its first d coordinates. One transform spreads any vector over all coordinates; after two, a
coordinate of a fixed vector is a sum of very many small terms, so ⟨Z_j, u⟩ is nearly normal for
every u, as it is for a uniform direction (Ailon and Chazelle 2009, "The fast Johnson–Lindenstrauss
transform"). All M products take two transforms of u, O(n log n), and so does one vector. The code
is public, and ε-LDP of `index` holds for any code: the approximation here can cost utility only.
"""

from __future__ import annotations

from pgc.randomise.mechanisms.base import Array


def size(dim: int) -> int:
    """Returns the smallest power of two that is at least d."""
    return 1 << (dim - 1).bit_length()


def words(dim: int, code_size: int) -> int:
    """Returns the number of words of two sets of signs, a bit for each, and of the rows."""
    return 2 * -(-size(dim) // 32) + code_size


def products(vector: Array, public: Array, dim: int, code_size: int) -> Array:
    """Returns √n·⟨Z_j, u⟩ for every j, up to a common factor."""
    xp = vector.__array_namespace__()
    n = size(dim)
    first, second, rows = _parts(public, n, code_size)
    padded = xp.concat([xp.astype(vector, xp.float32), xp.zeros(n - dim, dtype=xp.float32)])
    return transform(transform(padded * second) * first)[rows]


def vector(which: Array, public: Array, dim: int, code_size: int) -> Array:
    """Returns Z_j, not yet scaled to length 1."""
    xp = public.__array_namespace__()
    n = size(dim)
    first, second, rows = _parts(public, n, code_size)
    spike = xp.astype(xp.arange(n) == rows[which], xp.float32)
    return (transform(transform(spike) * first) * second)[:dim]


def transform(x: Array) -> Array:
    """Returns H x·√n, by n log₂ n additions."""
    xp, n, half = x.__array_namespace__(), x.shape[0], 1
    while half < n:
        pairs = xp.reshape(x, (-1, 2, half))
        x = xp.reshape(
            xp.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1), (n,)
        )
        half *= 2
    return x


def _parts(public: Array, n: int, code_size: int) -> tuple[Array, Array, Array]:
    xp = public.__array_namespace__()
    count = -(-n // 32)
    bits = (public[: 2 * count, None] >> xp.arange(32, dtype=xp.uint32)) & 1
    signs = 1 - 2 * xp.astype(xp.reshape(bits, (2, -1)), xp.float32)
    rows = public[2 * count : 2 * count + code_size] & xp.asarray(n - 1, dtype=xp.uint32)
    return signs[0, :n], signs[1, :n], xp.astype(rows, xp.int32)
