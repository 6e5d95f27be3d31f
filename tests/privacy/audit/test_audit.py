"""The audit finds what is wrong, and nothing where nothing is."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from pgc.cli.main import main
from pgc.errors import PgcError
from pgc.privacy.audit.audit import (
    FAMILY_ERROR,
    SCORE,
    TELL_APART,
    Row,
    audit,
    audit_mechanism,
    judge,
    score_subject,
    subject,
)
from pgc.privacy.audit.bounds import lower_epsilon, samples_for
from pgc.privacy.audit.events import strongest
from pgc.privacy.audit.paths import simulated
from pgc.randomise.mechanisms.registry import MECHANISMS, make_mechanism
from tests import chance
from tests.conftest import more
from tests.length import SOAK
from tests.privacy.audit import mutants


def test_the_bound_is_clopper_and_pearsons():
    for hits, other, n in ((0, 0, 10), (10, 0, 10), (700, 300, 1000), (3, 1, 1000)):
        low = stats.binomtest(hits, n).proportion_ci(0.98, "exact").low
        high = stats.binomtest(other, n).proportion_ci(0.98, "exact").high
        expected = max(0.0, math.log(low / high)) if low > 0 else 0.0
        assert lower_epsilon(hits, n, other, n, 0.02) == pytest.approx(expected, abs=1e-9)


def test_the_bound_holds_as_often_as_it_says(rng):
    p, epsilon, n = 0.6, 1.0, 300
    wrong = sum(
        lower_epsilon(
            int(rng.binomial(n, p)), n, int(rng.binomial(n, p * math.exp(-epsilon))), n, 0.1
        )
        > epsilon
        for _ in range(4000)
    )
    assert wrong / 4000 < 0.1


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
def test_the_samples_are_enough(epsilon, rng):
    """99 % power: a leak of 1.2 is told from the claim."""
    p = 1 / (1 + math.exp(-epsilon))
    n = samples_for(epsilon, p, epsilon / TELL_APART, 0.001)
    found = [
        lower_epsilon(int(rng.binomial(n, p)), n, int(rng.binomial(n, 1 - p)), n, 0.001)
        > epsilon / TELL_APART
        for _ in range(1000)
    ]
    assert np.mean(found) > 0.985


@pytest.mark.parametrize("epsilon", [1.0, *more(0.5, 2.0, 5.0)])
def test_each_event_is_that_of_the_likelihood_ratio(epsilon):
    """Its probabilities, by a large sample: e^ε apart."""
    for name in MECHANISMS:
        mechanism = make_mechanism(name, dim=8, epsilon=epsilon, clip=1.0, code_size=256)
        if name == "none" or not mechanism.guarantee.honest:
            continue
        event, n, sample = (
            strongest(mechanism),
            60_000,
            simulated(mechanism, np.random.default_rng(0)),
        )
        p, q = (event.happened(sample(g, event.number, n)).mean() for g in (event.one, event.other))
        assert abs(p - event.likely) < 5 * math.sqrt(p * (1 - p) / n) + 1e-4, name
        assert (
            abs(math.log(p / q) - epsilon) < 5 * math.sqrt((1 - p) / p / n + (1 - q) / q / n) + 2e-3
        ), name


@pytest.fixture
def brief(monkeypatch):
    """A short search. Of an honest mechanism it finds nothing anyhow; what the long one finds is in `test_mutants.py`."""
    for name, few in (
        ("PILOT", 60),
        ("PAIRS_REFINED", 2),
        ("PAIRS_REFINED_FEW", 1),
        ("REFINED_DRAWS", 400),
    ):
        monkeypatch.setattr(f"pgc.privacy.audit.search.{name}", few)


def confirmed(row) -> bool:
    """Whether a row refutes ε/1.2 and does not refute ε: the mechanism leaks what it says, no more and hardly less."""
    return row.verdict == "pass" and row.lower_bound > row.epsilon / TELL_APART


RELEASED = ("laplace", "prs", "prs-sign", "duchi", "index")


def small(name):
    kind, _, lifted = name.partition(", ")
    return make_mechanism(
        kind,
        dim=1 if kind == "laplace" else 2,
        epsilon=2.0,
        clip=0.5,
        code_size=64,
        lift=bool(lifted),
    )


@pytest.mark.parametrize("name", [*RELEASED, SCORE, *more("index, lifted")])
def test_released_bytes_leak_what_they_claim_and_fail_a_smaller_claim(name, brief):
    """Bits of the operating system: the bound exceeds the claim by chance, or is too small, with the probability `ONCE`."""

    def audited():
        rng = np.random.default_rng(0)
        it = (
            score_subject(2.0, "release", rng)
            if name == SCORE
            else subject(small(name), "release", rng)
        )
        return confirmed(judge(it, claim=None, error=chance.ONCE, power=1 - chance.ONCE))

    assert chance.in_two(audited, looks=2)


@pytest.mark.more
def test_the_command_confirms_all_simulated_draws(brief, capsys):
    assert (
        main(
            [
                "audit",
                "--all",
                "--path",
                "simulated",
                "--epsilon",
                "2",
                "--dim",
                "2",
                "--seed",
                "0",
                "--json",
            ]
        )
        == 0
    )
    table = json.loads(capsys.readouterr().out)
    assert table["passed"] and table["family_wise_error"] == FAMILY_ERROR
    honest = {
        n
        for n in MECHANISMS
        if make_mechanism(n, dim=8, epsilon=1.0, clip=1.0).guarantee.honest and n != "none"
    }
    assert {row["mechanism"] for row in table["rows"]} == honest | {SCORE, "index, lifted"}
    assert all(confirmed(Row(**row)) for row in table["rows"]), table


def test_a_seed_repeats_what_is_simulated(brief):
    mechanism = small("duchi")
    rows = [audit_mechanism(mechanism, "simulated", seed=seed) for seed in (3, 3, 4)]
    assert rows[0] == rows[1] and rows[0].lower_bound != rows[2].lower_bound
    with pytest.raises(PgcError, match="seed"):
        audit("duchi", 1.0, seed=-1)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="minutes: make soak")
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 5.0])
def test_every_row_is_confirmed_with_the_long_search(epsilon, capsys):
    """As a user audits: one table in a hundred fails by chance, one in ten has a bound too small for this; not three in a row."""
    for _ in range(3):
        main(["audit", "--all", "--json", "--epsilon", str(epsilon)])
        rows = [Row(**row) for row in json.loads(capsys.readouterr().out)["rows"]]
        if all(map(confirmed, rows)):
            break
    assert all(map(confirmed, rows)), rows
    assert {"laplace", "prs", "prs-sign", "duchi", "index", SCORE} <= {
        row.mechanism for row in rows if row.path == "release"
    }


def test_a_mechanism_of_ones_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "own.py").write_text((__import__("pathlib").Path(mutants.__file__)).read_text())
    monkeypatch.syspath_prepend(tmp_path)
    assert (
        main(
            [
                "audit",
                "--mechanism",
                "own:SmallScale",
                "--epsilon",
                "2",
                "--path",
                "simulated",
                "--seed",
                "0",
            ]
        )
        == 1
    )
    out = capsys.readouterr().out
    assert "own:SmallScale" in out and "FAIL" in out and "NOT every row passed" in out


def test_errors_say_what_to_do(capsys):
    for arguments, reason in (
        (["audit"], "--mechanism NAME, or --all"),
        (["audit", "--all", "--mechanism", "duchi"], "--mechanism NAME, or --all"),
        (["audit", "--mechanism", "privunit", "--path", "release"], "has no release path"),
        (["audit", "--mechanism", "nonsense"], "unknown mechanism"),
        (["audit", "--mechanism", "duchi", "--epsilon", "inf"], "positive finite epsilon"),
        (["audit", "--mechanism", "none"], "claims no epsilon"),
    ):
        assert main(arguments) == 2
        assert reason in capsys.readouterr().err
    with pytest.raises(PgcError, match="no exact form"):
        audit_mechanism(make_mechanism("privunit", dim=4, epsilon=1.0, clip=1.0), "release")
