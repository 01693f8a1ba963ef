"""Bulk upload: a file of quads, of any size, as one epoch.

The body goes to a temporary file, unpacked if it is compressed, and from there to the store like a file that
`load` reads. Owns the jobs: a load that takes longer than the client wants to wait continues, and its state
has its own address. Invariant: a fault anywhere in the file changes nothing, and its line is reported.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sparqlive.agent.agent import Agent
from sparqlive.agent.bodies import save_body, short_type, type_of
from sparqlive.agent.operations import Operation, Parameter
from sparqlive.agent.problems import Refused, problem_status
from sparqlive.agent.routes.protocol import epoch_json, iri_of
from sparqlive.engine.epoch import Epoch
from sparqlive.errors import Error

TYPES: Mapping[str, str] = {
    "application/n-quads": "nq",
    "application/trig": "trig",
    "application/n-triples": "nt",
    "text/turtle": "ttl",
    "application/rdf+xml": "rdf",
}
_WAIT_SECONDS = 10.0
_MOST_WAIT_SECONDS = 60.0
_KEPT_JOBS = 100
_WAIT = re.compile(r"\bwait\s*=\s*(\d{1,4})\b")


class Job:
    """One upload: being received, being loaded, done or failed."""

    def __init__(self) -> None:
        self.id = secrets.token_urlsafe(12)
        self.received = 0
        self._began = time.monotonic()
        self._ended: float | None = None
        self._loading: asyncio.Future[Epoch] | None = None

    def load(self, loading: asyncio.Future[Epoch]) -> None:
        """The file is complete: follows its load."""
        self._loading = loading
        loading.add_done_callback(self._end)

    def _end(self, loading: asyncio.Future[Epoch]) -> None:
        self._ended = time.monotonic()
        if not loading.cancelled():
            loading.exception()  # read here: asyncio reports exceptions that are never read

    @property
    def running(self) -> bool:
        return self._ended is None

    async def outcome(self, seconds: float) -> Epoch | None:
        """The epoch, or None if it takes longer; an error if the load failed."""
        assert self._loading is not None
        await asyncio.wait([self._loading], timeout=seconds)
        return self._loading.result() if self._loading.done() else None

    def json(self) -> dict[str, Any]:
        until = time.monotonic() if self._ended is None else self._ended
        found: dict[str, Any] = {"bytes": self.received, "seconds": round(until - self._began, 3)}
        if self._loading is None or not self._loading.done():
            return {"state": "receiving" if self._loading is None else "loading", **found}
        if self._loading.cancelled():
            return {"state": "failed", **found, "status": 503, "detail": "The agent was stopped."}
        error = self._loading.exception()
        if error is None:
            return {"state": "done", **found, **epoch_json(self._loading.result())}
        status = problem_status(error) if isinstance(error, Error) else 500
        detail = (
            str(error) if isinstance(error, Error) else "Internal error. The agent's log has the details."
        )
        return {"state": "failed", **found, "status": status, "detail": detail}


async def upload(agent: Agent, request: Request) -> Response:
    """Receives a file, loads it, and waits for a while until it is loaded."""
    ending = TYPES.get(type_of(request))
    if ending is None:
        raise Refused(415, f"The body must be one of {', '.join(TYPES)}, not {short_type(type_of(request))}.")
    graph = request.query_params.get("graph")
    target = None if graph is None else iri_of("graph", graph)
    job = _begin(agent)
    folder = tempfile.TemporaryDirectory(prefix="sparqlive-upload-")
    try:
        path = Path(folder.name) / f"upload.{ending}"
        await save_body(agent, request, path, job)

        def load() -> Epoch:
            try:
                with folder:
                    return agent.session.load(path, target)
            except Error as error:
                raise _renamed(error, path) from error

        job.load(asyncio.ensure_future(agent.run_computing(load)))
    except BaseException:
        folder.cleanup()
        agent.uploads.pop(job.id, None)
        raise
    address = f"/uploads/{job.id}"
    epoch = await job.outcome(_patience(request))
    if epoch is None:
        return JSONResponse(job.json(), 202, {"Location": address, "Retry-After": "1"})
    headers = {"Location": address, "Sparqlive-Epoch": str(epoch.number)}
    return JSONResponse(job.json(), 200, headers)


def _begin(agent: Agent) -> Job:
    """Registers a job; forgets the oldest ones that have ended."""
    jobs = agent.uploads
    if sum(job.running for job in jobs.values()) >= agent.settings.uploads:
        most = agent.settings.uploads
        raise Refused(
            429,
            f"{most} uploads are running already. Try again when one of them has ended.",
            {"Retry-After": "5"},
        )
    ended = [job.id for job in jobs.values() if not job.running]
    for old in ended[: max(0, len(ended) - _KEPT_JOBS)]:
        del jobs[old]
    job = Job()
    jobs[job.id] = job
    return job


def _renamed(error: Error, path: Path) -> Error:
    """The same error without the name of the temporary file."""
    sentence = str(error).replace(f"{path.as_uri()}", "upload").replace(str(path), "upload")
    return type(error)(sentence)


def _patience(request: Request) -> float:
    """How long the client wants to wait: `Prefer: wait=…`, or not at all: `respond-async` (RFC 7240)."""
    preferred = ",".join(request.headers.getlist("prefer")).lower()
    if (found := _WAIT.search(preferred)) is not None:
        return min(float(found[1]), _MOST_WAIT_SECONDS)
    return 0.0 if "respond-async" in preferred else _WAIT_SECONDS


async def state(agent: Agent, request: Request) -> Response:
    job = agent.uploads.get(request.path_params["upload"])
    if job is None:
        raise Refused(404, "There is no such upload. The last 100 are remembered until the agent stops.")
    return JSONResponse(job.json())


OPERATIONS = (
    Operation(
        "POST",
        "/uploads",
        upload,
        "write",
        "Loads a file of quads as one epoch; answers 202 with the address of its state if that takes long.",
        (
            Parameter("graph", "Graph for triples, and for quads of the unnamed graph.", "iri"),
            Parameter("Prefer", "wait=SECONDS, or respond-async.", place="header"),
        ),
        takes=tuple(TYPES),
        gives={200: ("application/json",), 202: ("application/json",)},
    ),
    Operation(
        "GET",
        "/uploads/{upload}",
        state,
        "write",
        "Returns the state of an upload: receiving, loading, done or failed.",
        (Parameter("upload", "Id of the upload.", place="path", required=True),),
    ),
)
