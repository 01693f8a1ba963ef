"""The Graph Store Protocol: the W3C tests, and what whole graphs may and may not be."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from pyoxigraph import DefaultGraph, NamedNode, RdfFormat, parse

import sparqlive
from sparqlive.agent.agent import Agent
from sparqlive.agent.settings import Settings
from tests.agent.conftest import serving
from tests.agent.w3c_requests import RequestTest, read_request_tests, send
from tests.conftest import W3C, W3C_ABSENT

FOLDER = W3C / "sparql" / "sparql11" / "graph-store-protocol"
MANIFESTS = [FOLDER / "manifest-direct.ttl", FOLDER / "manifest-indirect.ttl"]
TESTS = [test for file in MANIFESTS if file.is_file() for test in read_request_tests(file)]

TURTLE = {"content-type": "text/turtle"}
G = {"graph": "http://x/g"}
CARD = "<http://x/a> <http://x/p> [ <http://x/q> 1 ] ."


def test_the_suite_is_complete() -> None:
    if not TESTS:
        pytest.skip(W3C_ABSENT)
    assert len(TESTS) == 14


@pytest.mark.w3c
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_w3c(test: RequestTest, client: httpx.Client) -> None:
    send(client, test, "/gsp", "/graphs")


def test_w3c_steps_of_the_older_manifest(client: httpx.Client, session: sparqlive.Session) -> None:
    """http-rdf-update has its requests as prose; they follow on one another, so they are one test."""
    base = str(client.base_url).rstrip("/")
    one, two, four = (f"/graphs/person/{number}.ttl" for number in (1, 2, 4))
    person = f"<{base}/graphs/person/1>"
    foaf, card = "<http://xmlns.com/foaf/0.1/", "<http://www.w3.org/2006/vcard/ns#"

    def described(name: str, more: str = "") -> str:
        return (
            f'{person} a {foaf}Person>; {more} {foaf}businessCard> [ a {card}VCard>; {card}fn> "{name}" ] .'
        )

    def read(address: str, **options: str) -> str:
        found = client.get(address, headers={"accept": "text/turtle"}, params=options or None)
        assert found.status_code == 200
        assert found.headers["content-type"] == "text/turtle; charset=utf-8"
        return found.text

    alice = f'[] a {foaf}Person>; {foaf}businessCard> [ a {card}VCard>; {card}given-name> "Alice" ] .'

    def put(address: str, text: str) -> int:
        return client.put(address, content=text, headers=TURTLE).status_code

    assert put(one, described("John Doe")) == 201, "put__initial_state"
    assert same(read("/graphs", graph=base + one), described("John Doe")), "get_of_put__initial_state"
    assert put(one, described("Jane Doe")) in (200, 204), "put__graph_already_in_store"
    assert same(read(one), described("Jane Doe")), "get_of_put__graph_already_in_store"
    assert put("/graphs?default", alice) in (200, 201, 204), "put__default_graph"
    assert same(read("/graphs", default=""), alice), "get_of_put__default_graph"
    assert put(two, alice) == 201
    assert client.delete(two).status_code == 200, "delete__existing_graph"
    assert client.get(two).status_code == 404, "get_of_delete__existing_graph"
    assert client.delete(two).status_code == 404, "delete__nonexistent_graph"
    more = f'{person} {foaf}name> "Jane Doe" .'
    assert client.post(one, content=more, headers=TURTLE).status_code == 200, "post__existing_graph"
    named = f'{foaf}name> "Jane Doe";'
    assert same(read(one), described("Jane Doe", named)), "get_of_post__existing_graph"
    files = {
        "lastName.ttl": ("lastName.ttl", f'{person} {foaf}familyName> "Doe" .', "text/turtle; charset=utf-8"),
        "firstName.ttl": ("firstName.ttl", f'{person} {foaf}givenName> "Jane" .', "text/turtle"),
    }
    assert client.post(one, files=files).status_code == 200, "post__multipart_formdata"
    named += f'{foaf}familyName> "Doe"; {foaf}givenName> "Jane";'
    assert same(read(one), described("Jane Doe", named)), "get_of_post__multipart_formdata"
    made = client.post("/graphs", content=alice, headers=TURTLE)
    assert made.status_code == 201, "post__create__new_graph"
    assert same(read(made.headers["location"]), alice), "get_of_post__create__new_graph"
    epoch = session.epoch
    assert client.post(made.headers["location"], content="", headers=TURTLE).status_code == 200
    assert same(read(made.headers["location"]), alice), "get_of_post__after_noop"
    assert session.epoch == epoch
    head = client.head(one)
    assert head.status_code == 200, "head_on_an_existing_graph"
    assert head.headers["content-type"] == "text/turtle; charset=utf-8"
    assert client.head(four).status_code == 404, "head_on_a_nonexisting_graph"


def same(left: str, right: str) -> bool:
    return canonical(left) == canonical(right)


def canonical(text: str) -> set[str]:
    """A document of one tree, with its blank nodes named by nothing but their place in it."""
    triples = [quad.triple for quad in parse(text.encode(), format=RdfFormat.TURTLE)]

    def written(term: object) -> str:
        below = sorted(f"{t.predicate} {written(t.object)}" for t in triples if t.subject == term)
        return f"[{' ; '.join(below)}]" if str(term).startswith("_:") else str(term)

    return {f"{written(t.subject)} {t.predicate} {written(t.object)}" for t in triples}


def test_a_replaced_graph_is_one_epoch_of_what_differs(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    view = session.view("v", "SELECT ?o { ?s <http://x/p> ?o }")
    client.put("/graphs", params=G, content="<http://x/a> <http://x/p> 1, 2, 3 .", headers=TURTLE)
    made = client.put("/graphs", params=G, content="<http://x/a> <http://x/p> 2, 3, 4 .", headers=TURTLE)
    assert made.json() == {"epoch": 2, "inserted": 1, "deleted": 1, "ignored": 0}
    assert sum(view.weights().values()) == 3
    session.check()


def test_the_same_document_again_changes_nothing(client: httpx.Client, session: sparqlive.Session) -> None:
    assert client.put("/graphs", params=G, content=CARD, headers=TURTLE).status_code == 201
    assert client.put("/graphs", params=G, content=CARD, headers=TURTLE).json()["epoch"] == 1
    assert client.post("/graphs", params=G, content=CARD, headers=TURTLE).json()["inserted"] == 2
    assert session.graphs() == {NamedNode("http://x/g"): 4, DefaultGraph(): 0}


@pytest.mark.parametrize(
    ("media_type", "content"),
    [
        ("text/turtle", CARD),
        ("application/n-triples", '<http://x/a> <http://x/p> _:b .\n_:b <http://x/q> "1" .'),
        ("application/n-quads", '<http://x/a> <http://x/p> _:b .\n_:b <http://x/q> "1" .'),
        ("application/trig", CARD),
        ("application/ld+json", '{"@id": "http://x/a", "http://x/p": {"http://x/q": 1}}'),
        (
            "application/rdf+xml",
            '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/">'
            '<rdf:Description rdf:about="http://x/a"><x:p><rdf:Description x:q="1"/></x:p></rdf:Description>'
            "</rdf:RDF>",
        ),
    ],
)
def test_every_syntax_is_taken_and_given(
    client: httpx.Client, session: sparqlive.Session, media_type: str, content: str
) -> None:
    made = client.put("/graphs?default", content=content, headers={"content-type": media_type})
    assert made.status_code == 200, made.text
    assert len(session) == 2
    for accept in ("text/turtle", "application/n-triples", "application/rdf+xml", "application/ld+json"):
        given = client.get("/graphs?default", headers={"accept": accept})
        assert given.headers["content-type"].partition(";")[0] == accept
        syntax = RdfFormat.from_media_type(accept)
        assert syntax is not None
        assert len(list(parse(given.content, format=syntax))) == 2


def test_a_context_that_is_bundled_need_not_be_fetched(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    note = '{"@context": "https://www.w3.org/ns/activitystreams", "id": "http://x/n", "content": "tea"}'
    made = client.put("/graphs?default", content=note, headers={"content-type": "application/ld+json"})
    assert made.status_code == 200, made.text
    (quad,) = session.quads()
    assert quad.predicate.value == "https://www.w3.org/ns/activitystreams#content"


def test_parts_of_a_form_that_are_none(client: httpx.Client, session: sparqlive.Session) -> None:
    for part in (
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b--",
        "\r\nx",
        "Content-Type: \xff\r\n\r\nx",
    ):
        body = f'--a\r\nContent-Disposition: form-data; name="f"\r\n{part}\r\n--a--\r\n'
        headers = {"content-type": "multipart/form-data; boundary=a"}
        assert client.post("/graphs?default", content=body, headers=headers).status_code == 415
    assert session.epoch == 0


def test_relative_iris_are_meant_from_the_graph(client: httpx.Client) -> None:
    client.put("/graphs", params=G, content="<> <p> <#me> .", headers=TURTLE)
    given = client.get("/graphs", params=G, headers={"accept": "application/n-triples"})
    assert given.text == "<http://x/g> <http://x/p> <http://x/g#me> .\n"


@pytest.mark.parametrize(
    ("address", "content", "media_type", "status"),
    [
        ("/graphs?graph=g", CARD, "text/turtle", 400),
        ("/graphs?graph=", CARD, "text/turtle", 400),
        ("/graphs?graph=http://x/g&default", CARD, "text/turtle", 400),
        ("/graphs?graph=http://x/g&graph=http://x/h", CARD, "text/turtle", 400),
        ("/graphs/a?graph=http://x/g", CARD, "text/turtle", 400),
        ("/graphs?graph=view:v", CARD, "text/turtle", 400),
        ("/graphs?default", "<http://x/a> <http://x/p>", "text/turtle", 400),
        ("/graphs?default", "<http://x/g> { <http://x/a> <http://x/p> 1 }", "application/trig", 400),
        ("/graphs?default", CARD, "text/plain", 415),
        ("/graphs?default", CARD, "", 415),
        ("/graphs?default", '{"@context": "http://127.0.0.1:9/c", "a": 1}', "application/ld+json", 400),
        ("/graphs?default", '{"a":' * 300 + "1" + "}" * 300, "application/ld+json", 400),
        ("/graphs?default", '<!DOCTYPE a [<!ENTITY b "c">]><a/>', "application/rdf+xml", 400),
        ("/graphs?default", b"<http://x/a> <http://x/p> '\xff' .", "text/turtle", 400),
        ("/graphs?default", CARD + " " * 1000, "text/turtle", 413),
        ("/graphs?default", "--a\r\n\r\n", "multipart/form-data; boundary=a", 415),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_what_is_refused_changes_nothing(
    session: sparqlive.Session, method: str, address: str, content: str | bytes, media_type: str, status: int
) -> None:
    agent = Agent(session, Settings(body_bytes=2_000 if status != 413 else 500))
    headers = {"content-type": media_type} if media_type else {}
    if method == "POST" and media_type.startswith("multipart"):
        status = 400
    with serving(agent) as base, httpx.Client(base_url=base, timeout=120) as client:
        refused = client.request(method, address, content=content, headers=headers)
        assert refused.status_code == status, refused.text
        assert len(refused.json()["detail"]) > 20
    assert session.epoch == 0


def test_which_graph_must_be_said(client: httpx.Client) -> None:
    for method in ("GET", "PUT", "DELETE"):
        assert client.request(method, "/graphs", headers=TURTLE).status_code == 400
    assert client.get("/graphs", params=G).status_code == 404
    assert client.delete("/graphs", params=G).status_code == 404
    assert client.get("/graphs?default").status_code == 200
    assert client.delete("/graphs?default").status_code == 200


def test_asking_for_graphs_that_are_not_there_leaves_no_trace(
    client: httpx.Client, session: sparqlive.Session
) -> None:
    known = len(session.dictionary)
    for number in range(10):
        client.get("/graphs", params={"graph": f"http://x/{number}"})
        client.delete("/graphs", params={"graph": f"http://x/{number}"})
    assert len(session.dictionary) == known


def test_graphs_of_a_store_that_is_opened_again(tmp_path: Path) -> None:
    name = NamedNode("http://x/g")
    with sparqlive.open(tmp_path, default_graph="union") as session:
        session.load(list(parse(CARD, format=RdfFormat.TURTLE)), graph=name)
        session.compact()
    with sparqlive.open(tmp_path) as session:
        assert session.graphs() == {DefaultGraph(): 0, name: 2}
        session.apply(insert='<http://x/a> <http://x/p> "2" <http://x/g> .')
        assert session.graphs() == {DefaultGraph(): 0, name: 3}
        with serving(Agent(session)) as base, httpx.Client(base_url=base, timeout=120) as client:
            assert client.put("/graphs", params=G, content=CARD, headers=TURTLE).json()["deleted"] == 1
            assert client.delete("/graphs", params=G).json()["deleted"] == 2
            assert client.get("/graphs", params=G).status_code == 404
        assert session.graphs() == {DefaultGraph(): 0}
