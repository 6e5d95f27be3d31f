"""Pictures of runs. Each function returns the bytes of a file."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pgc.local_training.worlds.base import CompiledWorld, World
from pgc.privacy.statement import epsilon_in_words
from pgc.runs import metrics
from pgc.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Style = Literal["screen", "paper"]
"""How a figure is drawn: a PNG to look at, or a PDF at the width of a paper's column."""
COLUMN = 3.4
"""The width of a column of a paper in inches."""
PAPER: dict[Any, Any] = {
    "font.size": 8,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,  # letters as letters, which publishers ask for
}
POINTS = 400
"""Points along a curve, which are more than the eye can tell apart."""
SINGLE_TRIALS = 20
CURVE_TRIALS = 200
"""A curve summarises at most CURVE_TRIALS trials, and draws at most SINGLE_TRIALS one by one."""
DASHES = ("-", "--", "-.", ":")
"""Lines that may lie on each other are dashed, so that each is seen."""
TITLE: dict[str, Any] = {"loc": "left", "fontsize": "medium"}
COLOURS = ("#1f5fa8", "#c8502c", "#3a8f57", "#7a4fa3", "#b58a1b", "#4f8f9f", "#a03f6b", "#666666")


def new_figure(
    rows: int = 1, columns: int = 1, *, share_x: bool = False, share_y: bool = False, **how: Any
) -> tuple[Figure, Any]:
    """Returns a figure and its axes.

    It does not use pyplot, so importing pgc chooses no Matplotlib backend, and a notebook keeps its
    own.
    """
    from matplotlib.figure import Figure  # takes long to load, and a run needs it last

    figure = Figure(**how)
    return figure, figure.subplots(rows, columns, sharex=share_x, sharey=share_y)


def file_type(style: Style) -> str:
    """Returns the type of file in which figures of this style are written, as its name ends."""
    return "pdf" if style == "paper" else "png"


def learning_curve(run: Run) -> bytes:
    """Draws μ_n: the median and quartiles over trials, and single trials as thin lines."""
    scores = run.scores(CURVE_TRIALS)
    figure, axes = new_figure(figsize=(7.5, 4.2), layout="constrained")
    _curve(
        axes,
        run,
        scores,
        COLOURS[0],
        label=f"median of {len(scores)} trials" if len(scores) > 1 else "this trial",
        band="middle half of trials" if len(scores) > 1 else None,
        thin=True,
    )
    _dress_curve(axes, run)
    axes.set_title(f"{run.config.world}: {label_of(run)}", **TITLE)
    return _saved(figure)


def comparison(
    runs: list[Run], fsts: list[np.ndarray], labels: list[str], style: Style = "screen"
) -> bytes:
    """Draws the learning curves of several runs, and their success ratios over submissions."""
    with _styled(style):
        if style == "paper":
            how: dict[str, Any] = {"rows": 2, "share_x": True, "figsize": (COLUMN, 4.2)}
        else:
            how = {"columns": 2, "figsize": (12, 4.6)}
        figure, (curves, ratios) = new_figure(**how, layout="constrained")
        most = max(run.config.submissions for run in runs)
        for i, (run, fst, label) in enumerate(zip(runs, fsts, labels, strict=True)):
            colour = COLOURS[i % len(COLOURS)]
            dash = DASHES[i % len(DASHES)]
            _curve(
                curves, run, run.scores(CURVE_TRIALS), colour, label=label, thin=False, dash=dash
            )
            n = np.unique(np.linspace(1, run.config.submissions, POINTS).astype(int))
            ratio = metrics.success_ratio(fst, n)
            ratios.step(n, ratio, dash, where="post", color=colour, label=label)
        _dress_curve(curves, runs[0], legend=False)
        curves.set_xlim(0, most)
        curves.set_title(f"{runs[0].config.world}: average score μ$_n$", **TITLE)
        ratios.set(xlabel="submissions", ylim=(-0.02, 1.02), xlim=(0, most))
        ratios.set_title("success ratio: trials that have succeeded", **TITLE)
        ratios.grid(alpha=0.25)
        if style == "paper":
            curves.set(xlabel="", ylabel="score")
        figure.legend(
            *curves.get_legend_handles_labels(),
            fontsize="small",
            loc="outside lower center",
            ncols=1 if style == "paper" else 3,
            frameon=False,
        )
        return _saved(figure, style)


def score_bars(
    names: list[str],
    scores: np.ndarray,
    trained: list[bool],
    world: World,
    title: str,
    style: Style = "screen",
) -> bytes:
    """Draws the mean greedy score at each ψ, lighter where ψ is outside the population."""
    with _styled(style):
        return _saved(_score_bars(names, scores, trained, world, title, style), style)


def _score_bars(
    names: list[str],
    scores: np.ndarray,
    trained: list[bool],
    world: World,
    title: str,
    style: Style,
) -> Figure:
    wide, high = max(6.0, 0.55 * len(names) + 2), 4.2
    size = (COLUMN, 2.8) if style == "paper" else (wide, high)
    figure, axes = new_figure(figsize=size, layout="constrained")
    place, means, inside = np.arange(len(names)), scores.mean(axis=0), np.array(trained)
    for chosen, colour, label in (
        (inside, COLOURS[0], "trained on"),
        (~inside, "#b9cde3", "never seen"),
    ):
        if chosen.any():
            axes.bar(place[chosen], means[chosen], color=colour, label=label)
    if len(scores) > 1:
        spread = np.abs(np.quantile(scores, [0.25, 0.75], axis=0) - scores.mean(axis=0))
        axes.errorbar(
            range(len(names)),
            scores.mean(axis=0),
            spread,
            fmt="none",
            ecolor="#333333",
            lw=1,
            capsize=2,
        )
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize="small")
    bars = "\n(thin lines: middle half of trials)" if len(scores) > 1 else ""
    axes.set(ylabel=f"mean greedy score{bars}")
    _dress_scores(axes, world)
    if style == "screen":  # a paper has captions
        axes.set_title(title, **TITLE)
    figure.legend(fontsize="small", loc="outside lower center", ncols=3, frameon=False)
    return figure


def animation(world: CompiledWorld, episodes: dict[str, list[Any]], *, every: int) -> bytes:
    """Draws episodes side by side as a GIF of the world's own sketches, with one frame in `every`
    states. The keys are the captions. An episode that has ended stays as it ended.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    left, right, bottom, top = world.sketch_box
    width, title = (4.5 if len(episodes) > 1 else 6.0), 0.35
    height = width * (top - bottom) / (right - left) + title
    figure, axes = new_figure(1, len(episodes), figsize=(width * len(episodes), height), dpi=80)
    figure.subplots_adjust(0.005, 0.01, 0.995, 1 - title / height, wspace=0.02)
    canvas: Any = FigureCanvasAgg(figure)
    frames = []
    longest = max(map(len, episodes.values()))
    for t in [*range(0, longest, every), *[longest - 1] * 12]:
        for panel, (caption, states) in zip(np.atleast_1d(axes), episodes.items(), strict=True):
            panel.clear()
            over = t >= len(states) - 1
            ended = over and len(states) <= world.max_steps  # and not by the time limit
            for xs, ys in world.sketch(states[min(t, len(states) - 1)]):
                panel.plot(xs, ys, lw=4, solid_capstyle="round", color=COLOURS[ended])
            panel.axhline(0, color="#999999", lw=1, zorder=0)
            panel.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xticks=[], yticks=[])
            said = f"ended after {len(states) - 1} steps" if ended else f"step {t}"
            if over and not ended:
                said = f"all {world.max_steps} steps"
            panel.set_title(f"{caption}: {said}", fontsize=10)
        canvas.draw()
        image = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])
        frames.append(image.convert("P", palette=Image.Palette.ADAPTIVE, colors=32))
    return _gif(frames)


def film(pictures: list[np.ndarray], *, every: int) -> bytes:
    """Makes a GIF of one in `every` pictures (height, width, 3), at most 320 × 320 pixels large."""
    from PIL import Image

    frames = []
    for picture in pictures[::every]:
        image = Image.fromarray(picture)
        image.thumbnail((320, 320))
        frames.append(image.convert("P", palette=Image.Palette.ADAPTIVE, colors=32))
    return _gif(frames)


def _gif(frames: list[Any]) -> bytes:
    out = io.BytesIO()
    frames[0].save(out, format="GIF", save_all=True, append_images=frames[1:], duration=40, loop=0)
    return out.getvalue()


TOLD = ("preset", "mechanism", "epsilon", "buffer_size", "control", "submissions")
"""Settings that a label tells anyway, or that the axis of a figure does."""
FOLLOW = ("learning_rate", "step_decay", "clip", "code_size", "reduced_dim", "start_origin")
"""Settings that follow from others, unless they are given."""
MOST_TOLD = 3


def labels_of(runs: list[Run], differs: Sequence[str] = ()) -> list[str]:
    """Returns a label for each run: what it is, and the first few settings in which it `differs`;
    with the folder's name where labels would be equal.
    """
    told = [name for name in differs if name not in TOLD + FOLLOW][:MOST_TOLD]
    short = [label_of(run, buffer="buffer_size" in differs) for run in runs]
    words = [
        ", ".join([one, *(f"{n} = {_text(getattr(run.config, n))}" for n in told)])
        for one, run in zip(short, runs, strict=True)
    ]
    return [
        word if words.count(word) == 1 else f"{word} ({run.path.name})"
        for word, run in zip(words, runs, strict=True)
    ]


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def label_of(run: Run, *, buffer: bool = True) -> str:
    """Describes a run in a few words, with the ε that truly holds and, with `buffer`, |B|."""
    c = run.config
    parts = [epsilon_in_words(run.problem())]
    parts += [f"|B| = {c.buffer_size}"] * buffer + ["zero-gradient control"] * c.control
    return ", ".join(parts)


def _curve(
    axes: Axes,
    run: Run,
    scores: np.ndarray,
    colour: str,
    *,
    label: str,
    thin: bool,
    band: str | None = None,
    dash: str = "-",
) -> None:
    longest = int(np.max(np.sum(~np.isnan(scores), axis=1)))  # trials may stop early
    length = longest - metrics.WINDOW + 1
    if length < 1:
        return
    at = np.unique(np.linspace(0, length - 1, POINTS).astype(int))
    mu = np.array([metrics.average_scores(row)[at] for row in scores])
    if thin:
        axes.plot(
            at + 1, mu[:SINGLE_TRIALS].T, color=colour, lw=0.5, alpha=0.25 if len(mu) > 1 else 0.0
        )
    low, middle, high = np.nanquantile(mu, [0.25, 0.5, 0.75], axis=0)
    axes.fill_between(at + 1, low, high, color=colour, alpha=0.18, lw=0, label=band)
    axes.plot(at + 1, middle, dash, color=colour, lw=1.6, label=label)


def _dress_curve(axes: Axes, run: Run, *, legend: bool = True) -> None:
    world = run.problem().training.world
    _dress_scores(axes, world)
    axes.set(
        xlabel="submissions",
        ylabel=f"average score of {metrics.WINDOW} submissions",
        xlim=(0, run.config.submissions),
    )
    axes.grid(alpha=0.25)
    # a run of fewer than WINDOW submissions has no curve
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small", frameon=False, loc="best")


def _dress_scores(axes: Axes, world: World) -> None:
    """Draws Θ as a line, if there is one, and shows the whole range of scores where it is known.

    It is known where Θ is nearly `max_steps`: such a world gives at most 1 for each step.
    """
    if np.isfinite(world.score_threshold):
        said = f"Θ = {world.score_threshold:g}, a success"
        axes.axhline(world.score_threshold, color="#888888", lw=1, ls="--", label=said)
    if 0.9 * world.max_steps <= world.score_threshold <= world.max_steps:
        axes.set_ylim(0, world.max_steps * 1.03)


@contextmanager
def _styled(style: Style) -> Iterator[None]:
    """Draws in this style what is drawn inside."""
    import matplotlib

    with matplotlib.rc_context(PAPER if style == "paper" else {}):
        yield


def _saved(figure: Figure, style: Style = "screen") -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=file_type(style), dpi=130)
    return buffer.getvalue()
