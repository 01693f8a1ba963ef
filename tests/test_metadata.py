"""What a release says about itself agrees: version, licences, extras. `make test-release` builds one."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

import yaml

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
