"""A Community Solid Server on this machine, and the people who have pods on it."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import httpx

import sparqlive
from sparqlive.sources.network import Network, Reach
from sparqlive.sources.solid_login import SolidLogin

_START_SECONDS = 300.0
_PROGRAM = Path(__file__).parents[2] / ".peers" / "node_modules" / ".bin" / "community-solid-server"


@dataclass(frozen=True)
class Person:
    """Somebody with a pod, and the credentials of a program that may act for them."""

    name: str
    web_id: str
    pod: str
    client_id: str
    client_secret: str


@dataclass(frozen=True)
class SolidServer:
    address: str

    def person(self, name: str) -> Person:
        """A new account with a pod and client credentials, by the server's account API."""

        def post(url: str, **given: Any) -> Any:
            response = client.post(url, json=given)
            response.raise_for_status()
            return response.json()

        with httpx.Client(timeout=60) as client:
            token = post(self.address + ".account/account/")["authorization"]
            client.headers["Authorization"] = f"CSS-Account-Token {token}"
            controls = client.get(self.address + ".account/").raise_for_status().json()["controls"]
            post(controls["password"]["create"], email=f"{name}@example.org", password=name)
            pod = post(controls["account"]["pod"], name=name)
            made = post(controls["account"]["clientCredentials"], name=name, webId=pod["webId"])
            return Person(name, pod["webId"], pod["pod"], made["id"], made["secret"])

    def put(self, person: Person, address: str, turtle: str) -> None:
        """Writes a document as somebody."""
        self.request(person, "PUT", address, {"Content-Type": "text/turtle"}, turtle)

    def request(
        self, person: Person, method: str, address: str, headers: Mapping[str, str], content: str
    ) -> None:
        reach = Reach(allow_private=True)
        login = SolidLogin(self.address, person.client_id, person.client_secret, None, reach)

        async def ask() -> None:
            async with Network(reach, address, login) as network:
                response = await network.request(method, address, headers, content.encode())
                if response.status >= 300:
                    raise sparqlive.Error(f"{method} of {address}: status {response.status}.")

        asyncio.run(ask())


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def solid_command() -> list[str]:
    """The command that starts the server; an Error if it is not installed."""
    if not _PROGRAM.exists() or shutil.which("node") is None:
        raise sparqlive.Error(
            "There is no Community Solid Server here: make peers installs one where npm is."
        )
    return [str(_PROGRAM)]


@contextmanager
def solid_server(
    command: Sequence[str], port: int | None = None, address: str | None = None
) -> Iterator[SolidServer]:
    """Starts a server that keeps all in memory, and stops it; `address` is where others find it."""
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
