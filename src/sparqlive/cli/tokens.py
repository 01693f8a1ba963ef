"""Commands for the tokens of an agent: `token create`, `list` and `revoke`."""

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
from sparqlive.cli.arguments import Json, NoAgent, Store, TokenStore, check_count, check_rate, check_seconds
from sparqlive.cli.output import print_json
from sparqlive.opening import ensure_store, is_store, say

commands = typer.Typer(
    help="Create, list and revoke tokens. A running agent uses the new list at once.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@commands.command("create")
def create_token(
    store: TokenStore,
    can: Annotated[
        list[str],
        typer.Option(
            metavar="RIGHTS",
            help="Rights, separated by commas: read, read:view=NAME, write, service (SERVICE in queries), "
            "admin (everything).",
        ),
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name in the logs; random by default.")
    ] = None,
    requests_per_second: Annotated[
        float | None, typer.Option(callback=check_rate, metavar="NUMBER", help="Rate limit.")
    ] = None,
    subscriptions: Annotated[
        int | None, typer.Option(callback=check_count, metavar="NUMBER", help="Limit of open subscriptions.")
    ] = None,
    views: Annotated[
        int | None, typer.Option(callback=check_count, metavar="NUMBER", help="Limit of registered views.")
    ] = None,
    query_seconds: Annotated[
        float | None,
        typer.Option(callback=check_seconds, metavar="SECONDS", help="Time limit of a one-off query."),
    ] = None,
    json: Json = False,
    agent: NoAgent = None,
) -> None:
    """Create a token and print it. The store keeps only its hash, so it cannot be shown again.

    Once a store has a token, its agent requires one.

    Example: sparqlive token create --store my.store --can read
    """
    limits = Limits(requests_per_second, subscriptions, views, query_seconds)
    rights = [right.strip() for value in can for right in value.split(",") if right.strip()]
    token_name, secret = Tokens(store).create(rights, name, limits)
    Audit(store).note("command line", f"create token {token_name}", "done", rights=rights)
    if not is_store(store):
        say(f"There is no store at {store} yet. To create it, run: sparqlive serve --store {store}")
    if json:
        print_json({"name": token_name, "rights": rights, "token": secret})
        return
    print(f"Token {token_name} may {', '.join(rights)}. It is not shown again:", file=sys.stderr)
    print(secret)


@commands.command("list")
def list_tokens(store: Store, json: Json = False, agent: NoAgent = None) -> None:
    """List the tokens: name, rights, limits, time of creation."""
    _ensure_tokens(store)
    found = Tokens(store).all().values()
    if not found:
        say(f"There are no tokens. To create one, run: sparqlive token create --store {store} --can read")
    for token in found:
        if json:
            about = {"rights": list(token.rights), "limits": asdict(token.limits), "created": token.created}
            print_json({"name": token.name, **about})
            continue
        limits = [f"{name} {value:g}" for name, value in asdict(token.limits).items() if value is not None]
        print("\t".join([token.name, ",".join(token.rights), " ".join(limits) or "no limits", token.created]))


@commands.command("revoke")
def revoke_token(
    store: Store,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")],
    json: Json = False,
    agent: NoAgent = None,
) -> None:
    """Revoke a token. After the last one is revoked, the agent rejects every request until you create one."""
    _ensure_tokens(store)
    Tokens(store).revoke(name)
    Audit(store).note("command line", f"revoke token {name}", "done")
    if json:
        print_json({"revoked": name})
    else:
        print(f"Revoked token {name}.")


def _ensure_tokens(store: Path) -> None:
    """Rejects a directory with neither tokens nor a store; tokens may be created before the store."""
    if not os.path.exists(store / TOKENS):
        ensure_store(store)
