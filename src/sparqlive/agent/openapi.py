"""Generates the OpenAPI 3.1 description of the agent from the tables of operations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from sparqlive.agent.operations import Operation, Parameter

_PROBLEM = {
    "type": "object",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, and what to do about it."},
        "line": {"type": "integer", "description": "Line of a syntax error, from 1."},
        "column": {"type": "integer", "description": "Column of a syntax error in characters, from 1."},
    },
}
_QUERY = {"type": "string", "format": "sparql-query"}
_UPDATE = {"type": "string", "format": "sparql-update"}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "application/sparql-query": _QUERY,
    "application/sparql-update": _UPDATE,
    "application/x-www-form-urlencoded": {
        "oneOf": [
            {"type": "object", "properties": {"query": _QUERY}, "required": ["query"]},
            {"type": "object", "properties": {"update": _UPDATE}, "required": ["update"]},
        ]
    },
}
_REFUSED = {"$ref": "#/components/responses/refused"}


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Returns the OpenAPI document of operations."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(_path(operation.path), {})[operation.method.lower()] = _operation_json(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sparqlive",
            "version": version("sparqlive"),
            "description": "SPARQL views that stay up to date while the data changes.",
        },
        "paths": paths,
        "components": {
            "schemas": {"problem": _PROBLEM},
            "responses": {
                "refused": {
                    "description": "The request was rejected; `detail` says why.",
                    "content": {
                        "application/problem+json": {"schema": {"$ref": "#/components/schemas/problem"}}
                    },
                }
            },
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token from `sparqlive token create`. Not needed if the store has none.",
                },
                "password": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "The same token as the password, with any user name.",
                },
            },
        },
    }


def _path(path: str) -> str:
    """Removes the types of path parameters ({name:path}), which only the router needs."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def _operation_json(operation: Operation) -> dict[str, Any]:
    responses = {str(status): _answer(status, types) for status, types in operation.gives.items()}
    path = re.sub(r"[^A-Za-z0-9]+", "_", operation.path).rstrip("_")
    result: dict[str, Any] = {
        "operationId": operation.method.lower() + path,
        "summary": operation.about,
        "parameters": [_parameter(parameter) for parameter in operation.parameters],
        "responses": {"503": _REFUSED, **responses, "4XX": _REFUSED},
        "security": [] if operation.right == "open" else [{"token": []}, {"password": []}],
        "x-right": operation.right,
    }
    if operation.takes:
        result["requestBody"] = {"required": True, "content": _content(operation.takes)}
    return result


def _answer(status: int, types: tuple[str, ...]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Success." if status < 300 else "No change."}
    if types:
        answer["content"] = _content(types)
    return answer


def _content(types: tuple[str, ...]) -> dict[str, Any]:
    return {
        name: {"schema": _SCHEMAS.get(name, {} if name.endswith("json") else {"type": "string"})}
        for name in types
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    iri = {"type": "string", "format": "iri"}
    schema: dict[str, Any] = dict(iri) if parameter.type == "iri" else {"type": parameter.type}
    if parameter.pattern is not None:
        schema["pattern"] = f"^{parameter.pattern}$"
    if parameter.one_of:
        schema["enum"] = list(parameter.one_of)
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.about,
        "required": parameter.required,
        "schema": schema,
    }
