# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # Your own world
#
# A world is a simulator with private parameters ψ: the part that differs from home to home. Here it is a room with a heater. How well a room holds
# its warmth, and how cold it is outside, are its owner's business. A thousand rooms teach one thermostat, and each sends one report of ε = 1.

# %%
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import pgc
from pgc.spaces import Categorical
from pgc.worlds import WORLDS, CompiledWorld, Transition


class RoomPsi(NamedTuple):
    """ψ: what is private about a room."""

    loss: float = 0.1
    outside: float = 5.0


class RoomState(NamedTuple):
    inside: jax.Array
    heater: jax.Array  # how warm the heater itself is, from 0 to 1


class Room(CompiledWorld):
    """Keep a room at 20 °C: one point for each step within a degree of it."""

    observation_dim = 2
    actions = Categorical(2)  # heater off, heater on
    max_steps = 120
    score_threshold = 100.0
    observation_bounds = (
        (15.0, 25.0),
        (0.0, 1.0),
    )  # where the numbers usually lie: public knowledge
    default_psi = RoomPsi()
    default_population = ("loss=0.05:0.15", "outside=0:10")

    def reset(self, key, psi):
        return RoomState(jax.random.uniform(key, minval=18.0, maxval=22.0), jnp.asarray(0.5))

    def step(self, key, state, action, psi):
        heater = 0.7 * state.heater + 0.3 * action
        inside = state.inside + psi.loss * (psi.outside - state.inside) + 4.0 * heater
        gone = ~(jnp.abs(inside - 20.0) < 10.0)
        return Transition(
            RoomState(inside, heater), jnp.where(jnp.abs(inside - 20.0) < 1.0, 1.0, 0.0), gone
        )

    def observe(self, state):
        return jnp.stack(state)


WORLDS["room"] = Room

# %% [markdown]
# Train privately, and beside it the control, in which every gradient is replaced by zero: what it reaches was not learnt.

# %%
run = pgc.train(world="room", epsilon=1.0, submissions=1000, trials=4, seed=1)
control = pgc.train(world="room", epsilon=1.0, submissions=1000, trials=4, seed=1, control=True)
print(
    "averaged policy:",
    run.summary["averaged_score_mean"],
    " control:",
    control.summary["averaged_score_mean"],
)

# %%
figure, axes = plt.subplots(figsize=(6, 3.4))
for label, one in (("ε = 1", run), ("noise alone", control)):
    axes.plot(np.nanmedian(one.curve(), axis=0), label=label)
axes.axhline(Room.score_threshold, color="grey", ls="--", label="Θ")
axes.set(xlabel="submissions", ylabel="average of ten scores")
axes.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# The policy acts in NumPy, on observations as the world gives them. Here it lives through one cold night in a draughty room.

# %%
policy, world, psi = pgc.load(run), Room(), RoomPsi(loss=0.15, outside=0.0)
state, warmth = world.reset(jax.random.key(0), psi), []
for _ in range(world.max_steps):
    state = world.step(None, state, policy.act(world.observe(state)), psi).state
    warmth.append(float(state.inside))
plt.figure(figsize=(6, 2.6))
plt.plot(warmth)
plt.axhspan(19, 21, alpha=0.2)
plt.xlabel("step")
plt.ylabel("°C")
# %% [markdown]
# `privacy.json` says what left a room, and what is not protected.

# %%
run.privacy["guarantee"], run.privacy["not_protected"]
