"""Commands on the tokens of an agent: token create, list, revoke."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sparqlive.agent.audit import Audit
from sparqlive.agent.tokens import FILE as TOKENS
from sparqlive.agent.tokens import Limits, Tokens
from sparqlive.cli.arguments import Store, check_count, check_rate, check_seconds
from sparqlive.opening import ensure_store, is_store, say

commands = typer.Typer(
    help="Create, list and revoke tokens, which a running agent knows of at once.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@commands.command("create")
def create_token(
    store: Annotated[
        Path, typer.Option("--store", metavar="DIR", help="Store directory; the store need not exist yet.")
    ],
    can: Annotated[
        list[str],
        typer.Option(
            metavar="RIGHTS",
            help="What it may do, with commas between: read, read:view=NAME, write, admin (which is all).",
        ),
    ],
    name: Annotated[str | None, typer.Option(help="What logs call it; else a random name.")] = None,
    requests_per_second: Annotated[float | None, typer.Option(callback=check_rate, metavar="NUMBER")] = None,
    subscriptions: Annotated[
        int | None, typer.Option(callback=check_count, metavar="NUMBER", help="At the same time.")
    ] = None,
    views: Annotated[
        int | None, typer.Option(callback=check_count, metavar="NUMBER", help="Views that it registers.")
    ] = None,
    query_seconds: Annotated[
        float | None,
        typer.Option(
            callback=check_seconds, metavar="SECONDS", help="How long a one-off query of it may take."
        ),
    ] = None,
) -> None:
    """Create a token, and print it: it is kept as a hash, and cannot be shown again.

    From the first token on, the agent of the store asks for one.
    """
    limits = Limits(requests_per_second, subscriptions, views, query_seconds)
    rights = [right.strip() for given in can for right in given.split(",") if right.strip()]
    made, secret = Tokens(store).create(rights, name, limits)
    Audit(store).note("command line", f"create token {made}", "done", rights=rights)
    if not is_store(store):
        say(f"There is no store at {store} yet: sparqlive serve --store {store} creates it.")
    print(f"The token {made} may {', '.join(rights)}. It is not shown again:", file=sys.stderr)
    print(secret)


@commands.command("list")
def list_tokens(store: Store) -> None:
    """List the tokens: names, rights, limits, when they were created."""
    _ensure_tokens(store)
    for token in Tokens(store).all().values():
        limits = [f"{name} {value:g}" for name, value in asdict(token.limits).items() if value is not None]
        print("\t".join([token.name, ",".join(token.rights), " ".join(limits) or "no limits", token.created]))


@commands.command("revoke")
def revoke_token(store: Store, name: Annotated[str, typer.Argument(help="The token's name.")]) -> None:
    """Revoke a token. Without any left, nobody is let in until there is a new one."""
    _ensure_tokens(store)
    Tokens(store).revoke(name)
    Audit(store).note("command line", f"revoke token {name}", "done")


def _ensure_tokens(store: Path) -> None:
    """Tokens can be there before the store is: an agent that others reach begins with them."""
    if not os.path.exists(store / TOKENS):
        ensure_store(store)
