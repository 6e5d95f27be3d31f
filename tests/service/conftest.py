"""A real PostgreSQL, which the wheel pgserver brings; it runs as a user of its own where tests run as root."""

import itertools
import warnings

import pytest
import sqlalchemy as sql


@pytest.fixture(scope="session")
def new_database(tmp_path_factory):
    """A function that makes an empty PostgreSQL database and returns its address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pgserver", reason="pgserver has wheels for Python 3.11 and 3.12")
        server = pgserver.get_server(tmp_path_factory.mktemp("postgresql") / "data")
    address = server.get_uri()
    names = (f"test{n}" for n in itertools.count())

    def make() -> str:
        name = next(names)
        engine = sql.create_engine(address.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
        with engine.connect() as db:
            db.exec_driver_sql(f"CREATE DATABASE {name}")
        engine.dispose()
        return address.replace("/postgres?", f"/{name}?")

    yield make
    server.cleanup()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def address(request, tmp_path_factory):
    """Of an empty store, of each kind."""
    if request.param == "postgresql":
        return request.getfixturevalue("new_database")()
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db"
