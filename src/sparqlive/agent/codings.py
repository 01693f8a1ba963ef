"""Compresses responses as they are sent: gzip and Zstandard, by Accept-Encoding (RFC 9110 §12.5.3).

Each piece is flushed, so that a reader can decompress all that was sent so far.
"""

from __future__ import annotations

import zlib
from typing import Protocol

import pyarrow as pa
from starlette.requests import Request

from sparqlive.sparql.arrow import Collected
from sparqlive.web.headers import parts_of, quality_of, type_and_parameters

_GZIP_LEVEL = 1  # compresses results to a tenth; higher levels take several times as long
_GZIP_BITS = 31  # the largest window, and the header of gzip


class Coder(Protocol):
    """Compresses one body."""

    @property
    def name(self) -> str:
        """The name of the coding."""

    def encode(self, data: bytes, last: bool) -> bytes:
        """Returns the compressed form of the next bytes, complete up to here."""


class _Gzip:
    name = "gzip"

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_BITS)

    def encode(self, data: bytes, last: bool) -> bytes:
        mode = zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH
        return self._compressor.compress(data) + self._compressor.flush(mode)


class _Zstandard:
    name = "zstd"

    def __init__(self) -> None:
        self._file = Collected()
        self._stream = pa.CompressedOutputStream(pa.PythonFile(self._file, mode="w"), "zstd")

    def encode(self, data: bytes, last: bool) -> bytes:
        self._stream.write(data)
        if last:
            self._stream.close()
        else:
            self._stream.flush()
        return self._file.take()


# The cheaper one first: at equal quality, the first one that is named is used.
_CODERS: dict[str, type[_Gzip] | type[_Zstandard]] = {"zstd": _Zstandard, "gzip": _Gzip, "x-gzip": _Gzip}
CODINGS = ("zstd", "gzip")


def coder_for(request: Request) -> Coder | None:
    """The coding that a request prefers; None if it is best to send the body as it is."""
    accepted: dict[str, float] = {}
    for part in parts_of(",".join(request.headers.getlist("accept-encoding"))):
        name, parameters = type_and_parameters(part)
        accepted[name] = max(accepted.get(name, 0.0), quality_of(parameters.get("q")))
    if "*" in accepted:
        accepted.setdefault("gzip", accepted["*"])
    best = max(_CODERS, key=lambda name: accepted.get(name, 0.0))
    quality = accepted.get(best, 0.0)
    if not quality or quality < accepted.get("identity", 0.0):
        return None
    return _CODERS[best]()
