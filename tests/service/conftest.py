"""A real PostgreSQL, which the wheel pgserver brings; it runs as a user of its own where tests run as root."""

import itertools
import shutil
import tempfile
import warnings
from pathlib import Path

import pytest
import sqlalchemy as sql


@pytest.fixture(scope="session")
def new_database():
    """A function that makes an empty PostgreSQL database and returns its address.

    Its files are not where pytest's are: the next session of pytest would close that folder to the server's user.
    """
    place = Path(tempfile.mkdtemp(prefix="pgc-postgresql-"))
    place.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip(
            "pgserver", reason="pgserver has wheels for Python 3.11 and 3.12"
        )
        server = pgserver.get_server(place / "data")
    address = server.get_uri()
    names = (f"test{n}" for n in itertools.count())

    def make() -> str:
        name = next(names)
        engine = sql.create_engine(
            address.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
        )
        with engine.connect() as db:
            db.exec_driver_sql(f"CREATE DATABASE {name}")
        engine.dispose()
        return address.replace("/postgres?", f"/{name}?")

    yield make
    server.cleanup()
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def address(request, tmp_path_factory):
    """Of an empty store, of each kind."""
    if request.param == "postgresql":
        return request.getfixturevalue("new_database")()
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db"
