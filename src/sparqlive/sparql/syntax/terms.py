"""Turns tokens into RDF terms: IRIs, prefixed names, literals, and the escapes in them.

Handles the prologue (BASE and PREFIX) and resolves IRIs (RFC 3986 §5.2). Rejects undeclared prefixes,
relative IRIs without a base, and invalid terms. Invariant: numbers keep their lexical form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pyoxigraph import Literal, NamedNode

from sparqlive.sparql.syntax.tree import Node, TextError, Token

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
RDF_TYPE = NamedNode(RDF + "type")
RDF_FIRST = NamedNode(RDF + "first")
RDF_REST = NamedNode(RDF + "rest")
RDF_NIL = NamedNode(RDF + "nil")
_BOOLEAN = NamedNode(XSD + "boolean")
_INTEGER = NamedNode(XSD + "integer")
_DECIMAL = NamedNode(XSD + "decimal")
_DOUBLE = NamedNode(XSD + "double")

_CODEPOINT = re.compile(r"\\\\|\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STRING_ESCAPE = re.compile(r"\\(.)")
_STRING_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", "\\": "\\", '"': '"', "'": "'"}
_IRI_PARTS = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.S
)


def decode_codepoints(text: str) -> str:
    r"""Decodes `\u00E9` and `\U0001F600` anywhere in a text (§19.2), except after an escaped backslash."""
    lone = None if text.isascii() else _SURROGATE.search(text)
    if lone is not None:
        raise TextError("the text contains half of a character (a lone surrogate)", lone.start())
    if "\\u" not in text and "\\U" not in text:
        return text

    def decoded(match: re.Match[str]) -> str:
        digits = match[1] or match[2]
        if digits is None:
            return match[0]
        number = int(digits, 16)
        if 0xD800 <= number <= 0xDFFF or number > 0x10FFFF:
            raise TextError(f"`{match[0]}` is not a Unicode character", match.start())
        return chr(number)

    return _CODEPOINT.sub(decoded, text)


@dataclass(slots=True)
class Names:
    """The current base and prefixes of a text. Creates terms from tokens."""

    base: str | None = None
    prefixes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    """The text of a query, to quote from; an update is not quoted."""

    def __post_init__(self) -> None:
        if self.base is not None:
            try:
                NamedNode(self.base)
            except ValueError as error:
                raise TextError(f"the base `{self.base}` is not an absolute IRI: {error}", 0) from None

    def declare(self, prologue: Node) -> None:
        """Applies BASE and PREFIX in order: a BASE affects only what follows it."""
        for declaration in prologue.children:
            if declaration.rule == "base_declaration":
                self.base = self._absolute(declaration.children[0]).value
                continue
            name, iri = declaration.children
            if not name.endswith(":") or name.count(":") != 1:
                prefix = name.partition(":")[0]
                raise TextError(f"a declared prefix ends with its colon; write `PREFIX {prefix}:`", name)
            self.prefixes[name[:-1]] = self._absolute(iri).value

    def prologue(self, part: str) -> str:
        """The declarations that a part of the text needs to be read alone."""
        base = [] if self.base is None else [f"BASE <{self.base}>"]
        used = [(name, iri) for name, iri in self.prefixes.items() if f"{name}:" in part]
        return "\n".join([*base, *(f"PREFIX {name}: <{iri}>" for name, iri in used)])

    def iri(self, token: Token) -> NamedNode:
        """Returns the IRI of an IRIREF, a prefixed name or the keyword `a`."""
        if token.type == "IRIREF":
            return self._absolute(token)
        if token.type == "A":
            return RDF_TYPE
        prefix, _, local = token.partition(":")
        namespace = self.prefixes.get(prefix)
        if namespace is None:
            raise TextError(
                f"the prefix `{prefix}:` is not declared; add `PREFIX {prefix}: <…>` at the beginning", token
            )
        return _named_node(namespace + re.sub(r"\\(.)", r"\1", local), token)

    def literal(self, part: Node | Token) -> Literal:
        """Returns the literal of a `rdf_literal`, a number or a boolean."""
        if not isinstance(part, Node):
            return _plain_literal(part)
        text, annotation = part.children
        value = string_value(text)
        if annotation is None:
            return Literal(value)
        if annotation.type != "LANGTAG":
            return Literal(value, datatype=self.iri(annotation))
        try:
            return Literal(value, language=annotation[1:])
        except ValueError as error:
            raise TextError(f"`{annotation}` is not a language tag: {error}", annotation) from None

    def _absolute(self, token: Token) -> NamedNode:
        reference = token[1:-1]
        if self.base is not None:
            return _named_node(resolve(reference, self.base), token)
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", reference):
            raise TextError(f"the IRI `{token}` is relative; write it in full, or declare a BASE", token)
        return _named_node(reference, token)


def string_value(token: Token) -> str:
    """Returns the text between the quotes, with escapes decoded."""
    quotes = 3 if token.startswith(("'''", '"""')) else 1
    value = str(token[quotes:-quotes])
    return _STRING_ESCAPE.sub(lambda m: _STRING_ESCAPES[m[1]], value) if "\\" in value else value


def number(text: str) -> Literal:
    """Returns a number in its own lexical form, with the datatype that its form implies (§4.1.2)."""
    if "e" in text or "E" in text:
        return Literal(text, datatype=_DOUBLE)
    return Literal(text, datatype=_DECIMAL if "." in text else _INTEGER)


def _plain_literal(token: Token) -> Literal:
    if token.type in ("TRUE", "FALSE"):
        return Literal(token.lower(), datatype=_BOOLEAN)
    return number(str(token))


def _named_node(iri: str, token: Token) -> NamedNode:
    try:
        return NamedNode(iri)
    except ValueError as error:
        raise TextError(f"`{iri}` is not an IRI: {error}", token) from None


def resolve(reference: str, base: str) -> str:
    """Resolves an IRI reference against a base (RFC 3986 §5.2.2)."""
    scheme, authority, path, query, fragment = _parts(reference)
    base_scheme, base_authority, base_path, base_query, _ = _parts(base)
    if scheme is not None:
        # An absolute IRI stays as written: terms are compared character by character.
        return reference
    if authority is None:
        authority = base_authority
        if path == "":
            path, query = base_path, base_query if query is None else query
        elif path.startswith("/"):
            path = _without_dots(path)
        else:
            path = _without_dots(_merged(path, base_path, base_authority))
    else:
        path = _without_dots(path)
    return "".join(
        (
            f"{base_scheme}:" if base_scheme is not None else "",
            f"//{authority}" if authority is not None else "",
            path,
            f"?{query}" if query is not None else "",
            f"#{fragment}" if fragment is not None else "",
        )
    )


def _parts(iri: str) -> tuple[str | None, str | None, str, str | None, str | None]:
    match = _IRI_PARTS.fullmatch(iri)
    assert match is not None, "every text has the shape of an IRI reference"
    return match[1], match[2], match[3], match[4], match[5]


def _merged(path: str, base_path: str, base_authority: str | None) -> str:
    if base_authority is not None and base_path == "":
        return "/" + path
    return base_path[: base_path.rfind("/") + 1] + path


def _without_dots(path: str) -> str:
    """Removes `.` and `..` from a path (RFC 3986 §5.2.4)."""
    kept: list[str] = []
    steps = path.split("/")
    for step in steps:
        if step == "..":
            if kept and kept != [""]:
                kept.pop()
        elif step != ".":
            kept.append(step)
    if steps[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)
