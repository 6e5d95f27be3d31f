# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # Your own mechanism, with its audit
#
# A mechanism randomises a gradient so that ε-local differential privacy holds. This one sends a single bit: the sign of one coordinate, picked by
# public randomness, by randomised response. docs/add-a-mechanism.md explains every part.

# %%
from dataclasses import dataclass
from functools import cached_property

import matplotlib.pyplot as plt
import numpy as np

import pgc
from pgc.mechanisms import Guarantee, Mechanism, make_mechanism, register
from pgc.mechanisms.clip import clip_elements
from pgc.mechanisms.randomized_response import WORD, keep_threshold
from pgc.privacy.audit.audit import audit_mechanism
from pgc.privacy.audit.paths import SIMULATED


@register
@dataclass(frozen=True, kw_only=True)
class OneCoordinate(Mechanism):
    """One public random coordinate, clipped to ±C and rounded to a random sign, sent by randomised response.

    **Guarantee.** ε-LDP: the report is one bit, and each value has a probability in [1/(e^ε+1), e^ε/(e^ε+1)].
    """

    name = "one-coordinate"
    traced = {"clip": np.float32, "keep": np.uint32, "size": np.float32}
    secret_words, public_words, report_bytes = 2, 1, 1

    @property
    def guarantee(self):
        return Guarantee(
            epsilon=self.epsilon,
            nominal_epsilon=self.epsilon,
            statement=f"One bit, {self.epsilon:g}-LDP.",
        )

    @cached_property
    def keep(self):
        return keep_threshold(self.epsilon)

    @cached_property
    def size(self):
        return self.clip * self.dim / (2 * self.keep / WORD - 1)

    def error(self, norm=1.0):
        return self.size**2 - norm**2

    def prepare(self, gradient, public):
        return clip_elements(gradient, self.clip)[public[0] % self.dim] / self.clip

    def draw(self, thresholds, secret):
        positive = secret[0] * 2.0**-31 - 1 < thresholds
        return positive == (secret[1] < np.uint32(1) * self.keep)

    def decode(self, code, public):
        xp = public.__array_namespace__()
        return xp.where(
            xp.arange(self.dim) == public[0] % self.dim, xp.where(code, self.size, -self.size), 0.0
        )


# %% [markdown]
# ## Is the claim true?
#
# The audit searches for two gradients that reports tell apart, and gives a lower bound on ε that is right with 99 % confidence. A bound above the
# claim refutes it. The audit passes where the bound also comes near the claim, because a weak search confirms nothing.

# %%
mechanism = make_mechanism("one-coordinate", dim=4, epsilon=2.0, clip=1.0)
found = audit_mechanism(mechanism, SIMULATED, seed=0)
print(f"claimed ε = 2, found at least {found.lower_bound:.2f}: {found.verdict}")

# %% [markdown]
# A mistake that is easy to make: the threshold is computed for 2ε. The audit sees it.


# %%
class TooLoud(OneCoordinate):
    """Claims ε and spends 2ε."""

    @cached_property
    def keep(self):
        return keep_threshold(2 * self.epsilon)


found = audit_mechanism(TooLoud(dim=4, epsilon=2.0, clip=1.0), SIMULATED, seed=0)
print(f"claimed ε = 2, found at least {found.lower_bound:.2f}: {found.verdict}")

# %% [markdown]
# ## What does its noise cost?
#
# The expected squared error of a report of a unit gradient, beside that of pgc's own mechanisms.

# %%
epsilons = np.geomspace(0.25, 8, 12)
plt.figure(figsize=(6, 3.6))
for name in ("one-coordinate", "index", "duchi", "laplace"):
    errors = [make_mechanism(name, dim=4, epsilon=e, clip=1.0).error(1.0) for e in epsilons]
    plt.plot(epsilons, errors, marker="o", ms=3, label=name)
plt.xscale("log")
plt.yscale("log")
plt.xlabel("ε")
plt.ylabel("E‖g̃ − g‖²")
plt.legend(frameon=False)
# %% [markdown]
# ## Train with it

# %%
run = pgc.train(mechanism="one-coordinate", epsilon=2.0, submissions=400, trials=4, seed=1)
print(
    "averaged policy:",
    run.summary["averaged_score_mean"],
    " median first success:",
    run.summary["fst_median"],
)
