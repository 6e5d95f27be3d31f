"""Makes a new model in a store. It needs JAX: a front end that is to stay small does it in another
process.
"""

from __future__ import annotations

import json

import numpy as np
import sqlalchemy as sql

from pgc.config import TrainConfig, from_yaml, to_yaml
from pgc.errors import PgcError
from pgc.service import store
from pgc.service.database import Database
from pgc.service.model import Model


def create_model(
    database: Database, name: str, config: TrainConfig, theta: np.ndarray | None = None
) -> None:
    """Makes a new model; `theta` is θ_0 of a policy that only devices know.

    If another process has just made the same model, nothing happens.
    """
    if not (name.isascii() and name.replace("-", "").isalnum() and len(name) <= 64):
        raise PgcError(
            f"a model's name has letters, digits and hyphens, at most 64 of them; not '{name}'"
        )
    made = Model(name, config, theta)
    card, first = json.dumps(made.card, default=list), made.kept(0, made.published)
    try:
        with database.writing() as db:
            store.create_model(db, name, to_yaml(made.config), card, first)
    except sql.exc.IntegrityError:
        with database.reading() as db:
            found = store.list_models(db).get(name)
        if found is None or from_yaml(found) != made.config:
            raise PgcError(f"there is a model '{name}' already") from None


def create_at(url: str, name: str, config: TrainConfig, theta: np.ndarray | None) -> None:
    """Makes a new model in the store at this address."""
    database = Database(url)
    try:
        create_model(database, name, config, theta)
    finally:
        database.close()
