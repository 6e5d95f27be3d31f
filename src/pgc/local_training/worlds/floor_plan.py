"""Floor plans of homes: 8 × 8 cells, four rooms behind one wall from north to south and two from
west to east, doors, and a table in each room.

Sets of cells are two words of 32 bits, one bit a cell, so that a plan is a few numbers and looking
at a cell takes no memory access. Cells are numbered row by row from the north-west corner.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

SIDE = 8
CELLS = SIDE * SIDE
NORTH, EAST, SOUTH, WEST = range(4)
STEPS = (-SIDE, 1, SIDE, -1)
"""What is added to the number of a cell to reach its neighbour in the north, east, south, west."""
ROOMS = 4
Number = jax.Array | float


class CellSet(NamedTuple):
    """A set of cells, one bit a cell."""

    first: jax.Array
    """Cells 0 to 31."""
    last: jax.Array
    """Cells 32 to 63."""

    @classmethod
    def of(cls, flags: jax.Array) -> CellSet:
        """Returns the set of the cells whose flag is true; `flags` are (64,)."""
        words = flags.reshape(2, 32).astype(jnp.uint32) << jnp.arange(32, dtype=jnp.uint32)
        first, last = words.sum(axis=1, dtype=jnp.uint32)
        return cls(first, last)

    def has(self, cell: jax.Array) -> jax.Array:
        """Whether a cell is in the set."""
        word = jnp.where(cell < 32, self.first, self.last)
        return (word >> (cell & 31).astype(jnp.uint32)) & 1 == 1

    def add(self, cell: jax.Array) -> CellSet:
        """Returns the set with one more cell."""
        bit = jnp.uint32(1) << (cell & 31).astype(jnp.uint32)
        none = jnp.uint32(0)
        return CellSet(
            self.first | jnp.where(cell < 32, bit, none),
            self.last | jnp.where(cell < 32, none, bit),
        )

    def without(self, other: CellSet) -> CellSet:
        """Returns the cells of this set that are not in the other."""
        return CellSet(self.first & ~other.first, self.last & ~other.last)

    def both(self, other: CellSet) -> CellSet:
        """Returns the cells that are in both sets."""
        return CellSet(self.first & other.first, self.last & other.last)

    def size(self) -> jax.Array:
        """Returns how many cells are in the set."""
        counts = jax.lax.population_count(self.first) + jax.lax.population_count(self.last)
        return counts.astype(jnp.int32)

    def flags(self) -> jax.Array:
        """Returns whether each cell is in the set, (64,)."""
        return jax.vmap(self.has)(jnp.arange(CELLS))


class Plan(NamedTuple):
    """A floor plan. There is a wall around the home, and one around each table."""

    east: CellSet
    """The cells with a wall at their east side."""
    south: CellSet
    tables: CellSet
    """The cells that nobody can be on."""

    def wall(self, cell: jax.Array, direction: jax.Array) -> jax.Array:
        """Whether there is a wall at one side of a cell."""
        beyond = cell + jnp.array(STEPS)[direction]
        owner = jnp.where((direction == EAST) | (direction == SOUTH), cell, beyond)
        upright = (direction == EAST) | (direction == WEST)
        outside = owner < 0  # the western side of a row is the eastern side of the row before
        found = jnp.where(upright, self.east.has(owner), self.south.has(owner))
        return outside | found

    def floor(self) -> CellSet:
        """Returns the cells that can be cleaned."""
        everything = jnp.uint32(0xFFFFFFFF)
        return CellSet(everything, everything).without(self.tables)


def draw_plan(wall: Number, left: Number, right: Number, doors: Number, tables: Number) -> Plan:
    """Returns the plan with the upright wall west of column `wall`, and walls across the left and
    the right half north of the rows `left` and `right`. The digits of `doors` (below `DOORS`) say
    where the doors are, and those of `tables` (below `TABLES`) where the table of each room stands.

    Every cell without a table can be reached from every other: each wall has a door, and around a
    table, which never touches a wall of its room, there is room to pass.
    """
    wall, left, right = (
        jnp.clip(jnp.floor(value), 3, SIDE - 3).astype(jnp.int32) for value in (wall, left, right)
    )
    north_door, south_door, left_door, right_door = _digits(doors, (3, 3, 5, 5))
    row, column = jnp.divmod(jnp.arange(CELLS), SIDE)
    upright = (column == wall - 1) & (row != north_door) & (row != SIDE - 1 - south_door)
    across = ((column < wall) & (row == left - 1) & (column != left_door * wall // 5)) | (
        (column >= wall)
        & (row == right - 1)
        & (column != SIDE - 1 - right_door * (SIDE - wall) // 5)
    )
    table = jnp.zeros(CELLS, bool)
    at = _digits(tables, (3,) * 2 * ROOMS)
    halves = ((left, 0, wall), (right, wall, SIDE))
    rooms: list[tuple[Any, ...]] = [
        room
        for across_at, west, east in halves
        for room in ((0, across_at, west, east), (across_at, SIDE, west, east))
    ]
    for number, (top, bottom, west, east) in enumerate(rooms):
        at_row = top + 1 + at[2 * number] * (bottom - top - 2) // 3
        at_column = west + 1 + at[2 * number + 1] * (east - west - 2) // 3
        table |= (row == at_row) & (column == at_column)
    beside_east = table | jnp.roll(table, -1)  # a table never stands at the edge
    beside_south = table | jnp.roll(table, -SIDE)
    return Plan(
        east=CellSet.of(upright | (column == SIDE - 1) | beside_east),
        south=CellSet.of(across | (row == SIDE - 1) | beside_south),
        tables=CellSet.of(table),
    )


DOORS, TABLES = 3 * 3 * 5 * 5, 3 ** (2 * ROOMS)
"""How many ways there are to place the doors, and the tables."""


def _digits(number: Number, bases: tuple[int, ...]) -> list[jax.Array]:
    """Returns the digits of a number in these bases, the lowest first."""
    rest, digits = jnp.asarray(number).astype(jnp.int32), []
    for base in bases:
        digits.append(rest % base)
        rest = rest // base
    return digits
