"""Step 2 for many agents side by side: the compiled form of `definition.py`.

The last axis of every array is the lane. A lane plays one agent at a time. `play` advances all
lanes by a fixed number of ticks; a lane whose episode ends waits until `end_episodes` adds the
episode to its gradient. No episode is stored (see `estimators/streaming.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from pgc.local_training.definition import LocalTraining, action_words, draw_psi, perturbation
from pgc.local_training.estimators.estimator import End, Step
from pgc.local_training.estimators.loss import shaped_reward
from pgc.numerics import randomness
from pgc.numerics.randomness import Address, Stream
from pgc.numerics.trees import select
from pgc.spaces import Words
from pgc.wire.values import Delivery


class Play(NamedTuple):
    """An agent at work on one submission, per lane."""

    at: Address
    psi: Any
    alpha: jax.Array
    episode: jax.Array  # index of the local episode
    ticks: jax.Array  # environment steps of this submission
    step: jax.Array  # t
    state: Any  # s_t
    return_so_far: jax.Array  # score of this episode
    ended: jax.Array  # whether s_t is the last state s_T
    terminated: jax.Array  # whether that state is terminal
    traces: Any  # what the estimator keeps of the current episode
    sums: Any  # the estimator's sums over the finished episodes
    score: jax.Array  # ζ


def begin(training: LocalTraining, at: Address, alpha: jax.Array) -> Play:
    """Starts the submissions at these addresses, with the α that was delivered to each."""
    lanes = at.seed.shape[-1]
    psi = jax.vmap(lambda a: draw_psi(a, training.population), -1)(at)
    batch = (lanes,)
    state = _reset(training, at, jnp.zeros(batch, jnp.int32), psi)
    zero, count = jnp.zeros(batch), jnp.zeros(batch, jnp.int32)
    no = jnp.zeros(batch, bool)
    return Play(
        at=at,
        psi=psi,
        alpha=alpha,
        episode=count,
        ticks=count,
        step=count,
        state=state,
        return_so_far=zero,
        ended=no,
        terminated=no,
        traces=training.estimator.start(batch),
        sums=training.estimator.nothing(batch),
        score=zero,
    )


def play(
    training: LocalTraining, delivery: Delivery, now: Play, ticks: int, active: jax.Array
) -> Play:
    """Step 2, first half: takes `ticks` environment steps in every active lane.

    A lane takes no further steps once its episode has ended.
    """
    (world, policy), estimator = training.world_and_policy, training.estimator
    scoring = now.episode >= training.episodes
    tried = estimator.parameters(*delivery, perturbation(training, now.at, now.episode))
    params = policy.unflatten(jnp.where(scoring, delivery.theta, tried))
    greedy = jnp.ones_like(scoring) if training.recipe.greedy else scoring
    alpha = jnp.where(scoring, 0.0, now.alpha)
    observe = jax.vmap(world.observe, -1, -1)
    move = jax.vmap(world.step, (0, -1, -1, 0), -1)

    def tick(carry: Any, chance: tuple[list[Words], jax.Array]) -> Any:
        state, step, score, ended, _terminated = carry
        words, step_key = chance
        live = active & ~ended
        observation = observe(state)
        outputs, value, inputs = policy.forward(params, observation)
        action = policy.actions.draw(outputs, words, alpha, greedy)
        moved = move(step_key, state, action, now.psi)

        total = score + moved.reward
        ends = moved.terminated | (step + 1 >= world.max_steps)
        reward = shaped_reward(
            estimator.loss.reward,
            moved.reward,
            ends,
            moved.terminated,
            total >= world.score_threshold,
        )
        after = (moved.state, step + 1, total, ends, moved.terminated)
        noted = estimator.note(params, Step(observation, step, inputs, outputs, value, action))
        return select(live, after, carry), (noted, reward, live)

    tick_numbers = now.ticks + jnp.arange(ticks)[:, None]
    chance = (
        action_words(training, now.at, tick_numbers),
        randomness.key(now.at.seed, Stream.WORLD, now.at.submission, tick_numbers),
    )
    start = (now.state, now.step, now.return_so_far, now.ended, now.terminated)
    (state, step, score, ended, terminated), (notes, rewards, lived) = jax.lax.scan(
        tick, start, chance
    )
    return now._replace(
        state=state,
        step=step,
        ticks=now.ticks + step - now.step,
        return_so_far=score,
        ended=ended,
        terminated=terminated,
        traces=estimator.advance(now.traces, notes, rewards, lived, now.step == 0),
    )


def end_episodes(training: LocalTraining, theta: jax.Array, now: Play) -> tuple[Play, jax.Array]:
    """Adds every ended episode to its lane's gradient, and starts the lane's next episode.

    Also returns which lanes have played all episodes of their submission; those start no other.
    """
    trained_on = now.ended & (now.episode < training.episodes)
    end = End(
        now.step,
        jax.vmap(training.world_and_policy[0].observe, -1, -1)(now.state),
        now.terminated,
    )
    finished = training.estimator.finish(
        now.traces, theta, perturbation(training, now.at, now.episode), end
    )
    sums = jax.tree.map(
        lambda total, one: total + jnp.where(trained_on, one, 0.0), now.sums, finished
    )

    scored = training.episodes if training.recipe.score == "greedy" else 0
    score = jnp.where(now.ended & (now.episode == scored), now.return_so_far, now.score)
    complete = now.ended & (now.episode + 1 >= training.episodes_played)
    now = now._replace(sums=sums, score=score)
    if training.episodes_played == 1:
        return now, complete

    again = now.ended & ~complete
    episode = now.episode + again
    fresh = now._replace(
        episode=episode,
        step=jnp.zeros_like(now.step),
        state=_reset(training, now.at, episode, now.psi),
        return_so_far=jnp.zeros_like(now.return_so_far),
        ended=jnp.zeros_like(now.ended),
        terminated=jnp.zeros_like(now.terminated),
        traces=training.estimator.start(now.step.shape),
    )
    return select(again, fresh, now), complete


def coordinates(training: LocalTraining, delivery: Delivery, now: Play) -> jax.Array:
    """Step 2, second half: returns the coordinates z (k, lanes) that the lanes report."""
    return training.estimator.combine(now.sums, delivery.basis, training.episodes)


def _reset(training: LocalTraining, at: Address, episode: jax.Array, psi: Any) -> Any:
    keys = randomness.key(at.seed, Stream.RESET, at.submission, episode)
    return jax.vmap(training.world_and_policy[0].reset, out_axes=-1)(keys, psi)
