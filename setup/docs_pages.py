"""Pages of the site that are not files in docs/: the HTTP operations, CONTRIBUTING.md, CHANGELOG.md.

A hook of MkDocs, run by `make docs` with the interpreter of .venv-docs. The operations come from the tables
that also give /openapi.json, so the page cannot drift.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    from sparqlive.agent.app import OPERATIONS
    from sparqlive.agent.openapi import document

    pages = {
        "reference/http.md": operations_page(document(OPERATIONS)),
        "contributing.md": beside("CONTRIBUTING.md"),
        "changelog.md": beside("CHANGELOG.md"),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links from docs/ to the two files beside it lead to their pages."""
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        target = os.path.relpath(name.lower(), Path(page.file.src_uri).parent)
        markdown = re.sub(rf"\]\((\.\./)+{re.escape(name)}\)", f"]({target})", markdown)
    return markdown


def beside(name: str) -> str:
    """A file of the project's folder, with its links seen from docs/."""
    return (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")


def operations_page(description: dict[str, Any]) -> str:
    """The operations of an OpenAPI document, as Markdown."""
    lines = [
        "# HTTP operations",
        "",
        "Generated from the description at `/openapi.json` of an agent. [The agent](agent.md) explains them.",
    ]
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            lines += [
                "",
                f"## {method.upper()} {path}",
                "",
                operation.get("description") or operation["summary"],
            ]
            lines += parameters(operation.get("parameters", ()))
            if body := operation.get("requestBody"):
                lines += ["", "Body: " + ", ".join(f"`{kind}`" for kind in body["content"])]
            lines += ["", "| status | |", "|---|---|"]
            for status, response in operation["responses"].items():
                said = response.get("description", "rejected; `detail` says why")
                kinds = ", ".join(f"`{kind}`" for kind in response.get("content", ()))
                lines.append(f"| {status} | {said}{f' ({kinds})' if kinds else ''} |")
    return "\n".join(lines) + "\n"


def parameters(described: Any) -> list[str]:
    """A table of parameters."""
    if not described:
        return []
    rows = [
        f"| `{one['name']}` | {one['in']}{', required' if one.get('required') else ''} | "
        f"{one.get('description', '')} |"
        for one in described
    ]
    return ["", "| parameter | in | |", "|---|---|---|", *rows]
