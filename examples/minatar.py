r"""MinAtar's Breakout from its picture, as a compiled world of one's own. It needs `pip install 'pgc[gymnax]'`.

    pgc train --world examples.minatar:Breakout --epsilon 1 --submissions 4000

A picture has 400 numbers (10 × 10 cells, 4 channels: paddle, ball, the ball's trail, bricks), and a report in so many
directions would be noise. What a policy needs of a picture is often where things are. So the policy sees where the
centres of the channels lie: the paddle's column, column and row of ball and trail, and the bricks' row. Which numbers of
a picture are looked at is public, so it costs no ε.

ψ of a home is how often its controller repeats the last action in place of the new one ("sticky actions").
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from gymnax.environments.minatar.breakout import EnvParams, MinBreakout

from pgc.local_training.worlds.base import CompiledWorld, Transition
from pgc.spaces import Categorical

CELLS = jnp.linspace(-1.0, 1.0, 10)
"""Where the rows and columns of a picture are."""


class Psi(NamedTuple):
    """What differs between homes."""

    sticky: Any = 0.1


class State(NamedTuple):
    """The game, and the last action, which may be repeated."""

    game: Any
    last: Any


class Breakout(CompiledWorld):
    """A ball, a paddle, and a wall of bricks; a brick that is hit scores 1, and a ball that is missed ends the game."""

    observation_dim = 6
    actions = Categorical(3)
    max_steps = 500
    score_threshold = 10.0
    observation_bounds = ((-1.0, 1.0),) * 6
    default_psi = Psi()
    default_population = ("sticky=0:0.3",)

    def __init__(self) -> None:
        self._game, self._parameters = MinBreakout(), EnvParams()

    def reset(self, key: jax.Array, psi: Psi) -> State:
        """Draws where the ball comes from."""
        return State(self._game.reset_env(key, self._parameters)[1], jnp.zeros((), jnp.int32))

    def step(self, key: jax.Array, state: State, action: jax.Array, psi: Psi) -> Transition:
        """Moves paddle and ball; with probability `sticky` the last action is repeated."""
        repeat, rest = jax.random.split(key)
        action = jnp.where(jax.random.uniform(repeat) < psi.sticky, state.last, action)
        _, game, reward, ended, _ = self._game.step_env(rest, state.game, action, self._parameters)
        return Transition(
            State(game, action.astype(jnp.int32)), jnp.asarray(reward, jnp.float32), ended
        )

    def observe(self, state: State) -> jax.Array:
        """Returns the column of the paddle, column and row of ball and trail, and the row of the bricks."""
        picture = self._game.get_obs(state.game).astype(jnp.float32)
        whole = jnp.maximum(picture.sum((0, 1)), 1.0)
        column = jnp.einsum("yxc,x->c", picture, CELLS) / whole
        row = jnp.einsum("yxc,y->c", picture, CELLS) / whole
        return jnp.stack([column[0], column[1], row[1], column[2], row[2], row[3]])
