"""The figures of `pgc attack`, as PNG and SVG."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pgc.local_training.worlds.floor_plan import CELLS, EAST, SIDE
from pgc.robber.game import Attack, Game, ceiling
from pgc.robber.plan import EDGES, Pictures
from pgc.runs.figures import COLOURS, new_figure
from pgc.studies.pages import Files, saved

WALL, FLOOR, UNSEEN, LIMIT, BROKEN = "#1d2327", "#ffffff", "#e6eaed", "#1d2327", "#b3261e"
NO_NOISE = 30.0
"""Where on the axis of ε what has no noise is drawn."""


def homes(shown: Pictures, note: str) -> Files:
    """Draws the home, and what the robber makes of it: the darker a wall, the surer it is."""
    figure, axes = new_figure(
        1, len(shown.walls), figsize=(2.5 * len(shown.walls), 2.9), layout="constrained"
    )
    everything = np.ones(CELLS, bool)
    for number, (title, walls) in enumerate(shown.walls.items()):
        panel = axes[number]  # the first two know where the robot was
        _home(panel, walls, shown.visited if number < 2 else everything)
        panel.set_title(title, fontsize=10)
    return saved(figure, note)


def _home(axes: Any, walls: np.ndarray, visited: np.ndarray) -> None:
    for cell in range(CELLS):
        row, column = divmod(cell, SIDE)
        if not visited[cell]:
            axes.fill_between([column, column + 1], SIDE - row - 1, SIDE - row, color=UNSEEN, lw=0)
    for (cell, side), sure in zip(EDGES, walls, strict=True):
        row, column = divmod(cell, SIDE)
        x, y = column + 1, SIDE - row - 1
        ends = ([x, x], [y, y + 1]) if side == EAST else ([x - 1, x], [y, y])
        axes.plot(
            *ends, color=WALL, lw=2.2, alpha=float(np.clip(sure, 0, 1)), solid_capstyle="butt"
        )
    axes.plot([0, SIDE, SIDE, 0, 0], [0, 0, SIDE, SIDE, 0], color=WALL, lw=2.2)
    axes.set_aspect("equal")
    axes.axis("off")


def games(attack: Attack, note: str) -> Files:
    """Draws how often the robber is right, with intervals, and the ceiling."""
    figure, axes = new_figure(figsize=(6.2, 3.6), layout="constrained")
    arms = list(dict.fromkeys(game.arm for game in attack.games))
    private = [game for game in attack.games if game.ceiling is not None]
    over_epsilon = all(game.at is None for game in private)
    secrets = attack.games[0].secrets
    for number, arm in enumerate(arms):
        those = [game for game in attack.games if game.arm == arm]
        aside = 1 + 0.04 * (number - (len(arms) - 1) / 2)  # so that none hides another
        x = np.array([_place(game) for game in those]) * aside
        y = np.array([game.share for game in those])
        width = np.array([[game.share - game.low, game.high - game.share] for game in those]).T
        breaks = those[-1].breaks
        axes.errorbar(
            x, y, np.maximum(width, 0), fmt="s" if breaks else "o", ms=5, capsize=3, lw=1.2,
            color=BROKEN if breaks else COLOURS[number % len(COLOURS)],
            mfc="white" if breaks else None,
            label=f"{arm} (not protected)" if breaks else arm,
        )  # fmt: skip
    axes.axhline(1 / secrets, color="#8a8f94", lw=1, ls=":", label="a guess")
    if private:
        if over_epsilon:
            at = np.geomspace(min(g.epsilon for g in private), max(g.epsilon for g in private), 200)
            most = [ceiling(float(e), secrets) for e in at]
        else:
            at = np.array([min(map(_place, private)), max(map(_place, private))])
            most = [max(game.ceiling or 0.0 for game in private)] * 2
        axes.plot(at, most, color=LIMIT, lw=1.2, ls="--", label="the most that ε-LDP allows")
    places = sorted({_place(game) for game in attack.games})
    if len(places) > 1 and min(places) > 0:
        axes.set_xscale("log")
    axes.set_xticks(places, ["no noise" if p == NO_NOISE else f"{p:g}" for p in places])
    axes.set_xticks([], minor=True)
    axes.set_ylim(0, 1.04)
    axes.set_xlabel(attack.axis)
    axes.set_ylabel("guesses that are right")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="best")
    return saved(figure, note)


def _place(game: Game) -> float:
    if game.at is not None:
        return game.at
    return NO_NOISE if math.isinf(game.epsilon) else game.epsilon
