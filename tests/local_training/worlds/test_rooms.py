"""Homes to clean: every cell can be reached, the robot sees what is there, and what it cleans is what counts."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgc
from pgc.local_training.worlds.floor_plan import (
    CELLS,
    DOORS,
    SIDE,
    STEPS,
    TABLES,
    CellSet,
    draw_plan,
)
from pgc.local_training.worlds.rooms import TURNS, Rooms, RoomsPsi, RoomsWithPosition

COUNT = 300


@pytest.fixture(scope="module")
def homes():
    """Walls (homes, cells, sides) and tables (homes, cells) of many homes."""
    rng = np.random.default_rng(0)
    places = rng.uniform(3, 6, (3, COUNT))
    seeds = rng.uniform(0, DOORS, COUNT), rng.uniform(0, TABLES, COUNT)
    psi = [jnp.asarray(values, jnp.float32) for values in (*places, *seeds)]
    plans = jax.jit(jax.vmap(draw_plan))(*psi)
    cells, sides = jnp.arange(CELLS), jnp.arange(4)
    at_sides = jax.vmap(lambda plan, cell, side: plan.wall(cell, side), (None, None, 0))
    at_cells = jax.vmap(at_sides, (None, 0, None))
    walls = jax.jit(jax.vmap(at_cells, (0, None, None)))(plans, cells, sides)
    return np.asarray(walls), np.asarray(jax.vmap(CellSet.flags)(plans.tables))


def test_every_cell_without_a_table_can_be_reached(homes):
    for walls, tables in zip(*homes, strict=True):
        reached, waiting = {0}, deque([0])
        while waiting:
            cell = waiting.popleft()
            for side in np.flatnonzero(~walls[cell]):
                beyond = cell + STEPS[side]
                assert 0 <= beyond < CELLS and not walls[beyond, (side + 2) % 4]
                if beyond not in reached:
                    reached.add(beyond)
                    waiting.append(beyond)
        assert tables.sum() == 4 and reached == set(np.flatnonzero(~tables))


def test_homes_differ(homes):
    walls, _ = homes
    assert len({np.packbits(one).tobytes() for one in walls}) > 0.95 * COUNT


@pytest.fixture(scope="module")
def walk():
    """A random walk in a home: states, observations and rewards."""
    world, psi = Rooms(), jax.tree.map(jnp.asarray, RoomsPsi(3.2, 5.9, 4.1, 17.0, 4000.0))
    actions = jax.random.randint(jax.random.key(1), (150,), 0, 3)

    @jax.jit
    def play():
        def tick(state, chance):
            key, action = chance
            moved = world.step(key, state, action, psi)
            return moved.state, (moved.state, world.observe(moved.state), moved.reward)

        start = world.reset(jax.random.key(2), psi)
        keys = jax.random.split(jax.random.key(3), 150)
        return start, jax.lax.scan(tick, start, (keys, actions))[1]

    return jax.tree.map(np.asarray, play())


def test_the_robot_sees_what_is_there(walk):
    """Against sets of Python, and floor plans as lists of walls."""
    start, (states, seen, rewards) = walk
    flags = jax.vmap(CellSet.flags)
    east, south, tables, clean = (
        np.asarray(flags(cells))
        for cells in (states.plan.east, states.plan.south, states.plan.tables, states.clean)
    )
    been = {int(start.cell)}
    for n in range(150):
        cell, heading = int(states.cell[n]), int(states.heading[n])
        assert rewards[n] == pytest.approx(0 if cell in been else 100 / 60)
        been.add(cell)
        assert set(np.flatnonzero(clean[n])) == been
        row, column = divmod(cell, SIDE)
        dirty = set(np.flatnonzero(~tables[n])) - been
        for place, turn in enumerate(TURNS):
            side = (heading + turn) % 4
            owner = {0: cell - SIDE, 1: cell, 2: cell, 3: cell - 1}[side]
            edge = {0: row == 0, 1: column == 7, 2: row == 7, 3: column == 0}[side]
            wall = edge or bool((east if side in (1, 3) else south)[n][owner])
            beyond = cell + STEPS[side]
            there = [
                d
                for d in dirty
                if {
                    0: d // SIDE < row, 1: d % SIDE > column,
                    2: d // SIDE > row, 3: d % SIDE < column,
                }[side]
            ]  # fmt: skip
            expected = (
                1 if wall else -1,
                1 if wall or beyond in been else -1,
                len(there) / max(len(dirty), 1),
            )
            assert seen[n][place::3] == pytest.approx(expected)
    assert 10 < len(been) < 60


def test_a_wall_stops_the_robot():
    world, psi = Rooms(), jax.tree.map(jnp.asarray, RoomsPsi())
    state = world.reset(jax.random.key(0), psi)._replace(heading=jnp.asarray(0))
    for key in range(20):  # northwards out of the first row, unless the wheels slip
        moved = world.step(jax.random.key(key), state, jnp.asarray(0), psi).state
        if int(moved.heading) == 0:
            assert int(moved.cell) == int(state.cell)


def test_with_a_position_it_sees_its_cell_and_four_walls():
    world, psi = RoomsWithPosition(), jax.tree.map(jnp.asarray, RoomsPsi())
    state = world.reset(jax.random.key(0), psi)
    seen = np.asarray(world.observe(state))
    assert np.flatnonzero(seen[:CELLS]) == [int(state.cell)]
    walls = [2 * bool(state.plan.wall(state.cell, jnp.asarray(side))) - 1 for side in range(4)]
    assert seen[CELLS:].tolist() == walls and walls[0] == 1


@pytest.mark.more
def test_it_is_learnt_under_privacy(tmp_path):
    """A random walk cleans a third of a home in that time."""
    run = pgc.train(world="rooms", submissions=300, trials=2, eval_episodes=1, out=tmp_path / "run")
    assert run.summary["averaged_score_mean"] > 70
