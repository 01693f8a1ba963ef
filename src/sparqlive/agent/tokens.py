"""Tokens and their rights, in a file of the store directory that only its owner can read.

The file holds hashes, never the tokens: each token is shown once, when it is created. The file is read again
when it has changed, so a running agent knows new and revoked tokens with the next request.
Invariant: if the file exists, every request needs a token, even after the last token was revoked.
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
from sparqlive.store.names import read_small
from sparqlive.store.private import make_directory, open_private

FILE = "tokens.json"
_RIGHTS = ("read", "write", "service", "admin")
_VIEW = "read:view="
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SECRET = "sparqlive_"
_MOST_BYTES = 100_000_000
LEAST = 0.001
"""The lower bound of rates and of seconds: about one request in a quarter of an hour."""


@dataclass(frozen=True)
class Limits:
    """The limits of one token; None: only the agent's own limits apply."""

    requests_per_second: float | None = None
    subscriptions: int | None = None
    """Open subscriptions at the same time."""
    views: int | None = None
    """Existing views that the token registered."""
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
    """A token without its secret."""

    name: str
    rights: tuple[str, ...]
    created: str
    hash: str
    limits: Limits = Limits()

    def may(self, right: str, view: str | None) -> bool:
        """Whether the token has a right; `read:view` is the right to read one view."""
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
    def required(self) -> bool:
        """Whether requests need a token: the store has or had one."""
        return os.path.lexists(self._path)

    def all(self) -> Mapping[str, Token]:
        """The current tokens of the file, by name."""
        try:
            found = self._path.lstat()
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
            entries = json.loads(read_small(self._path, _MOST_BYTES) or b"")
            return {name: _token(name, entry) for name, entry in entries.items()}
        except (Error, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreFailed(f"Cannot read {self._path}, so all requests are rejected: {error}.") from error

    def find(self, secret: str) -> Token | None:
        """Returns the token of a secret. Compares all tokens, each in constant time."""
        secret_hash, found = _hash(secret), None
        for token in self.all().values():
            if hmac.compare_digest(token.hash, secret_hash):
                found = token
        return found

    def create(
        self, rights: Iterable[str], name: str | None = None, limits: Limits | None = None
    ) -> tuple[str, str]:
        """Creates a token. Returns its name and its secret, which is not stored."""
        name = f"token-{secrets.token_hex(4)}" if name is None else name
        if not _NAME.fullmatch(name):
            raise Error(
                f"Invalid token name {name!r}. Use at most 64 letters, digits, '.', '_', '@' and '-', and "
                f"begin with a letter or digit."
            )
        checked = tuple(dict.fromkeys(_right(right) for right in rights))
        if not checked:
            raise Error(f"A token needs at least one right: {', '.join(_RIGHTS)} or {_VIEW}NAME.")
        secret = _SECRET + secrets.token_urlsafe(32)
        token = Token(
            name, checked, datetime.now(UTC).isoformat(timespec="seconds"), _hash(secret), limits or Limits()
        )
        with self._change() as tokens:
            if name in tokens:
                raise Error(f"Token {name!r} already exists. Revoke it first, or choose another name.")
            tokens[name] = token
        return name, secret

    def revoke(self, name: str) -> None:
        """Revokes a token at once."""
        with self._change() as tokens:
            if name not in tokens:
                known = ", ".join(tokens) or "none"
                raise Error(f"There is no token named {name!r}. Known tokens: {known}.")
            del tokens[name]

    @contextmanager
    def _change(self) -> Iterator[dict[str, Token]]:
        """Yields the tokens for a change, to one process at a time. The file is replaced atomically."""
        directory = self._path.parent
        try:
            make_directory(directory)
            descriptor = open_private(directory / "tokens.lock", os.O_WRONLY, directory)
        except OSError as error:
            raise StoreFailed(f"Cannot create the store directory {directory}: {error}.") from error
        with open(descriptor, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = dict(self.all())
            before = self._read_as
            yield tokens
            self.all()
            if self._read_as != before:  # the lock was removed, or the file system grants it twice
                raise StoreFailed(f"Another process has changed {self._path} meanwhile. Try again.")
            entries = {name: _entry(token) for name, token in tokens.items()}
            new = self._path.with_suffix(".new")
            new.unlink(missing_ok=True)
            with open(open_private(new, os.O_WRONLY | os.O_EXCL, directory), "w", encoding="utf-8") as stream:
                json.dump(entries, stream, indent=1)
                stream.flush()
                os.fsync(stream.fileno())
            new.replace(self._path)


def _hash(secret: str) -> str:
    """Hashes a secret. It has 256 random bits and cannot be guessed, so a fast hash is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _right(text: str) -> str:
    if text in _RIGHTS or (text.startswith(_VIEW) and text != _VIEW):
        return text
    raise Error(f"Unknown right {text!r}. Available rights: {', '.join(_RIGHTS)} and {_VIEW}NAME.")


def _token(name: str, entry: Mapping[str, Any]) -> Token:
    rights = tuple(_right(right) for right in entry["rights"])
    # Older files may have limits above today's maximum, which limit nothing.
    limits = {key: value and min(value, MOST) for key, value in entry["limits"].items()}
    return Token(name, rights, entry["created"], entry["hash"], Limits(**limits))


def _entry(token: Token) -> dict[str, Any]:
    entry = asdict(token)
    del entry["name"]
    return entry
