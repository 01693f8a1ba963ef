"""Applies changes over HTTP, in the formats of change files: one epoch per batch."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sparqlive.agent.agent import Agent
from sparqlive.agent.bodies import body_of, short_type, type_of
from sparqlive.agent.operations import Operation
from sparqlive.agent.problems import Refused
from sparqlive.agent.routes.protocol import epoch_json
from sparqlive.errors import Error
from sparqlive.rdf.changes import parse_changes

# The name, as errors show it, has the ending of the format.
_NAMES = {"text/plain": "body.changes", "application/rdf-patch": "body.rdfp"}


async def apply(agent: Agent, request: Request) -> Response:
    """Reads the whole body first: a fault in it changes nothing."""
    name = _NAMES.get(type_of(request))
    if name is None:
        types = " or ".join(_NAMES)
        raise Refused(415, f"The body must be {types}, not {short_type(type_of(request))}.")
    body = await body_of(agent, request)

    def commit() -> list[dict[str, Any]]:
        epochs: list[dict[str, Any]] = []
        for batch in list(parse_changes(body.splitlines(keepends=True), name)):
            try:
                epochs.append(epoch_json(agent.session.apply_batch(batch)))
            except Error as error:
                applied = f"{len(epochs)} batches before it were applied."
                raise Refused(400, f"{name}, batch at line {batch.line}: {error} {applied}") from error
        return epochs

    epochs = await agent.run_writing(commit)
    return JSONResponse({"epoch": agent.session.epoch, "epochs": epochs})


OPERATIONS = (
    Operation(
        "POST",
        "/changes",
        apply,
        "write",
        "Applies a change file (text/plain: .changes, or RDF Patch), one epoch per batch.",
        takes=tuple(_NAMES),
    ),
)
