"""`pgc inspect` of a store: what an aggregator keeps, in words."""

import json

import pytest

from pgc.cli.main import main
from pgc.config import configure
from pgc.service.alone import Alone
from pgc.service.database import sqlite_url
from tests.service.test_front_end import report

CONFIG = configure(epsilon=1.0, submissions=1000, buffer_size=3, local_episodes=2)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_store_is_explained(kind, tmp_path, capsys, request):
    url = sqlite_url(tmp_path / "store.db")
    if kind == "postgresql":
        url = request.getfixturevalue("new_database")()
    alone = Alone(url)
    alone.create("home", CONFIG)
    report(alone, tmp_path, 4, "home")
    alone.wait_until_applied()
    alone.roll_back("home", 0, who="ada", reason="a test")
    where = [str(tmp_path)] if kind == "sqlite" else ["--store", url]
    before = (tmp_path / "store.db").read_bytes() if kind == "sqlite" else b""
    assert main(["inspect", *where, "--json"]) == 0  # beside the service
    said = json.loads(capsys.readouterr().out)
    [model] = said["models"]
    assert model.startswith("home: version 2, 4 reports, 0 of them in no version yet; index, ε = 1")
    assert said["reports"].startswith("4, with 1 randomised byte(s) each")
    assert said["went back"] == ["home to version 0, by ada: a test"]
    assert said["tokens"].startswith("0 usable, for 0 reports; 4 used up")
    assert said["open offers"].startswith("0: the only rows")
    if kind == "sqlite":
        assert (tmp_path / "store.db").read_bytes() == before
    alone.close()
    assert main(["inspect", *where]) == 0  # and of one that has stopped
    assert "the store of an aggregator" in capsys.readouterr().out


def test_a_store_of_another_version_is_not_changed(tmp_path, capsys):
    alone = Alone(sqlite_url(tmp_path / "store.db"))
    with alone.database.writing() as db:
        db.exec_driver_sql("UPDATE schema_version SET version = 2")
    alone.close()
    assert main(["inspect", str(tmp_path)]) == 2
    assert (
        "of version 2, and this pgc reads version 3: pgc serve brings it" in capsys.readouterr().err
    )
