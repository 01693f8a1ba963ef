"""Writes graphs in pieces of bounded size: as N-Triples, Turtle, RDF/XML, JSON-LD and their relatives.

A graph comes as blocks of the ids of subject, predicate and object; like those of solutions, its terms are
encoded by columns from their canonical N-Triples texts. Triples of a block that have the same subject are
written together. What a syntax cannot express is an error: RDF/XML has no control characters, and not every
predicate is the name of an element.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

import numpy as np

from sparqlive.errors import Error
from sparqlive.rdf.dictionary import literal_parts
from sparqlive.sparql.results import Cells, Texts, xml_text
from sparqlive.zset.blocks import Block
from sparqlive.zset.run import Column

_XSD = "http://www.w3.org/2001/XMLSchema#"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_ITS = "http://www.w3.org/2005/11/its"
_XMLNS = "http://www.w3.org/2000/xmlns/"
"""A namespace that no document may declare."""


@dataclass(frozen=True)
class _Syntax:
    """How a syntax writes triples: what their terms are, and what stands before, between and after them."""

    subject: Callable[[str], str]
    predicate: Callable[[str], str]
    object: Callable[[str], str]
    begin: str
    """Before the first triple."""
    other_subject: str
    """Between two triples with different subjects."""
    other_predicate: str
    """Between two triples with the same subject and different predicates."""
    other_object: str
    """Between two triples that differ only in their objects; those with an `after` have none."""
    end: str
    """After the last triple."""
    empty: str
    """The whole document without triples."""
    after: Callable[[str], str] | None = None
    """What stands after the object, made from the predicate."""
    keeps_rows: bool = False
    """Whether each triple stands alone."""


def write_graph(syntax: str, blocks: Iterable[Block], texts: Texts) -> Iterator[str]:
    """Yields the text of a graph in one of GRAPH_FORMATS. The weights of its triples do not matter."""
    if syntax not in _SYNTAXES:
        raise Error(
            f"A graph cannot be written as {syntax!r}. Available formats: {', '.join(GRAPH_FORMATS)}."
        )
    return _written(_SYNTAXES[syntax], blocks, texts)


def _written(syntax: _Syntax, blocks: Iterable[Block], texts: Texts) -> Iterator[str]:
    terms = (syntax.subject, syntax.predicate, syntax.object, syntax.after)
    cells = Cells([_each(term) for term in terms if term is not None], texts)
    before, is_empty = syntax.begin, True
    for block in blocks:
        arranged = block if syntax.keeps_rows else _by_subject(block)
        if syntax.after is not None:
            arranged = Block((*arranged.columns, arranged.columns[1]), arranged.weights)
        for part, encoded in cells.encoded(arranged):
            if len(part.weights):
                yield before + _joined(syntax, part, encoded)
                before, is_empty = syntax.other_subject, False
    yield syntax.empty if is_empty else syntax.end


def _each(term: Callable[[str], str]) -> Callable[[Sequence[str]], list[str]]:
    return list if term is _as_it_is else lambda texts: list(map(term, texts))


def _by_subject(block: Block) -> Block:
    """Puts triples of one subject together, and those of one predicate in it; the first ones stay first."""
    subjects, predicates = (_ranks(column) for column in block.columns[:2])
    if (subjects[1:] > subjects[:-1]).all():
        return block
    return block.take(np.lexsort((predicates, subjects)))


def _ranks(column: Column) -> Column:
    """Equal numbers for equal values, in the order in which they first occur."""
    _, first, places = np.unique(column, return_index=True, return_inverse=True)
    found: Column = first[places]
    return found


def _joined(syntax: _Syntax, block: Block, cells: Sequence[Sequence[str]]) -> str:
    """The triples as one text, without what stands before the first and after the last."""
    if syntax.after is not None:
        cells = (*cells[:2], list(map("".join, zip(*cells[2:], strict=True))))
    rows = zip(*cells, strict=True)
    subjects, predicates = block.columns[:2]
    same_subject = subjects[1:] == subjects[:-1]
    if syntax.keeps_rows or not same_subject.any():
        return syntax.other_subject.join(map("".join, rows))
    shared = same_subject.astype(np.int8)
    if syntax.after is None:
        shared += same_subject & (predicates[1:] == predicates[:-1])
    written = ["".join(next(rows))]
    for count, (subject, predicate, object_) in zip(shared.tolist(), rows, strict=True):
        if count == 0:
            written.append(f"{syntax.other_subject}{subject}{predicate}{object_}")
        elif count == 1:
            written.append(f"{syntax.other_predicate}{predicate}{object_}")
        else:
            written.append(f"{syntax.other_object}{object_}")
    return "".join(written)


# N-Triples and Turtle


def _as_it_is(text: str) -> str:
    return text


def _spaced(text: str) -> str:
    return f"{text} "


_SHORT = {
    f"^^<{_XSD}integer>": re.compile(r"[+-]?[0-9]+"),
    f"^^<{_XSD}decimal>": re.compile(r"[+-]?[0-9]*\.[0-9]+"),
    f"^^<{_XSD}double>": re.compile(r"[+-]?([0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+"),
    f"^^<{_XSD}boolean>": re.compile("true|false"),
}
"""The datatypes that Turtle has numbers and words for (§2.5.2, §2.5.3), and the forms of these."""


def _turtle_predicate(text: str) -> str:
    return "a " if text == f"<{_RDF}type>" else f"{text} "


def _turtle_object(text: str) -> str:
    if text[0] == '"' and text[-1] == ">":
        end = text.rindex('"')
        form = _SHORT.get(text[end + 1 :])
        if form is not None and form.fullmatch(text, 1, end):
            return text[1:end]
    return text


# JSON-LD, expanded


def _json_id(text: str) -> str:
    return f'"@id":"{text[1:-1] if text[0] == "<" else text}"'


def _json_subject(text: str) -> str:
    return f"{{{_json_id(text)},"


def _json_predicate(text: str) -> str:
    return f'"{text[1:-1]}":['


def _json_object(text: str) -> str:
    """The escapes of canonical N-Triples are escapes of JSON, too."""
    if text[0] != '"':
        return f"{{{_json_id(text)}}}"
    end = text.rindex('"') + 1
    value, kind = text[:end], text[end:]
    if not kind:
        return f'{{"@value":{value}}}'
    if kind[0] == "^":
        return f'{{"@type":"{kind[3:-1]}","@value":{value}}}'
    language, _, direction = kind[1:].partition("--")
    way = f',"@direction":"{direction}"' if direction else ""
    return f'{{"@language":"{language}"{way},"@value":{value}}}'


# RDF/XML

_NAME_START = (
    "A-Z_a-z\xc0-\xd6\xd8-\xf6\xf8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_LOCAL_NAME = re.compile(f"[{_NAME_START}][{_NAME_START}0-9.\xb7\u0300-\u036f\u203f\u2040-]*")
"""An NCName of Namespaces in XML 1.0 §3."""
_NAME_CHARACTERS = re.compile(f"[{_NAME_START}0-9.\xb7\u0300-\u036f\u203f\u2040-]*")
# RDF/XML §5.1: these mean something else, or nothing, as the name of a property.
_NO_PROPERTIES = {
    _RDF + name
    for name in (
        *("RDF", "ID", "about", "parseType", "resource", "nodeID", "datatype", "Description", "li"),
        *("aboutEach", "aboutEachPrefix", "bagID"),
    )
}


def _element(text: str) -> tuple[str, str]:
    """The namespace and the local name of a predicate."""
    iri = text[1:-1]
    tail = _NAME_CHARACTERS.match(iri[::-1])
    assert tail is not None  # it may be empty
    found = _LOCAL_NAME.search(iri, len(iri) - tail.end())
    if found is None or iri in _NO_PROPERTIES or iri[: found.start()] in ("", _XMLNS):
        raise Error(f"RDF/XML cannot represent the predicate {text}. Use turtle, nt or jsonld instead.")
    return iri[: found.start()], found[0]


def _xml_node(text: str, iri: str) -> str:
    if text[0] == "<":
        return f"{iri}={_attribute(text[1:-1])}"
    # Labels that are no XML names, such as those with a digit first, get one that no other label has.
    label = text[2:]
    if label[0] == "n" or not _LOCAL_NAME.fullmatch(label):
        label = f"n{label.encode().hex()}"
    return f'rdf:nodeID="{label}"'


def _attribute(value: str) -> str:
    xml_text(value)  # raises
    return quoteattr(value)


def _xml_subject(text: str) -> str:
    return f"\t<rdf:Description {_xml_node(text, 'rdf:about')}>\n\t\t"


def _xml_predicate(text: str) -> str:
    namespace, name = _element(text)
    return f"<{name} xmlns={_attribute(namespace)}"


def _xml_object(text: str) -> str:
    if text[0] != '"':
        return f" {_xml_node(text, 'rdf:resource')}>"
    value, kind = literal_parts(text)
    if kind[:1] == "^":
        kind = f" rdf:datatype={_attribute(kind[3:-1])}"
    elif kind:
        language, _, direction = kind[1:].partition("--")
        way = f' rdf:version="1.2-basic" its:version="2.0" its:dir="{direction}"' if direction else ""
        kind = f' xml:lang="{language}"{way}'
    return f"{kind}>{xml_text(value)}"


def _xml_end(text: str) -> str:
    return f"</{_element(text)[1]}>"


_XML_BEGIN = f'<?xml version="1.0" encoding="UTF-8"?>\n<rdf:RDF xmlns:rdf="{_RDF}" xmlns:its="{_ITS}">\n'
_XML_END = "</rdf:RDF>\n"
_LINES = _Syntax(
    _spaced,
    _spaced,
    _as_it_is,
    begin="",
    other_subject=" .\n",
    other_predicate="",
    other_object="",
    end=" .\n",
    empty="",
    keeps_rows=True,
)
_TURTLE = _Syntax(
    _spaced,
    _turtle_predicate,
    _turtle_object,
    begin="",
    other_subject=" .\n",
    other_predicate=" ;\n\t",
    other_object=" , ",
    end=" .\n",
    empty="",
)
_SYNTAXES: Mapping[str, _Syntax] = {
    "nt": _LINES,
    "nquads": _LINES,
    "turtle": _TURTLE,
    "trig": _TURTLE,
    "rdfxml": _Syntax(
        _xml_subject,
        _xml_predicate,
        _xml_object,
        begin=_XML_BEGIN,
        other_subject="\n\t</rdf:Description>\n",
        other_predicate="\n\t\t",
        other_object="",
        end=f"\n\t</rdf:Description>\n{_XML_END}",
        empty=_XML_BEGIN + _XML_END,
        after=_xml_end,
    ),
    "jsonld": _Syntax(
        _json_subject,
        _json_predicate,
        _json_object,
        begin="[",
        other_subject="]},\n",
        other_predicate="],",
        other_object=",",
        end="]}]\n",
        empty="[]\n",
    ),
}
GRAPH_FORMATS = tuple(_SYNTAXES)
