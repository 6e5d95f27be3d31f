"""A sweep gives each cell what the cell would have got alone, stops what has shown what it is for, and survives a stop."""

import numpy as np
import pytest

import pgc
from pgc.config import configure
from pgc.errors import PgcError
from pgc.runs import metrics, sweep
from pgc.runs.folder import Folder
from pgc.runs.sweep import Cell

EASY = dict(
    reward="end", action="sampled", bootstrap="zero", mechanism="none", epsilon=np.inf
)  # succeeds by about 1,500
COMMON = dict(preset="paper", submissions=1800, trials=6, seed=4, eval_episodes=5)


def cells(figure_trials=2):
    settings = {
        "fast": dict(clip=1.0),
        "slow": dict(clip=0.01),
        "other": dict(clip=1.0, control=True, submissions=900),
    }
    return [
        Cell(name=name, config=configure(**{**COMMON, **EASY, **s}), figure_trials=figure_trials)
        for name, s in settings.items()
    ]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    return sweep.run(cells(), Folder(tmp_path_factory.mktemp("sweep")))


def test_a_cell_has_what_pgc_train_gives(outcomes, tmp_path):
    run = pgc.train(configure(**{**COMMON, **EASY, "clip": 1.0}), out=tmp_path / "alone")
    fst = np.array([np.inf if f is None else f for f in run.summary["fst"]])
    ours = outcomes["fast"]
    assert np.isfinite(fst).any() and np.array_equal(ours.fst, fst)
    scores = run.scores()[:2]
    expected = [metrics.average_scores(row)[ours.n - 1] for row in scores]
    np.testing.assert_allclose(ours.curve, expected, rtol=1e-6)
    assert np.array_equal(ours.received[:2], [1800, 1800])
    assert ours.final.shape == ours.averaged.shape == (2,) and ours.final.min() > 100


def test_trials_beyond_the_whole_ones_stop_after_their_first_success_and_no_others(outcomes):
    fast, slow = outcomes["fast"], outcomes["slow"]
    stopped = fast.received < 1800
    assert stopped.any() and not stopped[:2].any()
    assert np.all(np.isfinite(fst := fast.fst[stopped])) and np.all(
        fast.received[stopped] >= fst + metrics.WINDOW - 1
    )
    assert np.all(slow.received == 1800) and np.isinf(slow.fst).all()
    assert outcomes["other"].received.tolist() == [900] * 6


def test_a_sweep_that_was_stopped_continues_to_the_same_outcomes(outcomes, tmp_path):
    folder, looks = Folder(tmp_path), iter([False, False, True])
    assert sweep.run(cells(), folder, stop_asked=lambda: next(looks)) is None
    assert (tmp_path / sweep.CHECKPOINT).exists()
    again = sweep.run(cells(), folder)
    for name, outcome in outcomes.items():
        for key, value in vars(outcome).items():
            assert np.array_equal(getattr(again[name], key), value, equal_nan=True), (name, key)
    assert not (tmp_path / sweep.CHECKPOINT).exists() and sweep.facts(folder)["seconds"] > 0
    reread = sweep.run(cells(), folder)  # a sweep that has ended is only read
    assert np.array_equal(reread["fast"].fst, outcomes["fast"].fst)


def test_a_folder_of_another_experiment_is_refused(tmp_path):
    folder = Folder(tmp_path)
    sweep.run(cells()[2:], folder)
    with pytest.raises(PgcError, match="another experiment"):
        sweep.run(cells(figure_trials=1)[2:], folder)


def test_progress_reaches_all_there_is(tmp_path):
    seen = []
    sweep.run(
        cells()[2:],
        Folder(tmp_path),
        progress=lambda done, total, words: seen.append((done, total, words)),
    )
    assert seen[-1][0] == seen[-1][1] > 0 and "6 of 6 trials done" in seen[-1][2]
