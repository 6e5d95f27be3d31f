"""Rooms: a robot cleans a home whose floor plan is private.

The robot sees what robots see: whether it would bump into something ahead, to its left and to its
right, and, from its own map of where it has been, where there is more to clean. It does not see the
plan, and a policy that cleans well in every home needs no plan. But gradients do tell it
(`pgc attack rooms`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pgc.local_training.worlds.base import CompiledWorld, Transition
from pgc.local_training.worlds.floor_plan import (
    CELLS,
    DOORS,
    EAST,
    SIDE,
    STEPS,
    TABLES,
    CellSet,
    Plan,
    draw_plan,
)
from pgc.spaces import Bounds, Categorical

TURNS = (0, 3, 1)
"""What is added to the heading to go ahead (action 0), to the left (1), and to the right (2)."""
SLIP = 0.05
"""The probability that the wheels slip, and the robot goes anywhere it could."""


class RoomsPsi(NamedTuple):
    """ψ: the floor plan of one home, as `draw_plan` takes it."""

    wall: float = 4.0
    left: float = 3.0
    right: float = 5.0
    doors: float = 0.0
    tables: float = 0.0


class RoomsState(NamedTuple):
    """The home, where the robot is, and where it was."""

    plan: Plan
    cell: jax.Array
    heading: jax.Array
    """North, east, south or west: 0 to 3."""
    clean: CellSet


class Rooms(CompiledWorld):
    """Clean as much of the floor as possible, in 150 moves.

    The robot goes ahead, to its left, or to its right. A wall stops it, but it turns all the same.
    The score is the share of the floor that was cleaned, in percent.
    """

    name = "rooms"
    observation_dim = 9
    actions = Categorical(3)
    max_steps = 150
    score_threshold = 90.0
    observation_bounds: Bounds = ((-1.0, 1.0),) * 9
    offset = True  # what is there or not is 1 or −1
    sketch_box = (-0.5, SIDE + 0.5, -0.5, SIDE + 0.5)
    default_psi = RoomsPsi()
    default_population = (
        "wall=3:6", "left=3:6", "right=3:6", f"doors=0:{DOORS}", f"tables=0:{TABLES}",
    )  # fmt: skip

    def reset(self, key: jax.Array, psi: RoomsPsi) -> RoomsState:
        """Puts the robot anywhere in the first row, which has no table."""
        plan = draw_plan(*psi)
        cell = jax.random.randint(key, (), 0, SIDE)
        nowhere = CellSet(jnp.uint32(0), jnp.uint32(0))
        return RoomsState(plan, cell, jnp.asarray(EAST), nowhere.add(cell))

    def step(
        self, key: jax.Array, state: RoomsState, action: jax.Array, psi: RoomsPsi
    ) -> Transition:
        """Turns, and moves unless there is a wall. There is no terminal state."""
        slips, other = jax.random.uniform(key, (2,))
        action = jnp.where(
            slips < SLIP, jnp.floor(self.actions.count * other).astype(jnp.int32), action
        )
        heading = self._heading(state, action)
        wall = state.plan.wall(state.cell, heading)
        cell = jnp.where(wall, state.cell, state.cell + jnp.array(STEPS)[heading])
        reward = jnp.where(state.clean.has(cell), 0.0, 100.0 / (CELLS - 4))
        after = RoomsState(state.plan, cell, heading, state.clean.add(cell))
        return Transition(after, reward, jnp.zeros((), bool))

    def _heading(self, state: RoomsState, action: jax.Array) -> jax.Array:
        return (state.heading + jnp.array(TURNS)[action]) % 4

    def observe(self, state: RoomsState) -> jax.Array:
        """Returns, each for ahead, left and right: whether there is a wall, whether the next cell
        was cleaned (1 or −1, and 1 behind a wall), and how much of what is not clean lies on that
        side, from 0 to 1.
        """
        dirty = state.plan.floor().without(state.clean)
        total = jnp.maximum(dirty.size(), 1)
        walls, cleaned, more = [], [], []
        for turn in TURNS:
            heading = (state.heading + turn) % 4
            wall = state.plan.wall(state.cell, heading)
            beyond = jnp.clip(state.cell + jnp.array(STEPS)[heading], 0, CELLS - 1)
            walls.append(_sign(wall))
            cleaned.append(_sign(wall | state.clean.has(beyond)))
            more.append(dirty.both(_side(state.cell, heading)).size() / total)
        return jnp.stack([*walls, *cleaned, *more])

    def sketch(self, state: RoomsState) -> list[tuple[list[float], list[float]]]:
        """Returns the walls, a dot in each cell that was cleaned, and the robot."""
        lines = [([0.0, SIDE, SIDE, 0.0, 0.0], [0.0, 0.0, SIDE, SIDE, 0.0])]
        east, south, clean = (
            s.flags().tolist() for s in (state.plan.east, state.plan.south, state.clean)
        )
        for cell in range(CELLS):
            row, column = divmod(cell, SIDE)
            x, y = float(column), float(SIDE - row)
            if east[cell]:
                lines.append(([x + 1, x + 1], [y, y - 1]))
            if south[cell]:
                lines.append(([x, x + 1], [y - 1, y - 1]))
            if clean[cell]:
                lines.append(([x + 0.45, x + 0.55], [y - 0.5, y - 0.5]))
        row, column = divmod(int(state.cell), SIDE)
        x, y = column + 0.5, SIDE - row - 0.5
        ahead = ((0.0, 0.35), (0.35, 0.0), (0.0, -0.35), (-0.35, 0.0))[int(state.heading)]
        box = ([x - 0.2, x + 0.2, x + 0.2, x - 0.2, x - 0.2],
               [y - 0.2, y - 0.2, y + 0.2, y + 0.2, y - 0.2])  # fmt: skip
        return [*lines, box, ([x, x + ahead[0]], [y, y + ahead[1]])]


class RoomsWithPosition(Rooms):
    """The same homes, and a careless choice of what the policy sees: where in the home the robot
    is, and the walls around it. A policy has nothing from that in the next home, and a gradient
    says which walls are where (`pgc attack plan`).

    This robot has a compass: it goes north, east, south or west.
    """

    name = "rooms-with-position"
    observation_dim = CELLS + 4
    actions = Categorical(4)
    observation_bounds = ((-1.0, 1.0),) * (CELLS + 4)
    offset = False

    def _heading(self, state: RoomsState, action: jax.Array) -> jax.Array:
        return action

    def observe(self, state: RoomsState) -> jax.Array:
        """Returns 1 for the cell that the robot is in and 0 for the others, and whether there are
        walls to the north, east, south and west, 1 or −1.
        """
        here = (jnp.arange(CELLS) == state.cell).astype(jnp.float32)
        walls = [_sign(state.plan.wall(state.cell, jnp.asarray(side))) for side in range(4)]
        return jnp.concatenate([here, jnp.stack(walls)])


def _sign(flag: jax.Array) -> jax.Array:
    return jnp.where(flag, 1.0, -1.0)


def _side(cell: jax.Array, heading: jax.Array) -> CellSet:
    """Returns the cells that lie on one side of a cell: the rows north or south of it, or the
    columns east or west.
    """
    row, column = cell // SIDE, cell % SIDE
    # rows north of it: a row has 8 bits, so 32 bits are four rows
    full = jnp.uint32(0xFFFFFFFF)
    north = CellSet(_low_bits(SIDE * row), _low_bits(SIDE * row - 32))
    till = CellSet(_low_bits(SIDE * (row + 1)), _low_bits(SIDE * (row + 1) - 32))
    south = CellSet(till.first ^ full, till.last ^ full)
    each_row = jnp.uint32(0x01010101)
    west = ((jnp.uint32(1) << column.astype(jnp.uint32)) - 1) * each_row
    east = (((jnp.uint32(2) << column.astype(jnp.uint32)) - 1) & 0xFF) * each_row ^ full
    halves = [north, CellSet(east, east), south, CellSet(west, west)]
    chosen = [jnp.stack(words)[heading] for words in zip(*halves, strict=True)]
    return CellSet(*chosen)


def _low_bits(count: jax.Array) -> jax.Array:
    """Returns a word whose lowest `count` bits are 1: none below 0, and all from 32 on."""
    count = jnp.clip(count, 0, 32)
    full = jnp.uint32(0xFFFFFFFF)
    shift = jnp.minimum(count, 31).astype(jnp.uint32)
    return jnp.where(count == 32, full, (jnp.uint32(1) << shift) - 1)
