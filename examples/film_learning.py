"""Films a policy while it is learnt privately: the GIF of the README.

    python examples/film_learning.py docs/images/learning.gif

Runs with one seed are the same up to the report at which the shorter one ends. So runs of 10, 30
and 60 reports show one policy at three moments.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure

import pgc
from pgc.runs.film import greedy_states

MOMENTS = (10, 30, 60)
EPSILON, SEED, EPISODE = 1.0, 1, 3
EVERY = 3  # steps of the world for each frame


def film(path: Path) -> None:
    """Trains, plays one episode at each moment, and writes them side by side."""
    figure = Figure(figsize=(8.4, 1.75), layout="constrained", facecolor="white")
    panels, played = figure.subplots(1, len(MOMENTS)), []
    for reports in MOMENTS:
        with tempfile.TemporaryDirectory() as folder:
            run = pgc.train(
                epsilon=EPSILON,
                submissions=reports,
                seed=SEED,
                eval_episodes=1,
                out=folder + "/run",
            )
            problem, theta = run.problem(), run.policies()["theta"][0]
        world = problem.training.world
        played.append(greedy_states(problem, theta, world.default_psi, EPISODE))
    frames = range(0, max(map(len, played)), EVERY)

    def draw(t: int) -> None:
        for panel, reports, states in zip(panels, MOMENTS, played, strict=True):
            panel.clear()
            left, right, bottom, top = world.sketch_box
            panel.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[], aspect="equal")
            fallen = t >= len(states) - 1 and len(states) <= world.max_steps
            colour = "#c8502c" if fallen else "#1f5fa8"
            for xs, ys in world.sketch(states[min(t, len(states) - 1)]):
                panel.plot(xs, ys, color=colour, linewidth=2.5, solid_capstyle="round")
            panel.set_title(f"after {reports} private reports", fontsize=10)
            said = f"fell after {len(states) - 1} steps" if fallen else f"step {t}"
            panel.set_xlabel(said, fontsize=9, color=colour)

    figure.supylabel(f"ε = {EPSILON:g}", fontsize=11)
    FuncAnimation(figure, draw, [*frames, *[frames[-1]] * 12], interval=50).save(
        str(path), PillowWriter(fps=20), dpi=80
    )


if __name__ == "__main__":
    film(Path(sys.argv[1] if len(sys.argv) > 1 else "learning.gif"))
