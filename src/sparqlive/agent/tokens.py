"""Tokens: who may do what, in a file of the store's directory that only its owner reads.

The file has the hashes of the tokens, never the tokens: each is shown once, when it is made. It is read anew
when it has changed, so that a running agent knows of new and revoked tokens with the next request.
Invariant: where the file is, nobody is let in without a token, also when the last one was revoked.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sparqlive.errors import Error, StoreFailed
from sparqlive.numbers import MOST, number, whole
from sparqlive.store.private import make_directory, open_private

FILE = "tokens.json"
_RIGHTS = ("read", "write", "admin")
_VIEW = "read:view="
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SECRET = "sparqlive_"
LEAST = 0.001
"""Of a rate, and of seconds: one request in a quarter of an hour."""


@dataclass(frozen=True)
class Limits:
    """What one token may have of the agent; None: as much as the agent allows anybody."""

    requests_per_second: float | None = None
    subscriptions: int | None = None
    """At the same time."""
    views: int | None = None
    """Views that it registered and that are there."""
    query_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("requests_per_second", "query_seconds"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), LEAST)
        for name in ("subscriptions", "views"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), least=1)


@dataclass(frozen=True)
class Token:
    """What is known of a token."""

    name: str
    rights: tuple[str, ...]
    created: str
    hash: str
    limits: Limits = Limits()

    def may(self, right: str, view: str | None) -> bool:
        """Whether it has a right; `read:view` is the right to one view."""
        if "admin" in self.rights or right in self.rights:
            return True
        return right == "read:view" and ("read" in self.rights or f"{_VIEW}{view}" in self.rights)


class Tokens:
    """The tokens of a store."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._read_as: tuple[int, int, int] | None = None
        self._tokens: Mapping[str, Token] = {}

    @property
    def wanted(self) -> bool:
        """Whether a token is needed: there is one, or there has been one."""
        return self._path.exists()

    def all(self) -> Mapping[str, Token]:
        """The tokens by name, as the file has them now."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._read_as, self._tokens = None, {}
            return {}
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen != self._read_as:
            self._tokens = self._read()
            self._read_as = seen
        return self._tokens

    def _read(self) -> Mapping[str, Token]:
        try:
            noted = json.loads(self._path.read_text(encoding="utf-8"))
            return {name: _token(name, entry) for name, entry in noted.items()}
        except (Error, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreFailed(f"{self._path} cannot be read, so that nobody is let in: {error}.") from error

    def known(self, secret: str) -> Token | None:
        """The token of a secret. All are compared, each in constant time."""
        given, found = _hash(secret), None
        for token in self.all().values():
            if hmac.compare_digest(token.hash, given):
                found = token
        return found

    def create(
        self, rights: Iterable[str], name: str | None = None, limits: Limits | None = None
    ) -> tuple[str, str]:
        """Makes a token; gives its name and its secret, which nobody can give again."""
        name = f"token-{secrets.token_hex(4)}" if name is None else name
        if not _NAME.fullmatch(name):
            raise Error(
                f"A token cannot be named {name!r}: letters, digits, '.', '_', '@' and '-', at most 64."
            )
        checked = tuple(dict.fromkeys(_right(right) for right in rights))
        if not checked:
            raise Error(f"A token needs a right: {', '.join(_RIGHTS)} or {_VIEW}NAME.")
        secret = _SECRET + secrets.token_urlsafe(32)
        made = Token(
            name, checked, datetime.now(UTC).isoformat(timespec="seconds"), _hash(secret), limits or Limits()
        )
        with self._written() as tokens:
            if name in tokens:
                raise Error(
                    f"There is a token named {name!r} already: revoke it first, or choose another name."
                )
            tokens[name] = made
        return name, secret

    def revoke(self, name: str) -> None:
        """From now on a token is none."""
        with self._written() as tokens:
            if name not in tokens:
                known = ", ".join(tokens) or "none"
                raise Error(f"There is no token named {name!r}. The tokens are: {known}.")
            del tokens[name]

    @contextmanager
    def _written(self) -> Iterator[dict[str, Token]]:
        """The tokens to change; one process at a time, and the file is the old or the new one, whole."""
        directory = self._path.parent
        try:
            make_directory(directory)
            descriptor = open_private(directory / "tokens.lock", os.O_WRONLY, directory)
        except OSError as error:
            raise StoreFailed(f"The store {directory} cannot be made: {error}.") from error
        with open(descriptor, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = dict(self.all())
            yield tokens
            entries = {name: _entry(token) for name, token in tokens.items()}
            new = self._path.with_suffix(".new")
            new.unlink(missing_ok=True)
            with open(open_private(new, os.O_WRONLY | os.O_EXCL, directory), "w", encoding="utf-8") as stream:
                json.dump(entries, stream, indent=1)
                stream.flush()
                os.fsync(stream.fileno())
            new.replace(self._path)


def _hash(secret: str) -> str:
    """Secrets are 256 random bits: there is nothing to guess, and no need for a slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _right(given: str) -> str:
    if given in _RIGHTS or (given.startswith(_VIEW) and given != _VIEW):
        return given
    raise Error(f"A right is {', '.join(_RIGHTS)} or {_VIEW}NAME, not {given!r}.")


def _token(name: str, entry: Mapping[str, Any]) -> Token:
    rights = tuple(_right(right) for right in entry["rights"])
    # Older files may have limits beyond what is taken today: they limit nothing.
    limits = {key: value and min(value, MOST) for key, value in entry["limits"].items()}
    return Token(name, rights, entry["created"], entry["hash"], Limits(**limits))


def _entry(token: Token) -> dict[str, Any]:
    entry = asdict(token)
    del entry["name"]
    return entry
