"""`pgc tokens`: which devices may report to a service."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from pgc.cli.device_fields import one_token, read_tokens
from pgc.cli.fields import Json, StoreUrl
from pgc.cli.parsing import parse, print_json
from pgc.errors import PgcError, require

if TYPE_CHECKING:
    from pgc.service.token_store import Batch


@dataclass(frozen=True)
class Tokens:
    """Issue, revoke, count or list the tokens with which devices may report.

    A token is printed once; only its hash is stored. Tokens that are issued together are a batch,
    which can have a label. Examples:
    pgc tokens issue FOLDER --count 10 --submissions 1 --label north --days 90 ·
    pgc tokens list FOLDER · pgc tokens count FOLDER ·
    pgc tokens revoke FOLDER --token-file FILE · pgc tokens revoke FOLDER --label north
    """

    action: Positional[Literal["issue", "revoke", "count", "list"]]
    """Whether to issue tokens, revoke some, count all, or list the batches with their counts."""
    folder: Positional[Path] = Path("service")
    """The service's folder. The service may be running."""
    store: StoreUrl = None
    count: int = 1
    """How many tokens to issue."""
    submissions: int = 1
    """T: how many reports each token is good for."""
    label: str | None = None
    """The name of the batch to issue, or to revoke; by default a new batch is named after the
    day."""
    days: float | None = None
    """Days until the new tokens expire; by default they never do. An expired token gets no offer,
    but one that it holds can still be answered."""
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
    from pgc.service import store, token_store
    from pgc.service.keeper import issue_tokens

    database = open_store(args.folder, args.store)
    result: dict[str, Any]
    now = int(time.time())
    if args.action == "issue":
        seconds = None if args.days is None else args.days * store.DAY
        made = issue_tokens(
            database, args.count, args.submissions, batch=args.label, seconds=seconds
        )
        result, said = {"tokens": made}, "\n".join(made)
    elif args.action == "list":
        with database.reading() as db:
            listed = token_store.list_batches(db, now)
        batches = [batch.card for batch in listed]
        result, said = {"batches": batches}, _table(listed)
    elif args.action == "count":
        with database.reading() as db:
            tally = token_store.count_tokens(db, now)
        result, said = tally._asdict(), token_store.in_words(tally)
    elif args.label is not None:
        with database.writing() as db:
            revoked = token_store.revoke_batch(db, args.label)
        if not revoked:
            raise PgcError(f"no batch '{args.label}' has tokens that can still be used")
        result, said = {"revoked": revoked}, f"{revoked} revoked"
    else:
        given = [one_token()] if args.token_file is None else read_tokens(args.token_file)
        with database.writing() as db:
            for token in given:
                if not token_store.revoke_token(db, token_store.hash_token(token)):
                    raise PgcError("there is no such token; nothing was revoked")
        result, said = {"revoked": len(given)}, f"{len(given)} revoked"
    database.close()
    return result, said


def _table(batches: Sequence[Batch]) -> str:
    """Returns a line for each batch."""
    from pgc.service import token_store

    lines = []
    for batch in batches:
        until = "" if batch.expires_at is None else f" (until {_day(batch.expires_at)})"
        since = "" if batch.issued_at is None else f", issued {_day(batch.issued_at)}{until}"
        lines.append(
            f"{batch.name or 'without a label'}{since}: {token_store.in_words(batch.tokens)}"
        )
    return "\n".join(lines) or "no tokens were issued yet"


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
