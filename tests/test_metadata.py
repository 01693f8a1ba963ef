"""What a release says about itself agrees: version, licences, extras. `make test-release` builds one."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sparqlive
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere() -> None:
    """pyproject.toml has it; a tag and a clone without tags give the same package."""
    assert sparqlive.__version__ == version("sparqlive") == PROJECT["version"]
    assert yaml.safe_load(text("CITATION.cff"))["version"] == PROJECT["version"]
    newest = re.search(r"^## (.*)$", text("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert PROJECT["version"] in newest[1]


def test_licences_are_named() -> None:
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])
    copied = list((ROOT / "src/sparqlive/web/contexts").glob("*.json"))
    assert len(copied) == 4, "name each in THIRD_PARTY.md"
    assert not list((ROOT / "src").rglob("*.min.js")), "the page has no libraries"


def test_extras_are_documented() -> None:
    page = text("docs/install.md")
    users = PROJECT["optional-dependencies"].keys() - {"bench", "dev", "docs"}
    assert [extra for extra in sorted(users) if f"`[{extra}]`" not in page] == []


def test_the_tools_of_the_site_and_of_releases_are_not_locked() -> None:
    locked = text("requirements.lock")
    assert not re.search(r"^(mkdocs|build|cyclonedx|hadolint)", locked, re.MULTILINE)


def test_issue_templates_have_a_head() -> None:
    templates = list((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert len(templates) == 3
    for template in templates:
        head = yaml.safe_load(template.read_text(encoding="utf-8").split("---\n")[1])
        assert {"name", "about"} <= head.keys()


def test_the_compose_file_fits_the_image() -> None:
    service = yaml.safe_load(text("deploy/compose.yaml"))["services"]["agent"]
    image = text("deploy/Dockerfile")
    assert service["volumes"] == ["store:/data"]
    assert "VOLUME /data" in image
    [port] = service["ports"]
    assert f"EXPOSE {port.rsplit(':', 1)[1]}" in image


# What an extra is for needs no packages that it does not bring. `make test-release` tries each extra in an
# empty environment; here, all other packages are hidden.
IMPORTS = {
    "": (
        "sparqlive.cli.main",
        "sparqlive.engine.persistence",
        "sparqlive.pipeline.job",
        "sparqlive.sparql.arrow",
    ),
    "agent": ("sparqlive.agent.serve", "sparqlive.agent.app", "sparqlive.web.agent_client"),
    "sources": (
        "sparqlive.web.event_stream",
        *(f"sparqlive.sources.kinds.{kind}" for kind in ("agent", "endpoint", "file", "ldes", "mqtt")),
        *(f"sparqlive.sources.kinds.{kind}" for kind in ("stream", "stream_web", "web")),
    ),
    "solid": (
        "sparqlive.sources.kinds.solid",
        "sparqlive.sources.kinds.solid_login",
        "sparqlive.web.sockets",
    ),
    "spark": ("sparqlive.bulk.backends.spark.backend", "sparqlive.spark.sources", "deltalake"),
    "connect": ("pyspark.sql.connect.session", "pyspark.pipelines.cli"),
    "rdflib": ("sparqlive.rdflib_store", "sparqlive.rdf.rdflib_terms"),
}
ASKS = """
import pyspark.sql.pandas.utils as needs
needs.require_minimum_pandas_version()
needs.require_minimum_pyarrow_version()
"""
HIDING = """
import importlib.machinery, sys
hidden = set(sys.argv[1].split(","))
find = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = lambda name, path=None, target=None: (
    None if name.partition(".")[0] in hidden else find(name, path, target)
)
for name in sys.argv[2].split(","):
    importlib.import_module(name)
"""


def brought_by(requirements: list[str]) -> set[str]:
    """The packages that requirements bring, with what these require."""
    extras = PROJECT["optional-dependencies"]
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(one) for one in requirements]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        for extra in ("", *wanted.extras):
            if (name, extra) in found:
                continue
            found.add((name, extra))
            if name == "sparqlive":
                waiting += map(Requirement, extras[extra] if extra else PROJECT["dependencies"])
                continue
            needed = map(Requirement, requires(name) or ())
            waiting += [one for one in needed if one.marker is None or one.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


@pytest.mark.slow
@pytest.mark.parametrize("extra", IMPORTS)
def test_an_extra_brings_what_its_modules_import(extra: str) -> None:
    own = f"sparqlive[{extra}]" if extra else "sparqlive"
    try:
        brought = brought_by([own])
    except PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed here")
    modules = packages_distributions()
    hidden = {
        module
        for module, packages in modules.items()
        if not brought & {canonicalize_name(package) for package in packages}
    }
    asks = ASKS if extra in ("spark", "connect") else ""
    command = [sys.executable, "-c", HIDING + asks, ",".join(hidden), ",".join(IMPORTS[extra])]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_every_extra_that_users_install_is_looked_at() -> None:
    """The others are for work on sparqlive, or their packages are not installed here."""
    others = {"bench", "connectors", "dev", "docs", "hdfs", "kafka"}
    assert PROJECT["optional-dependencies"].keys() - others == IMPORTS.keys() - {""}
