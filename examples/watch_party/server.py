"""A Community Solid Server on this machine, and the people who have pods on it."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import httpx

import sparqlive
from sparqlive.sources.kinds.solid_login import SolidLogin
from sparqlive.web.network import Network, Reach, Response

_START_SECONDS = 300.0
_PROGRAM = Path(__file__).parents[2] / ".peers" / "node_modules" / ".bin" / "community-solid-server"
_REACH = Reach(allow_private=True)  # the server is on this machine
_ACL = "@prefix acl: <http://www.w3.org/ns/auth/acl#>."


@dataclass(frozen=True)
class Person:
    """A person with a pod, and the credentials of a program that acts for them."""

    name: str
    web_id: str
    pod: str
    issuer: str
    client_id: str
    client_secret: str
    _login: SolidLogin = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        login = SolidLogin(self.issuer, self.client_id, self.client_secret, None, _REACH)
        object.__setattr__(self, "_login", login)

    def put(self, address: str, turtle: str) -> None:
        """Writes a document."""
        self._request("PUT", address, "text/turtle", turtle)

    def patch(self, address: str, *, insert: str = "", delete: str = "") -> None:
        """Changes a document with an N3 Patch."""
        parts = {"inserts": insert, "deletes": delete}
        given = "; ".join(f"solid:{verb} {{ {triples} }}" for verb, triples in parts.items() if triples)
        change = (
            f"@prefix solid: <http://www.w3.org/ns/solid/terms#>. _:c a solid:InsertDeletePatch; {given} ."
        )
        self._request("PATCH", address, "text/n3", change)

    def share(self, address: str, others: Sequence[Person], mode: str) -> None:
        """Lets others read or append to a document (Web Access Control)."""
        agents = ", ".join(f"<{other.web_id}>" for other in others)
        self.put(
            address + ".acl",
            f"{_ACL} <#me> a acl:Authorization; acl:agent <{self.web_id}>; acl:accessTo <{address}>; "
            f"acl:mode acl:Read, acl:Write, acl:Control . "
            f"<#others> a acl:Authorization; acl:agent {agents}; acl:accessTo <{address}>; acl:mode {mode} .",
        )

    def _request(self, method: str, address: str, content_type: str, content: str) -> None:
        async def ask() -> Response:
            async with Network(_REACH, address, self._login) as network:
                return await network.request(
                    method, address, {"Content-Type": content_type}, content.encode()
                )

        response = asyncio.run(ask())
        if response.status >= 300:
            raise sparqlive.Error(f"{self.name} could not {method} {address}: status {response.status}.")


@dataclass(frozen=True)
class SolidServer:
    address: str

    def person(self, name: str) -> Person:
        """Creates an account with a pod and client credentials through the server's account API."""

        def post(url: str, **given: Any) -> Any:
            response = client.post(url, json=given)
            response.raise_for_status()
            return response.json()

        with httpx.Client(timeout=60) as client:
            token = post(self.address + ".account/account/")["authorization"]
            client.headers["Authorization"] = f"CSS-Account-Token {token}"
            controls = client.get(self.address + ".account/").raise_for_status().json()["controls"]
            account = f"{name}-{token_hex(3)}"
            post(controls["password"]["create"], email=f"{account}@example.org", password=account)
            pod = post(controls["account"]["pod"], name=account)
            made = post(controls["account"]["clientCredentials"], name=name, webId=pod["webId"])
            return Person(name, pod["webId"], pod["pod"], self.address, made["id"], made["secret"])


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def solid_command() -> list[str]:
    """The command that starts the server; raises Error if it is not installed."""
    if not _PROGRAM.exists() or shutil.which("node") is None:
        raise sparqlive.Error(
            "No Community Solid Server is installed. Install one with: make test-peers (it needs npm)."
        )
    return [str(_PROGRAM)]


@contextmanager
def solid_server(
    command: Sequence[str], port: int | None = None, address: str | None = None
) -> Iterator[SolidServer]:
    """Starts a server that stores everything in memory, and stops it; `address` is its public address."""
    port = port or unused_port()
    address = address or f"http://localhost:{port}/"
    options = ["-p", str(port), "-b", address, "-c", "@css:config/default.json", "-l", "warn"]
    with TemporaryDirectory() as folder, TemporaryFile() as log:
        process = subprocess.Popen([*command, *options], cwd=folder, stdout=log, stderr=log)
        try:
            _wait_for(process, f"http://localhost:{port}/", log)
            yield SolidServer(address)
        finally:
            process.terminate()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], address: str, log: Any) -> None:
    """Waits until the server answers."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx.get(address, timeout=5)
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    log.seek(0)
    raise sparqlive.Error(f"The Community Solid Server did not start: {log.read().decode()[-2000:]}")
