"""The guide for Solid pods, followed literally, on a real Community Solid Server on this machine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.watch_party.server import Person
from tests.conftest import ROOT
from tests.sources.conftest import Pods
from tests.sources.test_store import command
from tests.waiting import wait_until

GUIDE = (ROOT / "docs" / "guides" / "solid.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```text\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
NAME = "<http://xmlns.com/foaf/0.1/name>"


@pytest.fixture(scope="module")
def ann(pods: Pods) -> Person:
    person = pods.server.person("ann")
    person.patch(f"{person.pod}profile/card", insert=f'<{person.web_id}> {NAME} "Ann" .')
    person.put(f"{person.pod}chat/hello.ttl", f'<#bob> {NAME} "Bob" .')
    person.put(f"{person.pod}private/notes.ttl", f'<#cem> {NAME} "Cem" .')
    chat, everyone = f"{person.pod}chat/", "<http://xmlns.com/foaf/0.1/Agent>"
    person.put(
        f"{chat}.acl",
        "@prefix acl: <http://www.w3.org/ns/auth/acl#> . "
        f"<#me> a acl:Authorization ; acl:agent <{person.web_id}> ; acl:accessTo <{chat}> ; "
        f"acl:default <{chat}> ; acl:mode acl:Read, acl:Write, acl:Control . "
        f"<#all> a acl:Authorization ; acl:agentClass {everyone} ; acl:accessTo <{chat}> ; "
        f"acl:default <{chat}> ; acl:mode acl:Read .",
    )
    return person


def commands(block: str, ann: Person) -> Iterator[list[str]]:
    """The commands of a block, for this pod."""
    addresses = {
        "https://ann.pod.example/": ann.pod,
        "http://localhost:3000/ann/": ann.pod,
        "https://idp.example/": ann.issuer,
        "ann-agent": ann.client_id,
    }
    for line in block.replace("\\\n", "").splitlines():
        for written, meant in addresses.items():
            line = line.replace(written, meant)
        words = shlex.split(line)
        if words[0] == "sparqlive":
            yield words[1:]


@contextmanager
def serving(words: list[str], **variables: str) -> Iterator[None]:
    server = [sys.executable, "-m", "sparqlive", *words, "--port", "0"]
    environment = {**os.environ, **variables}
    with subprocess.Popen(
        server, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as agent:
        assert agent.stdout is not None
        assert "is served at" in agent.stdout.readline()
        try:
            yield
        finally:
            agent.terminate()


def test_the_recipe_of_the_guide(
    ann: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = ["view", "--store", "friends.store", "names", "--format", "csv"]
    public, local, private = BLOCKS
    allowed = ["--option", "allow_private=true"]
    [one] = commands(local, ann)
    assert one[-2:] == allowed
    *adding, serve = commands(public, ann)
    assert serve == ["serve", "--store", "friends.store"]

    # Without the option for a pod on this machine, the status says what to do.
    command(capsys, *adding[0])
    with serving(serve):
        told = ["source", "list", "--store", "friends.store"]
        wait_until(lambda: "not a public address" in command(capsys, *told))
        assert "remove the source and add it again" in command(capsys, *told)
        assert "--option allow_private=true" in command(capsys, *told)
    command(capsys, "source", "remove", "--store", "friends.store", adding[0][-1])

    for words in adding:
        command(capsys, *words, *(allowed if words[:2] == ["source", "add"] else ()))
    with serving(serve):
        wait_until(lambda: command(capsys, *shown).split() == ["name", "Ann", "Bob"])

    [login] = commands(private, ann)
    command(capsys, *login, *allowed)
    with serving(serve, ANN_SECRET=ann.client_secret):
        wait_until(lambda: command(capsys, *shown).split() == ["name", "Ann", "Bob", "Cem"])
