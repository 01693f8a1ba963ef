"""Which addresses of sources are files of this machine.

Owns the one decision between a path and a network address, for every kind that reads files. Invariant: an
address that looks like one on the network is never read as a file, even where a folder has such a name.
"""

from __future__ import annotations

import re
from urllib.request import url2pathname

from sparqlive.errors import Error

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_THIS_MACHINE = ("", "localhost")


def scheme_of(address: str) -> str:
    """The scheme of an address in lower case, or nothing."""
    found = _SCHEME.match(address)
    return "" if found is None else found[1].lower()


def local_path(address: str) -> str:
    """The path of a file that an address names: a path, or a `file:` URL."""
    scheme, rest = scheme_of(address), address.partition(":")[2]
    if scheme == "file":
        host, path = "", rest
        if rest.startswith("//"):
            host, slash, path = rest[2:].partition("/")
            path = slash + path
        if host.lower() not in _THIS_MACHINE:
            raise Error(
                f"{address!r} is a file on another machine, {host}. Use file:///PATH for a local one."
            )
        address = url2pathname(re.split(r"[?#]", path)[0])
    elif scheme and rest.lstrip().startswith(("//", "\\\\")):
        raise Error(
            f"{address!r} is an address on the network, not a file. Use another kind of source, such as web; "
            f"for a file in a folder of this name, use ./ before it."
        )
    if "\0" in address:
        raise Error(f"{address!r} is not the name of a file: it contains a null character.")
    return address
