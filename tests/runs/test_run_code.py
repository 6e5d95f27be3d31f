"""Code that a file names runs only when somebody says so: a folder that was sent must not do anything by being looked at."""

import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

import pgc
from pgc.cli.main import main
from pgc.config import configure, from_yaml, to_yaml
from pgc.errors import PgcError, code_in
from pgc.runs.run import Run
from pgc.service.database import Database, sqlite_url
from pgc.service.store import Kept, create_model
from pgc.studies.frontier.plan import Settings
from tests.recorded.make import FILES

HOSTILE = """
from pathlib import Path
Path("ran").touch()
import optax
sgd = optax.sgd
"""


@pytest.fixture
def sent(tmp_path, monkeypatch):
    """A folder that somebody sent, and the module that its config names, which leaves a trace when it is imported."""
    monkeypatch.chdir(tmp_path)
    Path("hostile_module.py").write_text(HOSTILE)
    shutil.copytree(FILES / "run", "sent")
    named = Path("sent/config.yaml")
    named.write_text(named.read_text().replace("optimizer: sgd", "optimizer: hostile_module:sgd"))
    assert "hostile_module" in named.read_text()
    yield "sent"
    import sys

    sys.modules.pop("hostile_module", None)


@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "sent", "--episodes", "1"],
        ["compare", "sent"],
        ["train", "--resume", "sent"],
        ["serve", "service", "--config", "sent/config.yaml"],
    ],
)
def test_the_command_line_refuses_it(sent, command, capsys):
    """The hole: `pgc evaluate` of such a folder opened a port."""
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "names code of its own (hostile_module:sgd)" in said and "--run-code" in said
    assert not Path("ran").exists()


def test_a_study_and_a_store_refuse_it_too(sent, capsys):
    """A study that was stopped, and a model in a store, can name code as well."""
    Path("study").mkdir()
    size = Settings(trials=1, submissions=1, seed=0, world="hostile_module:World", quick=True)
    Path("study/config.yaml").write_text(yaml.safe_dump(asdict(size)))
    Path("service").mkdir()
    database = Database(sqlite_url(Path("service/store.db").resolve()))
    with database.writing() as db:
        create_model(db, "default", Path("sent/config.yaml").read_text(), "{}", Kept(0, 0, b""))
    database.close()
    for command in (["frontier", "--resume", "study"], ["serve", "service"], ["replay", "service"]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "hostile_module:" in said and "--run-code" in said, said
    assert not Path("ran").exists()


def test_python_refuses_it_too_and_can_still_read_what_is_there(sent):
    run = Run.open(Path(sent))
    assert run.config.optimizer == "hostile_module:sgd" and run.scores().size
    for work in (
        lambda: pgc.evaluate(run),
        lambda: pgc.evaluate(sent),
        lambda: pgc.train(resume=sent),
    ):
        with pytest.raises(PgcError, match="run_code=True"):
            work()
    assert not Path("ran").exists()


def test_it_runs_when_that_is_said(sent, capsys):
    assert main(["evaluate", sent, "--episodes", "1", "--run-code"]) == 0
    assert Path("ran").exists()


def test_what_counts_as_code():
    assert code_in(vars(configure())) == []
    for world in ("gymnasium:CartPole-v1", "gymnax:CartPole-v1", "cartpole"):
        assert code_in({"world": world}) == []
    for world in ("mine:World", "gymnasium:mine:World-v0", "os:system"):
        assert code_in({"world": world}) == [world]
    for field in ("mechanism", "policy", "optimizer"):
        assert code_in({field: "mine:Thing"}) == ["mine:Thing"]
    assert from_yaml(to_yaml(configure())) == configure()
