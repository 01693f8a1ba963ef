"""What schemathesis is told about the bodies and names that the agent takes: mostly good ones, so that the
tests get past the first check, and bad ones in between."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import strategies as st

from tests.random_queries import graphs, queries
from tests.random_updates import request, requests

VIEWS = ("v", "ask", "graph")


@st.composite
def broken(draw: st.DrawFn, good: st.SearchStrategy[str]) -> str:
    """A good text with a piece of it left out, or doubled."""
    text = draw(good)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, len(text)))
    return text[:start] + text[end:] if draw(st.booleans()) else text[:end] + text[start:]


def bodies(good: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    texts = st.one_of(good, good, broken(good), st.text(max_size=20))
    return st.one_of(texts.map(str.encode), st.binary(max_size=20))


query = queries(depth=1).map(lambda drawn: drawn.text)
update = requests.map(request)
triples = graphs.map(lambda drawn: "".join(f"{quad.triple} .\n" for quad in drawn))
media_type = schemathesis.openapi.media_type
media_type("application/sparql-query", bodies(query))
media_type("application/sparql-update", bodies(update))
media_type("application/n-triples", bodies(triples), aliases=["text/turtle", "text/n3"])
xml = "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'><rdf:Description/></rdf:RDF>"
media_type("application/rdf+xml", bodies(st.just(xml)))
media_type("application/ld+json", bodies(st.just('{"@id": "http://x/a", "http://x/p": 1}')))
media_type("application/n-quads", bodies(triples), aliases=["application/trig"])
schemathesis.openapi.format("sparql-query", query)
schemathesis.openapi.format("sparql-update", update)


@schemathesis.hook
def flatmap_path_parameters(context: Any, path_parameters: Any) -> st.SearchStrategy[Any]:
    """Most names are those of views that are there."""
    if not isinstance(path_parameters, dict) or "name" not in path_parameters:
        return st.just(path_parameters)
    names = st.sampled_from((*VIEWS, *VIEWS, path_parameters["name"]))
    return names.map(lambda name: {**path_parameters, "name": name})
