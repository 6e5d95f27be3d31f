"""`--help`: short first, everything on demand, and without the packages that a command needs."""

import subprocess
import sys
from dataclasses import fields

import pytest

from pgc.cli.help import field_texts
from pgc.cli.main import COMMANDS, main
from pgc.cli.train import FIRST, Train
from pgc.config import TrainConfig
from pgc.config.config import FILLED_IN, SECTIONS


def help_of(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert stop.value.code == 0
    return capsys.readouterr().out


def test_the_flags_that_are_used_most_come_first(capsys):
    short, whole = help_of(capsys, "train", "--help"), help_of(capsys, "train", "--help-all")
    assert short.count("\n  --") == len(FIRST) < 15
    assert "--epsilon NUMBER" in short and "--help-all" in short and "glossary" in short
    assert whole.count("\n  --") == len(fields(Train)) - len(FILLED_IN)
    assert all(f"\n{title}\n" in whole for title in SECTIONS.values())
    assert "--no-normalize" in whole and "--start-origin" not in whole
    assert "(default: None)" not in whole


def test_every_group_begins_at_a_setting():
    assert set(SECTIONS) <= {f.name for f in fields(TrainConfig)}
    assert next(iter(SECTIONS)) == fields(TrainConfig)[0].name


def test_every_flag_is_explained():
    texts = field_texts(Train)
    annotated = {"out", "engine", "address", "run_code", "json"}  # which carry their own text
    assert {f.name for f in fields(Train)} - annotated <= set(texts)


@pytest.mark.parametrize("verb", list(COMMANDS))
def test_no_line_is_too_wide_and_defaults_are_said(verb, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = help_of(capsys, verb, "--help")
    assert said.startswith(f"usage: pgc {verb}") and max(map(len, said.splitlines())) <= 80


def test_help_of_train_loads_no_training_stack():
    code = (
        "import sys; from pgc.cli.main import main\n"
        "try: main(['train', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'jax', 'optax', 'matplotlib', 'pyarrow'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("train --epsilom 1", "there is no flag --epsilom (did you mean --epsilon?)"),
        ("train --epsilon abc", "--epsilon takes NUMBER, not 'abc'"),
        ("train --trials 1.5", "--trials takes INTEGER, not '1.5'"),
        ("train --epsilon", "--epsilon needs a value: NUMBER"),
        ("train --subspace cubic", "--subspace takes one of"),
        ("train --hidden a b", "--hidden takes INTEGER …, not 'a'"),
        ("train mars", "'mars' belongs to no flag"),
        ("train --start-origin public", "there is no flag --start-origin"),
        ("tokens shout", "takes one of issue, revoke, count, list, not 'shout'"),
        ("evaluate", "something is missing: RUN"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_in_one_line_with_the_flag_as_it_is_typed(arguments, words, capsys):
    assert main(arguments.split()) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1 and "lists the flags" in said
