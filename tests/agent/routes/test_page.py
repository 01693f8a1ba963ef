"""The files of the page: their policy, who may embed them, and that each one is small."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

import sparqlive
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from tests.agent.conftest import serving

PAGE = Path(sparqlive.__file__).parent / "agent" / "page"


@pytest.mark.parametrize("path", ["/", "/chart", "/page/app.js", "/page/style.css"])
def test_the_policy_allows_nothing_from_elsewhere(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    policy = answer.headers["content-security-policy"]
    assert answer.status_code == 200
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "trusted-types 'none'" in policy
    assert policy.endswith("frame-ancestors 'self'" if path == "/chart" else "frame-ancestors 'none'")
    assert client.get(path, headers={"if-none-match": answer.headers["etag"]}).status_code == 304


def test_only_the_chart_is_embedded_and_only_by_allowed_origins(session: sparqlive.Session) -> None:
    allowed = ("HTTPS://App.Example", "null")
    with (
        serving(Agent(session, Settings(origins=allowed))) as address,
        httpx.Client(base_url=address, timeout=120) as client,
    ):
        policy = client.get("/chart").headers["content-security-policy"]
        assert policy.endswith("frame-ancestors 'self' https://app.example")
        assert client.get("/").headers["content-security-policy"].endswith("frame-ancestors 'none'")
        frame = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
        shown = client.get("/chart", headers={**frame, "referer": "https://app.example/board"})
        assert shown.status_code == 200
        refused = client.get("/chart", headers={**frame, "referer": "https://other.example/"})
        assert refused.status_code == 403


@pytest.mark.parametrize("file", sorted(PAGE.glob("*.js")), ids=lambda file: file.name)
def test_scripts_are_small_and_import_what_is_there(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count("\n") <= 300
    assert text.startswith("//")
    for name, source in re.findall(r'^import \{ ([^}]*) \} from "\./([\w.-]+)";$', text, re.MULTILINE):
        exported = (PAGE / source).read_text(encoding="utf-8")
        for part in name.split(", "):
            given = part.partition(" as ")[0]
            assert re.search(rf"^export (async )?(function\*?|const|class) {given}\b", exported, re.MULTILINE)


_LEXER = """
import { declaredPrefixes, isUpdate, tokens } from "./lexer.js";
const texts = JSON.parse(process.argv[2]);
const covers = (text) => tokens(text).map((token) => token.text).join("") === text;
const prefixes = (text) => Object.fromEntries(declaredPrefixes(text));
console.log(JSON.stringify(texts.map((text) => [covers(text), isUpdate(text), prefixes(text)])));
"""
"""Whether the tokens of texts cover them, whether they are updates, and their prefixes."""


@pytest.mark.skipif(shutil.which("node") is None, reason="JavaScript is tested by node, which is not there")
def test_the_lexer_covers_any_text(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "lexer.js").write_text((PAGE / "lexer.js").read_text(encoding="utf-8"))
    (tmp_path / "script.js").write_text(_LEXER)
    texts = [
        "",
        "SELECT * { ?s ?p '''it's\n\"open",
        "# INSERT\nPREFIX a.b: <http://x/#y> base <z> select (?a+-1.5e3 as ?b) { ?s a.b:c\\-d/^:e* _:x 💥 }",
        'PREFIX insert: <http://x/> ASK { insert:a ?select "DELETE" }',
        "with <http://g> delete { ?s ?p ?o } where {}",
        "PREFIX : <http://x/>\nCLEAR ALL",
    ]
    done = subprocess.run(
        ["node", "script.js", json.dumps(texts)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert [covered for covered, _, _ in found] == [True] * len(texts)
    assert [update for _, update, _ in found] == [False, False, False, False, True, True]
    assert found[2][2] == {"a.b": "http://x/#y"}
    assert found[5][2] == {"": "http://x/"}
