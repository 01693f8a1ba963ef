"""The last epochs over HTTP, with strategy and reason."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sparqlive.agent.agent import Agent
from sparqlive.agent.operations import Operation, Parameter, is_number
from sparqlive.agent.problems import Refused
from sparqlive.numbers import short_repr


async def list_epochs(agent: Agent, request: Request) -> Response:
    since = request.query_params.get("since", "0")
    if not is_number(since):
        raise Refused(400, f"The parameter since must be the number of an epoch, not {short_repr(since)}.")

    def read() -> dict[str, Any]:
        with agent.session.capturing():
            return {"epoch": agent.session.epoch, "time": time.time(), "epochs": agent.log.after(int(since))}

    return JSONResponse(await agent.run_status(read))


OPERATIONS = (
    Operation(
        "GET",
        "/epochs",
        list_epochs,
        "read",
        "Lists the last epochs, oldest first: changes, rows changed per view, strategy and reason, seconds.",
        (Parameter("since", "Only epochs after this one.", "integer"),),
    ),
)
