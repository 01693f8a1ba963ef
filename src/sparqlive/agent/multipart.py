"""Splits forms with files (multipart/form-data, RFC 7578) into their parts, in one pass over the body."""

from __future__ import annotations

import binascii

from sparqlive.agent.problems import Refused
from sparqlive.web.headers import type_and_parameters

FORM = "multipart/form-data"
_MOST_PARTS = 1_000
_MOST_HEAD_BYTES = 8_192


def files_of(header: str, body: bytes) -> list[tuple[str, bytes]]:
    """Returns the Content-Type and content of each part; `header` is the Content-Type of the form."""
    boundary = type_and_parameters(header)[1].get("boundary", "").encode("latin-1")
    if not 0 < len(boundary) <= 200:
        raise _malformed("the Content-Type has no boundary")
    _, *pieces = (b"\r\n" + body).split(b"\r\n--" + boundary, _MOST_PARTS + 2)
    if not pieces:
        raise _malformed("it does not contain its boundary")
    if len(pieces) > _MOST_PARTS + 1:
        raise Refused(
            400, f"The form has more than {_MOST_PARTS:,} parts. Send the files in several requests."
        )
    *parts, last = pieces
    if not last.startswith(b"--"):
        raise _malformed("the last boundary is missing")
    return [_file(part) for part in parts]


def _malformed(reason: str) -> Refused:
    return Refused(400, f"The body is not well-formed {FORM}: {reason}.")


def _file(part: bytes) -> tuple[str, bytes]:
    head, end, content = part.partition(b"\r\n\r\n")
    if not end or head.partition(b"\r\n")[0].strip() or len(head) > _MOST_HEAD_BYTES:
        raise _malformed("the header of a part is missing or too long")
    fields = dict.fromkeys(("content-type", "content-transfer-encoding"), "")
    for line in head.split(b"\r\n"):
        name, _, value = line.decode("latin-1").partition(":")
        if name.lower() in fields:
            fields[name.lower()] = value.strip()
    try:
        match fields["content-transfer-encoding"].lower():
            case "base64":
                content = binascii.a2b_base64(content)
            case "quoted-printable":
                content = binascii.a2b_qp(content)
    except binascii.Error as error:
        raise _malformed(f"a part is declared as base64 but is not ({error})") from None
    return fields["content-type"], content
