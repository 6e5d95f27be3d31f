"""Each attack finds the secret where nothing protects it, and no more than ε allows where something does.

What is simulated follows a seed, so these samples are the same in every run; those of real devices are not, and what is
asserted of them has no chance in it, or next to none.
"""

import json

import pytest

from pgc.cli.main import main
from pgc.errors import PgcError
from pgc.randomise.mechanisms.registry import make_mechanism
from pgc.robber import attack, clock, dynamics, plan, policies, retries, worst_pair
from pgc.robber.effort import Effort

QUICK = Effort(seed=3, quick=True)


def by_arm(made, breaks):
    return [game for game in made.games if game.breaks == breaks]


def test_the_worst_pair_touches_the_ceiling_and_does_not_break_it():
    made = worst_pair.attack(QUICK)
    assert not made.broken
    for game in made.games:
        assert game.high > game.ceiling > game.low  # the whole ε is there to be found


@pytest.mark.parametrize("name", worst_pair.MECHANISMS)
def test_a_mechanism_that_leaks_twice_its_epsilon_is_noticed(name):
    leaking = worst_pair.game(
        make_mechanism(name, dim=worst_pair.DIM, epsilon=2.0, clip=1.0), 1.0, QUICK
    )
    assert leaking.verdict == "broken"


def test_a_plan_is_read_from_a_gradient_and_not_from_a_report():
    made, pictures = plan.attack(QUICK)
    (raw,) = by_arm(made, True)
    assert raw.share > 0.9 and raw.verdict == "expected"
    for game in by_arm(made, False):
        assert game.verdict == "held"
        if game.epsilon <= 5:
            assert game.low < 0.5 < game.high and game.share < 0.55  # what the population tells
    true, drawn = pictures.walls["the home"], pictures.walls["from its gradient"]
    seen = [
        pictures.visited[cell] or pictures.visited[cell + plan.STEPS[side]]
        for cell, side in plan.EDGES
    ]
    assert ((drawn > 0.5) == true)[seen].mean() > 0.9


@pytest.mark.parametrize(
    "question",
    [
        pytest.param(q, marks=pytest.mark.more if q.name != "cartpole" else ())
        for q in dynamics.QUESTIONS
    ],
    ids=lambda q: q.name,
)
def test_psi_is_read_from_a_gradient_and_not_from_a_report(question):
    made = dynamics.attack(question, QUICK)
    (raw,) = by_arm(made, True)
    assert raw.share > 0.9 and not made.broken
    (least,) = [game for game in made.games if game.epsilon == 1.0]
    assert least.low < least.chance + 0.02


def test_a_device_that_is_asked_again_says_the_same():
    made = retries.attack(QUICK)
    kept = {game.share for game in made.games if game.arm.startswith("pgc")}
    assert len(kept) == 1  # not one more secret after 64 answers than after one
    last = made.games[-1]
    assert last.breaks and last.at == 64 and last.share > 0.9


@pytest.mark.more
def test_a_policy_tells_of_its_population_and_hardly_of_one_device():
    made = policies.attack(QUICK)
    assert not made.broken and made.games[0].verdict == "expected"


@pytest.mark.more
def test_the_clock_is_read():
    made = clock.attack(QUICK)
    assert [game.breaks for game in made.games] == [True, False]
    assert all(game.ceiling is None for game in made.games)


def test_the_command_leaves_a_report(tmp_path, capsys):
    assert main(["attack", "pair", "--quick", "--out", str(tmp_path / "a")]) == 0
    said = capsys.readouterr().out
    assert "The worst two gradients: 7" in said and str(tmp_path / "a" / "report.html") in said
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["broken"] == 0 and summary["command"] == "pgc attack pair --quick --seed 0"
    assert {g["verdict"] for a in summary["attacks"] for g in a["games"]} == {"held"}
    page = (tmp_path / "a" / "report.html").read_text()
    assert "data:image" in page and "QUICK LOOK" in page
    assert (tmp_path / "a" / "figures" / "pair.svg").exists()


def test_a_leak_is_loud(tmp_path, capsys, monkeypatch):
    leaking = lambda name, epsilon: make_mechanism(
        name, dim=worst_pair.DIM, epsilon=2 * epsilon, clip=1.0
    )
    kind = attack.Kind("leaks", lambda effort: worst_pair.attack(effort, leaking))
    monkeypatch.setitem(attack.KINDS, "pair", kind)
    assert main(["attack", "pair", "--quick", "--out", str(tmp_path / "a")]) == 1
    assert "ABOVE THE CEILING" in capsys.readouterr().out
    assert "does not hold what it claims" in (tmp_path / "a" / "report.html").read_text()


def test_names():
    assert attack._chosen(["rooms", "plan"]) == ["plan", "rooms"]
    assert attack._chosen([]) == list(attack.KINDS)
    with pytest.raises(PgcError, match="no attack 'walls'; choose from: plan, cartpole"):
        attack._chosen(["walls"])


def test_membership_is_seen_without_noise_alone(tmp_path):
    made = attack.attack(["membership"], quick=True, out=tmp_path / "m", progress=None)
    raw, *private = made.summary["attacks"][0]["games"]
    assert raw["epsilon"] is None and raw["share"] == 1 and raw["verdict"] == "expected"
    assert made.summary["broken"] == 0 and {game["verdict"] for game in private} == {"held"}
