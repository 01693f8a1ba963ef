"""The names of a content's relations in a store, and which of them are deleted with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sparqlive.live.materialization import Materialization, Product


def _names(content: Materialization) -> set[str]:
    return {content.name, *(name for name, _, _ in content.relations())}


def all_names(content: Materialization) -> set[str]:
    """The relations of a content and its parts."""
    parts = content.parts if isinstance(content, Product) else []
    return _names(content).union(*map(all_names, parts))


def unshared_names(content: Materialization) -> set[str]:
    """The relations that are deleted when one user releases a content."""
    if content.users > 1:
        return set()
    if isinstance(content, Product):
        return {content.name}.union(*map(unshared_names, content.parts))
    return _names(content)


def names_of_failed(contents: Iterable[Materialization]) -> set[str]:
    """The relations that are deleted when all users release the contents."""
    failed = set(contents)
    found: set[str] = set()
    users = Counter(part for content in failed if isinstance(content, Product) for part in content.parts)
    for content in failed:
        if not isinstance(content, Product):
            found |= _names(content)
            continue
        found.add(content.name)
        for part in content.parts:
            if part.users <= users[part]:
                found |= _names(part)
    return found
