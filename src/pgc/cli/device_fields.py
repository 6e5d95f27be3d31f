"""Flags that several commands of a device have: which service, which world, and its token."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from pgc.errors import PgcError

if TYPE_CHECKING:
    from pgc.local_training.recipe import Recipe
    from pgc.local_training.worlds.base import World
    from pgc.service.client import ServiceClient

TOKEN = "PGC_TOKEN"
"""The environment variable that a token is read from."""


@dataclass(frozen=True)
class Connection:
    """How a device reaches a service, and the world that it lives in."""

    url: Positional[str]
    """Address of the service, for instance https://localhost:8443."""
    token_file: Path | None = None
    """A file whose first line is the token that admits this device (pgc tokens issue prints it); -
    reads standard input. By default the environment variable PGC_TOKEN. Tokens are not arguments,
    because every user of a machine can see those."""
    world: str = "cartpole"
    """The world that the device lives in: a built-in one, gymnasium:ID, or MODULE:CLASS of a
    Gymnasium environment."""
    max_steps: int | None = None
    """The largest number of steps in an episode, for a world that is not built in. Give the value
    of the service's config if it differs from the world's default."""
    threshold: float | None = None
    """Θ, for a world that is not built in."""
    bounds: tuple[str, ...] | None = None
    """The public box of the observations, for a world that is not built in: INDEX=low:high. By
    default the one that the service publishes."""
    recipe: str | None = None
    """The recipe that this device agrees to, by the fingerprint that pgc slot prints. Another one
    is refused, whoever publishes it. By default the service's recipe is followed."""
    model: str = "default"
    """Which of the service's models to train."""
    ca: Path | None = None
    """The certificate of the authority to trust, if it is not a public one."""
    patience: float = 3600.0
    """Seconds to keep trying when the service cannot be reached."""

    def connect(self, token: str) -> ServiceClient:
        """Returns a connection to the service with this token."""
        from pgc.service.client import ServiceClient

        ca = None if self.ca is None else str(self.ca)
        return ServiceClient(self.url, token, model=self.model, ca=ca, patience=self.patience)

    def token(self) -> str:
        """Returns the token of one device."""
        return one_token() if self.token_file is None else read_tokens(self.token_file)[0]

    def world_and_recipe(self, token: str) -> tuple[World, Recipe]:
        """Returns this device's world, and the service's recipe, completed for it.

        Observations are scaled by the box that the service publishes, unless the device has its
        own: it must be the same for all.
        """
        from pgc.local_training.players import recipe_for
        from pgc.local_training.recipe import check_play
        from pgc.local_training.worlds.registry import world_of

        with self.connect(token) as service:
            card = service.card()
        if card.get("world") != self.world:
            trains = "".join(c for c in str(card.get("world"))[:40] if c.isprintable())
            raise PgcError(
                f"the service trains for {trains}; this device's world is {self.world} (--world)"
            )
        bounds, published = self.bounds, card.get("bounds")
        if bounds is None and published is not None:
            if not isinstance(published, list) or not all(isinstance(b, str) for b in published):
                raise PgcError("the service's bounds are not ones that this version of pgc knows")
            bounds = tuple(published)
        world = world_of(replace(self, bounds=bounds))
        recipe = recipe_for(world, card.get("recipe"))
        check_play(card, recipe)
        if self.recipe is not None and recipe.fingerprint != self.recipe:
            raise PgcError(
                f"the service's recipe is {recipe.fingerprint}, and this device agreed to "
                f"{self.recipe} (--recipe)"
            )
        return world, recipe


def one_token() -> str:
    """Returns the token in the environment variable PGC_TOKEN."""
    if not (found := os.environ.get(TOKEN, "")):
        raise PgcError(f"no token: set {TOKEN}, or give --token-file FILE (- reads standard input)")
    return found


def read_tokens(path: Path) -> list[str]:
    """Returns the tokens in a file, one a line; - is standard input."""
    try:
        found = (sys.stdin.read() if str(path) == "-" else path.read_text()).split()
    except (OSError, UnicodeDecodeError) as error:
        raise PgcError(f"cannot read tokens in {path} ({error})") from None
    if not found:
        raise PgcError(f"there is no token in {path}; pgc tokens issue prints some")
    return found
