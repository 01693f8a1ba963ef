"""The packages install into an empty environment, and work there; the image's files are sound.

Not part of `make test`: these tests build, download and install for some minutes. PYTHONS names the
interpreters to try, by default all of python3.11 to python3.14 that are on the path or installed by pyenv.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from release.environment import FOUND, HAS_JAVA, ROOT, install

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOOLS = Path(sys.executable).parent

# What a plain `pip install sparqlive` may bring: a new name here is a decision.
SMALL = {
    "annotated-doc",
    "annotated-types",
    "click",
    "duckdb",
    "google-re2",
    "markdown-it-py",
    "mdurl",
    "numpy",
    "pyarrow",
    "pydantic",
    "pydantic-core",
    "pygments",
    "pyoxigraph",
    "pyroaring",
    "regex",
    "rich",
    "shellingham",
    "sortedcontainers",
    "sparqlive",
    "typer",
    "typing-extensions",
    "typing-inspection",
    "xxhash",
}


def test_the_wheel_has_the_code_and_what_lies_beside_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    ours = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*") if path.is_file()}
    wanted = {name for name in ours if "__pycache__" not in name}
    assert wanted <= set(names)
    assert all(name.startswith(("sparqlive/", "sparqlive-")) for name in names)
    assert wheel.stat().st_size < 2_000_000


def test_the_source_package_has_what_make_needs(source_package: Path) -> None:
    with tarfile.open(source_package) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in (
        "Makefile",
        "requirements.lock",
        "setup/java.py",
        "examples/ecommerce/pipeline.toml",
        "mkdocs.yml",
    ):
        assert needed in names


def test_the_version_is_that_of_the_tag() -> None:
    command = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD", "v*"]
    tags = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    assert all(tag == f"v{PROJECT['version']}" for tag in tags)


@pytest.mark.parametrize("python", FOUND)
@pytest.mark.parametrize("kind", ["wheel", "source"])
def test_the_small_package_works(
    python: str, kind: str, wheel: Path, source_package: Path, tmp_path: Path
) -> None:
    installed = install(python, tmp_path, [str(wheel if kind == "wheel" else source_package)])
    listed = json.loads(
        installed.run("python", "-m", "pip", "list", "--format=json", "--disable-pip-version-check")
    )
    names = {re.sub(r"[-_.]+", "-", entry["name"]).lower() for entry in listed} - {"pip", "setuptools"}
    assert names <= SMALL
    size = sum(path.stat().st_size for path in (tmp_path / "env").rglob("*") if path.is_file())
    print(f"{python}, {kind}: {len(names)} packages, {size / 1e6:.0f} MB with pip")

    assert installed.run("sparqlive", "--version").strip().endswith(PROJECT["version"])
    assert installed.python("import sparqlive; print(sparqlive.__version__)").strip() == PROJECT["version"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert block is not None
    installed.python(block[1])

    (installed.folder / "tea.ttl").write_text("<urn:tea> <urn:price> 4 .")
    (installed.folder / "new.changes").write_text("+ <urn:tea> <urn:label> <urn:x> .\n")
    installed.run("sparqlive", "load", "--store", "s", "tea.ttl")
    installed.run("sparqlive", "view", "--store", "s", "all", "SELECT * { ?s ?p ?o }")
    installed.run("sparqlive", "apply", "--store", "s", "new.changes")
    counted = installed.run("sparqlive", "query", "--store", "s", "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }")
    assert "2" in counted
    installed.run("sparqlive", "check", "--store", "s")
    for command in (["serve", "--store", "s"], ["run", "pipeline.toml"]):
        refused = installed.run("sparqlive", *command, succeeds=False)
        assert "Traceback" not in refused
    assert "pip install 'sparqlive[agent]'" in installed.run(
        "sparqlive", "serve", "--store", "s", succeeds=False
    )


@pytest.mark.parametrize("python", FOUND[:1])
def test_the_extras_work(python: str, wheel: Path, tmp_path: Path) -> None:
    installed = install(python, tmp_path, [f"{wheel}[agent,solid,spark]"])
    installed.python(
        "import sparqlive\n"
        "with sparqlive.open(watch=False) as session:\n"
        "    session.source('solid', 'https://pod.example/card', issuer='https://idp.example/',"
        " client_id='a', client_secret='b')\n"
    )
    served = (
        "import socket, subprocess, sys, time, urllib.request\n"
        "free = socket.create_server(('127.0.0.1', 0)); port = free.getsockname()[1]; free.close()\n"
        "agent = subprocess.Popen(['sparqlive', 'serve', '--store', 's', '--port', str(port)])\n"
        "for _ in range(600):\n"
        "    try: print(urllib.request.urlopen(f'http://127.0.0.1:{port}/readyz').status); break\n"
        "    except OSError: time.sleep(0.2)\n"
        "agent.terminate(); sys.exit(agent.wait(60))\n"
    )
    assert "200" in installed.python(served)
    if HAS_JAVA:
        installed.python(
            "import sparqlive\n"
            "with sparqlive.open('spark.store', spark='local[2]') as session:\n"
            "    view = session.view('v', 'SELECT * { ?s <urn:p> ?o }')\n"
            "    epoch = session.apply(insert='<urn:a> <urn:p> <urn:b> .', strategy='spark')\n"
            "    assert (epoch.strategy, len(view)) == ('spark', 1)\n"
        )


def dockerfile_steps() -> list[str]:
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    command = [str(TOOLS / "hadolint"), str(ROOT / "deploy" / "Dockerfile")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


def test_the_steps_of_the_image_work_without_a_daemon(tmp_path: Path) -> None:
    """COPY and RUN of the first stage in a folder, then health check and command of the second one."""
    stage, opt = tmp_path / "project", tmp_path / "opt"
    stage.mkdir()
    steps = dockerfile_steps()
    second = next(place for place, step in enumerate(steps) if step.startswith("FROM") and place)
    for step in steps[1:second]:
        word, _, rest = step.partition(" ")
        if word == "COPY":
            *files, target = rest.split()
            for name in files:
                shutil.copytree(ROOT / name, stage / target) if (ROOT / name).is_dir() else shutil.copy(
                    ROOT / name, stage / target
                )
        elif word == "RUN":
            command = rest.replace("/opt/sparqlive", str(opt)).replace(
                "python -m venv", f"{FOUND[0]} -m venv"
            )
            subprocess.run(["sh", "-ec", command], cwd=stage, check=True, stdout=subprocess.DEVNULL)
    [entry] = [json.loads(step.partition(" ")[2]) for step in steps if step.startswith("ENTRYPOINT")]
    [given] = [json.loads(step.partition(" ")[2]) for step in steps[second:] if step.startswith("CMD")]
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    local = [str(data) if word == "/data" else word for word in given]
    refused = subprocess.run(
        [str(opt / "bin" / entry[0]), *local], capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0, "open to others without a token"
    assert "token" in refused.stderr
    token = [str(opt / "bin" / entry[0]), "token", "create", "--store", str(data), "--can", "admin"]
    subprocess.run(token, check=True, stdout=subprocess.DEVNULL)
    agent = subprocess.Popen([str(opt / "bin" / entry[0]), *local])
    try:
        [check] = [re.search(r"CMD (\[.*\])", step) for step in steps if step.startswith("HEALTHCHECK")]
        assert check is not None
        command = [str(opt / "bin" / "python"), *json.loads(check[1])[1:]]
        waiting = f"until {subprocess.list2cmdline(command)} 2>/dev/null; do sleep 0.2; done"
        subprocess.run(["sh", "-c", waiting], check=True, timeout=120)
    finally:
        agent.terminate()
        assert agent.wait(60) == 0


@pytest.mark.parametrize(
    ("schema", "file"), [("compose-spec", "deploy/compose.yaml"), ("citation-file-format", "CITATION.cff")]
)
def test_files_follow_their_schemas(schema: str, file: str) -> None:
    command = [str(TOOLS / "check-jsonschema"), "--builtin-schema", f"vendor.{schema}", str(ROOT / file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_list_of_components_has_versions_and_licences(wheel: Path, tmp_path: Path) -> None:
    installed = install(FOUND[0], tmp_path, [str(wheel)])
    listed = tmp_path / "sbom.json"
    command = [
        str(TOOLS / "cyclonedx-py"),
        "environment",
        str(installed.bin / "python"),
        "--of",
        "JSON",
        "-o",
        str(listed),
    ]
    subprocess.run(command, check=True, capture_output=True)
    components = {entry["name"]: entry for entry in json.loads(listed.read_text())["components"]}
    assert components["sparqlive"]["version"] == PROJECT["version"]
    lacking = [name for name, entry in components.items() if not entry.get("licenses")]
    print(f"{len(components)} components, without a licence in their metadata: {lacking}")
    assert all(entry["version"] for entry in components.values())
