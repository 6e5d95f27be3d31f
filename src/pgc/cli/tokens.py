"""`pgc tokens`: which devices may report to a service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from pgc.cli.device_fields import one_token, read_tokens
from pgc.cli.fields import Json, StoreUrl
from pgc.cli.parsing import parse, print_json
from pgc.errors import PgcError, require


@dataclass(frozen=True)
class Tokens:
    """Issue, revoke or count the tokens with which devices may report.

    A token is printed once; only its hash is stored. Examples:
    pgc tokens issue FOLDER --count 10 --submissions 1 ·
    pgc tokens revoke FOLDER --token-file FILE · pgc tokens count FOLDER
    """

    action: Positional[Literal["issue", "revoke", "count"]]
    """Whether to issue, revoke or count tokens."""
    folder: Positional[Path] = Path("service")
    """The service's folder. The service may be running."""
    store: StoreUrl = None
    count: int = 1
    """How many tokens to issue."""
    submissions: int = 1
    """T: how many reports each token is good for."""
    token_file: Path | None = None
    """A file with the tokens to revoke, one a line; - reads standard input. By default the one in
    the environment variable PGC_TOKEN."""
    json: Json = False


def tokens(given: list[str]) -> int:
    """Runs `pgc tokens` with the given flags."""
    require("sqlalchemy", "service")
    from pgc.cli.stores import errors_in_one_line

    args = parse(Tokens, "tokens", given)
    with errors_in_one_line():
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
        given = [one_token()] if args.token_file is None else read_tokens(args.token_file)
        with database.writing() as db:
            for token in given:
                if not store.revoke_token(db, store.hash_token(token)):
                    raise PgcError("there is no such token; nothing was revoked")
        result, said = {"revoked": len(given)}, f"{len(given)} revoked"
    database.close()
    return result, said
