"""Views that follow links, on a real server: what is reached, within which bounds, and what is forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, Triple

import sparqlive
from sparqlive import Follow
from tests.conftest import examples
from tests.oracle import Oracle
from tests.sources.server import Handler, Page, Site, serve
from tests.waiting import wait_until

PREFIXES = "@prefix f: <http://xmlns.com/foaf/0.1/> .\n"
FOAF = "PREFIX f: <http://xmlns.com/foaf/0.1/>\n"
NEAR = Follow(allow_private=True)


def put(site: Site, documents: Mapping[str, str]) -> None:
    """Documents of a site, by name; `/name` is a person's document, `/name#me` the person."""
    for name, body in documents.items():
        site.pages[f"/{name}"] = Page(PREFIXES + body)


def friends(site: Site) -> None:
    """The paper's introductory example: Alice has her own name for Bob."""
    put(
        site,
        {
            "alice": '<#me> f:knows </bob#me>, </charlie#me> . </bob#me> f:name "Bobby" .',
            "bob": '<#me> f:name "Bob" .',
            "charlie": '<#me> f:name "Charlie" .',
        },
    )


def chain(site: Site, length: int) -> None:
    """Each knows the next, the last one the first."""
    for number in range(length):
        put(site, {f"p{number}": f'<#me> f:name "{number}" ; f:knows </p{(number + 1) % length}#me> .'})


def following(
    session: sparqlive.Session, site: Site, text: str, follow: Follow = NEAR, name: str = "view"
) -> sparqlive.View:
    view = session.view(name, FOAF + text, base=site.address + "/", follow=follow)
    assert view.follow is not None
    view.follow.wait()
    session.check()
    return view


def values(view: sparqlive.View, variable: str) -> list[str]:
    return sorted(row[variable].value for row in view.solutions() if variable in row)


def status(view: sparqlive.View) -> dict[str, Any]:
    assert view.follow is not None
    return view.follow.status()


def names_of(site: Site, addresses: Any) -> set[str]:
    return {address.removeprefix(site.address + "/") for address in addresses}


NAMES = "SELECT ?x ?n { <alice#me> f:knows ?x . ?x f:name ?n }"


# What is reached


def test_the_names_of_alices_friends(site: Site) -> None:
    friends(site)
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, NAMES)
        assert values(view, "n") == ["Bob", "Bobby", "Charlie"]
        found = status(view)
        assert names_of(site, found["documents"]) == {"alice", "bob", "charlie"}
        assert (found["pending"], found["failed"], found["bounds"]) == ([], {}, {})
        assert found["bytes"] == sum(len(page.body) for page in site.pages.values() if isinstance(page, Page))
        assert view.stats()["follow"] == found
        assert sorted(site.paths()) == ["/alice", "/bob", "/charlie"], "each is fetched once"


def test_solutions_are_shown_as_they_arrive(site: Site) -> None:
    friends(site)
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, NAMES)
        sizes = [sum(delta.weights().values()) for delta in view.changes(since=0) if not delta.reset]
        assert len(sizes) >= 2
        assert sum(sizes) == 3


@pytest.mark.parametrize("default_graph", ["union", "strict"])
def test_the_link_to_the_describing_document_is_there(site: Site, default_graph: Any) -> None:
    """Names by the documents of those who bear them alone: not Alice's name for Bob (§2.3)."""
    friends(site)
    links = "?x <sparqlive:describedBy> ?y"
    knows = "<alice#me> f:knows ?x"
    if default_graph == "strict":
        links, knows = f"GRAPH <sparqlive:links> {{ {links} }}", f"GRAPH ?g {{ {knows} }}"
    with sparqlive.open(default_graph=default_graph) as session:
        view = following(session, site, f"SELECT ?n {{ {knows} . {links} GRAPH ?y {{ ?x f:name ?n }} }}")
        assert values(view, "n") == ["Bob", "Charlie"]


def test_a_document_forges_no_link(site: Site) -> None:
    friends(site)
    site.pages["/bob"] = Page(
        PREFIXES
        + '<#me> f:name "Bob" . <evil> { <charlie#me> f:name "Chuck" } '
        + "<sparqlive:links> { <charlie#me> <sparqlive:describedBy> <evil> }",
        content_type="application/trig",
    )
    put(site, {"charlie": '<#me> f:name "Charlie" ; <sparqlive:describedBy> </bob> .'})
    query = "SELECT ?n { <alice#me> f:knows ?x . ?x <sparqlive:describedBy> ?y GRAPH ?y { ?x f:name ?n } }"
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, query)
        assert values(view, "n") == []
        failed = status(view)["failed"]
        assert "into the graph <sparqlive:links>" in failed[site.address + "/bob"]
        assert "reserved" in failed[site.address + "/charlie"]
        link = Quad(
            NamedNode("a:b"),
            NamedNode("sparqlive:describedBy"),
            NamedNode("a:c"),
            NamedNode("sparqlive:links"),
        )
        with pytest.raises(sparqlive.InvalidChange, match="reserved for sparqlive"):
            session.apply(insert=[link])
        kept = [quad for quad in session.quads() if quad.graph_name == NamedNode("sparqlive:links")]
        assert names_of(site, (quad.subject.value for quad in kept)) == {"alice#me"}
        session.update("CLEAR ALL")
        assert set(kept) <= set(session.quads()), "what documents bring is not local's to delete"


def test_data_of_the_session_leads_on(site: Site) -> None:
    """Also before there is a solution: a pattern that matches is enough."""
    friends(site)
    me = NamedNode(f"{site.address}/bob#me")
    staff = Quad(NamedNode("a:us"), NamedNode("a:employs"), me)
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, "SELECT ?n { <a:us> <a:employs> ?x . ?x f:name ?n }")
        assert not site.asked
        session.apply(insert=[staff])
        wait_until(lambda: values(view, "n") == ["Bob"])
        late = following(session, site, "SELECT ?x { ?y <a:employs> ?x }", name="late")
        assert names_of(site, status(late)["documents"]) == {"bob"}
        session.apply(delete=[staff])
        wait_until(lambda: not session.sources)
        assert len(session) == 0
        assert values(view, "n") == []


def test_paths_are_walked(site: Site) -> None:
    chain(site, 4)
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, "SELECT DISTINCT ?n { <p0#me> f:knows+/f:name ?n }")
        assert values(view, "n") == ["0", "1", "2", "3"]
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, "SELECT ?n { <p1#me> ^f:knows/f:name ?n }")
        assert values(view, "n") == [], "nobody tells who knows 1"
        assert names_of(site, status(view)["documents"]) == {"p1"}


def test_vocabularies_are_not_fetched(site: Site) -> None:
    put(site, {"a": "<#me> a </voc#Person> ; </voc#label> 'x' ."})
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, "SELECT * { <a#me> a <voc#Person> ; <voc#label> ?l }")
        assert len(view) == 1
        assert site.paths() == ["/a"]
        following(session, site, "SELECT * { <a#me> ?any ?o }", name="open")
        assert site.paths() == ["/a", "/voc"], "what a variable has is followed, ?any apart"


# Retraction


def test_what_optional_and_minus_showed_too_early_is_retracted(site: Site) -> None:
    put(site, {"alice": "<#me> f:knows </bob#me> ."})
    gate: list[bool] = []

    def bob(handler: Handler) -> None:
        if gate:
            Page(PREFIXES + '<#me> f:name "Bob" ; f:status "gone" .').answer(handler)
        else:
            handler.send(503)

    site.pages["/bob"] = bob
    query = """SELECT ?x ?n { <alice#me> f:knows ?x OPTIONAL { ?x f:name ?n } }"""
    left = """SELECT ?x { <alice#me> f:knows ?x MINUS { ?x f:status "gone" } }"""
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, query)
        minus = following(session, site, left, name="minus")
        early = session.epoch
        someone = NamedNode(f"{site.address}/bob#me")
        assert view.weights() == {(someone, None): 1}
        assert minus.weights() == {(someone,): 1}
        assert "is busy" in status(view)["failed"][f"{site.address}/bob"]
        gate.append(True)
        assert view.follow is not None
        view.follow.refresh()
        [delta] = view.changes(since=early)
        assert delta.weights() == {(someone, None): -1, (someone, Literal("Bob")): 1}
        [delta] = minus.changes(since=early)
        assert delta.weights() == {(someone,): -1}
        assert status(view)["failed"] == {}
        session.check()


def test_documents_that_nothing_mentions_any_more_leave(site: Site) -> None:
    friends(site)
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, NAMES)
        put(site, {"alice": "<#me> f:knows </charlie#me> ."})
        assert view.follow is not None
        view.follow.refresh()
        assert values(view, "n") == ["Charlie"]
        assert names_of(site, session.sources) == {"alice", "charlie"}
        session.check()


def test_documents_that_are_polled(site: Site) -> None:
    friends(site)
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, NAMES, Follow(poll_interval_seconds=0.05, allow_private=True))
        put(site, {"dora": '<#me> f:name "Dora" .', "alice": "<#me> f:knows </dora#me> ."})
        wait_until(lambda: values(view, "n") == ["Dora"] and len(session.sources) == 2)
        site.pages["/alice"] = lambda handler: handler.send(500)
        wait_until(lambda: "the server failed" in str(status(view)["failed"]))
        assert values(view, "n") == ["Dora"], "a failure is no deletion"
        session.check()


def test_a_cycle_ends_and_does_not_hold_itself(site: Site) -> None:
    chain(site, 3)
    put(site, {"start": "<#me> f:knows </p0#me> ."})
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, "SELECT ?n { <start#me> f:knows ?a . ?b f:knows ?c . ?c f:name ?n }")
        assert values(view, "n") == ["0", "0", "1", "2"]
        assert len(site.asked) == 4
        put(site, {"start": "<#me> f:knows 1 ."})
        assert view.follow is not None
        view.follow.refresh()
        assert names_of(site, session.sources) == {"start"}, "they mention each other, and nobody them"
        assert values(view, "n") == []


# Bounds


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_depth(site: Site, depth: int) -> None:
    chain(site, 5)
    with sparqlive.open(default_graph="union") as session:
        follow = Follow(depth=depth, allow_private=True)
        view = following(session, site, "SELECT ?n { <p0#me> f:knows* ?x . ?x f:name ?n }", follow)
        assert values(view, "n") == [str(number) for number in range(depth + 1)]
        assert status(view)["bounds"] == {"depth": f"Links beyond a depth of {depth} are not followed."}
        assert len(site.asked) == depth + 1


def test_the_number_of_documents(site: Site) -> None:
    put(site, {"hub": f"<#me> f:knows {', '.join(f'</p{n}#me>' for n in range(30))} ."})
    for number in range(30):
        put(site, {f"p{number}": f'<#me> f:name "{number:02}" .'})
    with sparqlive.open(default_graph="union") as session:
        view = following(
            session,
            site,
            "SELECT ?n { <hub#me> f:knows ?x . ?x f:name ?n }",
            Follow(documents=21, allow_private=True),
        )
        assert len(view) == 20
        assert status(view)["bounds"] == {"documents": "The data mentions more than 21 documents."}
        before = set(session.sources)
        put(site, {"hub": f"<#me> f:knows {', '.join(f'</p{n}#me>' for n in range(1, 30))} ."})
        assert view.follow is not None
        view.follow.refresh()
        assert len(view) == 20, "another one takes the place"
        assert len(before - set(session.sources)) <= 1, "and the others stay"


def test_bytes_in_all(site: Site) -> None:
    put(site, {"hub": "<#me> f:knows </a#me>, </b#me>, </c#me> ."})
    for name in "abc":
        put(site, {name: f'<#me> f:name "{name * 2000}" .'})
    with sparqlive.open(default_graph="union") as session:
        follow = Follow(bytes=8000, document_bytes=4000, allow_private=True)
        view = following(session, site, "SELECT ?n { <hub#me> f:knows ?x . ?x f:name ?n }", follow)
        assert len(view) == 2
        assert status(view)["bytes"] <= 8000
        assert "8,000 bytes" in status(view)["bounds"]["bytes"]
    with sparqlive.open(default_graph="union") as session:
        follow = Follow(document_bytes=1000, allow_private=True)
        view = following(session, site, "SELECT ?n { <hub#me> f:knows ?x . ?x f:name ?n }", follow)
        assert len(view) == 0
        assert names_of(site, status(view)["failed"]) == {"a", "b", "c"}
        assert all("max_bytes" in said for said in status(view)["failed"].values())


def test_time(site: Site) -> None:
    """Documents that always lead to another one: no more of them are begun when the time is over."""

    def endless(number: int) -> None:
        def answer(handler: Handler) -> None:
            time.sleep(0.1)
            endless(number + 1)
            Page(f"{PREFIXES}<#me> f:knows </p{number + 1}#me> .").answer(handler)

        site.pages[f"/p{number}"] = answer

    endless(0)
    with sparqlive.open(default_graph="union") as session:
        follow = Follow(seconds=2, depth=1000, documents=1000, allow_private=True)
        view = following(session, site, "SELECT * { <p0#me> f:knows* ?x }", follow)
        assert 2 <= len(view) <= 22
        assert "for 2 s " in status(view)["bounds"]["seconds"]
        time.sleep(0.3)
        asked = len(site.asked)
        assert view.follow is not None
        view.follow.refresh()
        assert len(site.asked) > 2 * asked - 2, "it goes on when it is asked to"


def test_hosts(site: Site) -> None:
    with serve() as other:
        put(site, {"alice": f"<#me> f:knows </bob#me>, <{other.address}/x#me>, </sent#me> ."})
        put(site, {"bob": '<#me> f:name "Bob" .'})
        put(other, {"x": '<#me> f:name "X" .'})
        site.pages["/sent"] = lambda handler: handler.send(302, {"Location": other.address + "/x"})
        host = site.address.removeprefix("http://")
        with sparqlive.open(default_graph="union") as session:
            view = following(session, site, NAMES, Follow(hosts=(host,), allow_private=True))
            assert values(view, "n") == ["Bob"]
            found = status(view)
            assert found["other_hosts"] == {other.address.removeprefix("http://"): 1}
            assert "not on one of the allowed hosts" in found["failed"][site.address + "/sent"]
            assert not other.asked


def test_predicates(site: Site) -> None:
    put(site, {"alice": "<#me> f:knows </bob#me> ; f:homepage </page> ."})
    put(site, {"bob": '<#me> f:name "Bob" .', "page": "<> f:name 1 ."})
    query = "SELECT * { <alice#me> f:knows ?x ; f:homepage ?y }"
    with sparqlive.open(default_graph="union") as session:
        knows = NamedNode("http://xmlns.com/foaf/0.1/knows")
        view = following(session, site, query, Follow(predicates=(knows,), allow_private=True))  # type: ignore[arg-type]
        assert names_of(site, status(view)["documents"]) == {"alice", "bob"}


def test_private_addresses_are_refused_unless_allowed(site: Site) -> None:
    friends(site)
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, NAMES, Follow())
        assert "not a public address" in status(view)["failed"][site.address + "/alice"]
        assert not site.asked
        with pytest.raises(sparqlive.Error, match="depth must be a whole number from 0"):
            Follow(depth=-1)
        with pytest.raises(sparqlive.Error, match="documents must be a whole number"):
            Follow(documents=float("inf"))  # type: ignore[arg-type]
        with pytest.raises(sparqlive.Error, match="predicates must be IRIs"):
            Follow(predicates=("knows",))
        with pytest.raises(sparqlive.Error, match="poll_interval_seconds"):
            Follow(poll_interval_seconds=0)
        with pytest.raises(sparqlive.Error, match="list of strings"):
            Follow(hosts="example.org")  # type: ignore[arg-type]
        with pytest.raises(sparqlive.Error, match=r"True or a sparqlive\.Follow"):
            session.view("other", "ASK {}", follow={"depth": 1})  # type: ignore[arg-type]


def test_failing_documents(site: Site) -> None:
    friends(site)
    put(
        site,
        {
            "alice": "<#me> f:knows </bob#me>, </charlie#me>, </none#me>, "
            "<http://x:99999/>, <http://me:pw@x/> ."
        },
    )
    site.pages["/bob"] = Page("this is no Turtle")
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, NAMES)
        assert values(view, "n") == ["Charlie"]
        failed = status(view)["failed"]
        assert "does not exist" in failed[site.address + "/none"]
        assert site.address + "/bob" in failed
        assert "there is no port" in failed["http://x:99999/"]
        assert "a name or password" in failed["http://me:pw@x/"]
        links = {q.object.value for q in session.quads() if q.graph_name == NamedNode("sparqlive:links")}
        assert names_of(site, links) == {"alice", "charlie"}, "what was not fetched describes nothing"


# Who holds a document


def test_a_view_that_is_dropped_leaves_its_documents_to_others(site: Site) -> None:
    friends(site)
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, NAMES)
        following(session, site, "SELECT ?n { <bob#me> f:name ?n }", name="bob")
        session.drop("view")
        assert names_of(site, session.sources) == {"bob"}
        assert view.name not in session.views
        session.drop("bob")
        assert (dict(session.sources), len(session)) == ({}, 0)


def test_a_source_that_somebody_named_stays(site: Site) -> None:
    friends(site)
    with sparqlive.open(default_graph="union") as session:
        options = {"poll_interval_seconds": None, "allow_private": True}
        own = session.source("web", site.address + "/bob", **options)
        own.refresh()
        view = following(session, site, NAMES)
        assert session.sources[site.address + "/bob"] is own
        adopted = session.source("web", site.address + "/charlie", **options)
        adopted.refresh()
        assert values(view, "n") == ["Bob", "Bobby", "Charlie"]
        own.remove()
        wait_until(lambda: values(view, "n") == ["Bob", "Bobby", "Charlie"])
        session.drop("view")
        assert names_of(site, session.sources) == {"charlie"}


def test_other_options_of_another_view_do_not_outlive_it(site: Site) -> None:
    friends(site)
    with sparqlive.open(default_graph="union") as session:
        following(session, site, NAMES)
        public = following(session, site, "SELECT ?n { <bob#me> f:name ?n }", Follow(), name="public")
        assert len(public) == 2
        session.drop("view")
        assert public.follow is not None
        public.follow.wait()
        assert len(public) == 0
        assert "not a public address" in status(public)["failed"][site.address + "/bob"]


def test_a_view_goes_on_after_the_store_is_opened_again(tmp_path: Path, site: Site) -> None:
    friends(site)
    with sparqlive.open(tmp_path / "s", default_graph="union") as session:
        following(session, site, NAMES)
    with sparqlive.open(tmp_path / "s", watch=False) as session:
        assert not status(session.views["view"])["watched"]
        session.check()
    put(site, {"dora": '<#me> f:name "Dora" .', "alice": "<#me> f:knows </dora#me>, </bob#me> ."})
    with sparqlive.open(tmp_path / "s") as session:
        view = session.views["view"]
        assert view.follow is not None
        assert view.follow.settings == NEAR
        assert session.view("view", FOAF + NAMES, base=site.address + "/", follow=NEAR) is view
        view.follow.refresh()
        assert values(view, "n") == ["Bob", "Dora"]
        session.check()
    with sparqlive.open(tmp_path / "s") as session:
        session.drop("view")
        assert len(session) == 0
    with sparqlive.open(tmp_path / "s") as session:
        assert (dict(session.sources), dict(session.views)) == ({}, {})


def test_a_view_is_dropped_where_nothing_is_watched(tmp_path: Path, site: Site) -> None:
    friends(site)
    with sparqlive.open(tmp_path / "s", default_graph="union") as session:
        following(session, site, NAMES)
    with sparqlive.open(tmp_path / "s", watch=False) as session:
        session.drop("view")
        assert (dict(session.sources), len(session)) == ({}, 0)


def test_a_process_that_ends_while_a_view_is_dropped(tmp_path: Path, site: Site) -> None:
    friends(site)
    with sparqlive.open(tmp_path / "s", default_graph="union") as session:
        following(session, site, NAMES)
        session._registration.drop("view")  # and no more
    with sparqlive.open(tmp_path / "s", watch=False) as session:
        assert (dict(session.sources), len(session)) == ({}, 0)
        session.view("view", FOAF + NAMES, base=site.address + "/")
    with sparqlive.open(tmp_path / "s") as session:
        assert session.views["view"].follow is None


def test_settings_of_a_view_that_is_there(site: Site) -> None:
    friends(site)
    with sparqlive.open(default_graph="union") as session:
        view = following(session, site, NAMES)
        with pytest.raises(sparqlive.ViewExists, match="different follow setting"):
            session.view("view", FOAF + NAMES, base=site.address + "/")
        near = Follow(depth=0, allow_private=True)
        session.view("view", FOAF + NAMES, base=site.address + "/", follow=near, replace=True)
        assert view.follow is not None
        view.follow.wait()
        assert names_of(site, session.sources) == {"alice"}
        session.view("view", FOAF + NAMES, base=site.address + "/", replace=True)
        assert (view.follow, dict(session.sources)) == (None, {})


def test_a_query_that_could_never_see_a_document_is_refused() -> None:
    with sparqlive.open() as session:
        with pytest.raises(sparqlive.Unsupported, match="reads only the unnamed graph"):
            session.view("view", "SELECT * { ?s ?p ?o }", follow=True)
        session.view("view", "SELECT * { GRAPH ?g { ?s <a:p> ?o } }", follow=True)


# Against a model

PEOPLE = 5
Fact = tuple[int, str, int]
facts = st.frozensets(
    st.tuples(
        st.integers(0, PEOPLE - 1), st.sampled_from(["knows", "name", "other"]), st.integers(0, PEOPLE - 1)
    ),
    max_size=4,
)
versions = st.lists(facts, min_size=PEOPLE, max_size=PEOPLE)


def triples_of(site: Site, stated: Iterable[Fact]) -> set[Triple]:
    """Of whom, what, and whom (or the number, for a name)."""

    def person(number: int) -> NamedNode:
        return NamedNode(f"{site.address}/p{number}#me")

    return {
        Triple(
            person(s), NamedNode(f"http://xmlns.com/foaf/0.1/{p}"), Literal(o) if p == "name" else person(o)
        )
        for s, p, o in stated
    }


def model(local: Iterable[Fact], documents: list[frozenset[Fact]], depth: int) -> set[int]:
    """The documents that are reached from the first, and from other data, by definition."""

    def mentioned(stated: Iterable[Fact]) -> set[int]:
        return {n for s, p, o in stated if p != "other" for n in ((s,) if p == "name" else (s, o))}

    levels = [{0}]
    for distance in range(depth):
        here = set().union(*(mentioned(documents[number]) for number in levels[-1]))
        here |= mentioned(local) if distance == 0 else set()
        levels.append(here - set().union(*levels))
    return set().union(*levels)


@pytest.mark.laws
@examples(15)
@given(depth=st.integers(0, 3), local=facts, series=st.lists(versions, min_size=1, max_size=4))
def test_what_is_reached_is_what_the_definition_says(
    depth: int, local: frozenset[Fact], series: list[list[frozenset[Fact]]]
) -> None:
    """Whatever the documents say, and become: the sources, links and solutions that the definition gives."""
    text = FOAF + "SELECT ?x ?n { <p0#me> f:knows* ?x OPTIONAL { ?x f:name ?n } }"
    with serve() as site, sparqlive.open(default_graph="union") as session:
        session.apply(insert=list(triples_of(site, local)))
        view = None
        for documents in series:
            for number, stated in enumerate(documents):
                lines = " .\n".join(map(str, triples_of(site, stated)))
                site.pages[f"/p{number}"] = Page(lines and f"{lines} .")
            follow = Follow(depth=depth, allow_private=True)
            if view is None:
                view = session.view("view", text, base=f"{site.address}/", follow=follow)
            assert view.follow is not None
            for _ in range(depth + 2):  # a document that comes by way of another is looked at again, too
                view.follow.refresh()
            reached = model(local, documents, depth)
            assert names_of(site, session.sources) == {f"p{number}" for number in reached}
            links = {
                (quad.subject.value, quad.object.value)
                for quad in session.quads()
                if quad.graph_name == NamedNode("sparqlive:links")
            }
            assert links == {(f"{site.address}/p{n}#me", f"{site.address}/p{n}") for n in reached}
            data = set(local).union(*(documents[number] for number in reached))
            quads = [Quad(*triple) for triple in triples_of(site, data)]
            base = f"BASE <{site.address}/>\n"
            expected = Oracle(quads).weights(base + text, ("x", "n"))
            if quads or expected:  # the other engine does not match a constant that no graph has
                start = (NamedNode(f"{site.address}/p0#me"), None)
                assert view.weights() == (expected or {start: 1})
            session.check()
