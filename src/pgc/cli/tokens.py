"""`pgc tokens`: which devices may report to a service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from pgc.cli.fields import Json, Store
from pgc.cli.parsing import parse, print_json
from pgc.errors import PgcError, require


@dataclass(frozen=True)
class Tokens:
    """Issue, revoke or count the tokens with which devices may report. Printed once, stored hashed.

    pgc tokens issue FOLDER --count 10 --submissions 1 · pgc tokens revoke FOLDER --token TOKEN ·
    pgc tokens count FOLDER
    """

    action: Positional[Literal["issue", "revoke", "count"]]
    """What to do."""
    folder: Positional[Path] = Path("service")
    """The service's folder. The service may be running."""
    store: Store = None
    count: int = 1
    """How many to issue."""
    submissions: int = 1
    """T: how many reports each is good for."""
    token: str | None = None
    """The one to revoke."""
    json: Json = False


def tokens(given: list[str]) -> int:
    """Run `pgc tokens` with the given flags."""
    require("sqlalchemy", "service")
    from pgc.cli.stores import readable

    args = parse(Tokens, "tokens", given)
    with readable():
        result, said = _tokens(args)
    if args.json:
        return print_json(result)
    print(said)
    return 0


def _tokens(args: Tokens) -> tuple[dict[str, Any], str]:
    from pgc.cli.stores import open_store
    from pgc.service import store
    from pgc.service.keeper import issue_tokens

    database = open_store(args.folder, args.store)
    result: dict[str, Any]
    if args.action == "issue":
        result = {"tokens": issue_tokens(database, args.count, args.submissions)}
        said = "\n".join(result["tokens"])
    elif args.action == "count":
        with database.reading() as db:
            tally = store.count_tokens(db)
        result = tally._asdict()
        said = (
            f"{tally.usable} usable, for {tally.reports_left} reports; {tally.used_up} used up; "
            f"{tally.revoked} revoked"
        )
    else:
        if args.token is None:
            raise PgcError("which? pgc tokens revoke FOLDER --token TOKEN")
        with database.writing() as db:
            if not store.revoke_token(db, store.hash_token(args.token)):
                raise PgcError("there is no such token")
        result, said = {"revoked": 1}, "revoked"
    database.close()
    return result, said
