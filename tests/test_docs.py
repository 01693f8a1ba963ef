"""The documentation cannot drift: its Python blocks and the example run, the commands it names exist."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import sparqlive
from sparqlive.pipeline.file import read_pipeline
from sparqlive.pipeline.sinks import KINDS as SINKS
from sparqlive.sources.watcher import KINDS as SOURCES
from tests.conftest import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)")
INTERNALS = sorted((ROOT / "docs" / "internals").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks() -> list[object]:
    return [
        pytest.param(
            page,
            match[1],
            text[: match.start()].count("\n") + 1,
            id=f"{page.name}:{number}",
            marks=[pytest.mark.spark] if "pyspark" in match[1] else [],
        )
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for number, match in enumerate(BLOCK.finditer(text), 1)
    ]


def test_the_readme_has_an_example_with_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [code, *_] = BLOCK.findall(text)
    assert "sparqlive.open()" in code
    exec(compile(code, "README.md", "exec"), {"__name__": "__docs__"})
    assert f"```text\n{capsys.readouterr().out}```" in text


@pytest.mark.parametrize(("page", "code", "line"), blocks())
def test_python_blocks_run(
    page: Path, code: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # as in an active virtual environment
    compiled = compile("\n" * line + code, str(page), "exec")  # errors show the page's own line numbers
    names: dict[str, object] = {"__name__": "__docs__"}
    exec(compiled, names)
    assert "sparqlive" in code, "an example shows sparqlive"


def test_the_readme_names_the_commands_on_its_first_screen() -> None:
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:20]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("run", "test"):
        assert any(line.startswith(f"make {target}") for line in first_screen)
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


FIGURE = re.compile(r"\d[\d,.]*(?: (?:µs|ms|s|B)\b|×)")


@pytest.mark.parametrize(
    ("page", "heading"), [("README.md", "## Figures"), ("docs/comparison.md", "## Measured")]
)
def test_figures_stand_in_the_results(page: str, heading: str) -> None:
    """Those of a row of a table in one line of a page of results, others anywhere in them."""
    results = [
        set(FIGURE.findall(line))
        for file in sorted((ROOT / "bench" / "results").glob("*.md"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    everything = set().union(*results)
    section = (ROOT / page).read_text(encoding="utf-8").partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    quoted = [(line, set(FIGURE.findall(line))) for line in section.splitlines() if FIGURE.search(line)]
    assert len(quoted) >= 4
    for line, figures in quoted:
        known = any(figures <= told for told in results) if line.startswith("|") else figures <= everything
        assert known, f"{page} quotes what no benchmark wrote: {line}"


def heading_id(heading: str) -> str:
    """The anchor that MkDocs and GitHub give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), f"{page}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in map(heading_id, headings), f"{page}: {target}#{anchor}"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", *(f"internals/{p.name}" for p in INTERNALS)])
def test_modules_that_are_named_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+/[\w/]+\.py)`", text))
    places = (ROOT / "src" / "sparqlive", ROOT / "src" / "sparqlive" / Path(page).stem, ROOT)
    assert [name for name in sorted(named) if not any((place / name).is_file() for place in places)] == []


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_paragraphs_are_short(page: Path) -> None:
    """At most six lines of 110 characters, and so are list items and the rows of tables."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    paragraphs = re.split(r"\n\n|\n(?=[|*\d-])", prose)
    assert [paragraph[:60] for paragraph in paragraphs if len(paragraph) > 660] == []


@pytest.mark.parametrize(("page", "kinds"), [("sources.md", SOURCES), ("pipeline.md", SINKS)])
def test_every_kind_of_source_and_sink_is_documented(page: str, kinds: Mapping[str, object]) -> None:
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    assert [kind for kind in kinds if f"\n| `{kind}` |" not in text] == []


def test_every_key_of_a_pipeline_is_documented(tmp_path: Path) -> None:
    """The reader names the keys it knows when it meets another one."""
    page = (ROOT / "docs" / "reference" / "pipeline.md").read_text(encoding="utf-8")
    (tmp_path / "q.rq").write_text("SELECT * { ?s ?p ?o }", encoding="utf-8")
    tables = {
        "": "",
        "in `[load]`": "[load.x]",
        "in `[sources.NAME]`": "[sources.x]",
        "in `[views.NAME]`": "[views.x]",
        "in `[sinks.NAME]`": "[sinks.x]",
    }
    for title, head in tables.items():
        start = "" if not head else 'store = "s"\n'
        file = tmp_path / "pipeline.toml"
        file.write_text(f"{start}{head}\nnonsense = 1\n", encoding="utf-8")
        with pytest.raises(sparqlive.Error, match="Available keys: ") as raised:
            read_pipeline(file)
        keys = str(raised.value).partition("Available keys: ")[2].rstrip(".").split(", ")
        rows = page.partition(f"| {title or 'at the top'}")[2].partition("\n\n")[0]
        assert [key for key in keys if f"`{key}`" not in rows] == []


def test_every_public_name_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    errors = {name for name in sparqlive.__all__ if hasattr(sparqlive.errors, name)}
    assert "::: sparqlive.errors" in page
    assert [name for name in sparqlive.__all__ if name not in errors and f".{name}" not in page] == []


def test_the_lock_names_no_place() -> None:
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), line


def test_the_shop_runs() -> None:
    from examples.shop import STREAM, main

    out = io.StringIO()
    main(out)
    text = out.getvalue()
    assert text.endswith("\ncheck: 3 views equal their recomputation\n")
    assert "\x1b" not in text, "colour is for terminals"
    assert all(title in text for title, _, _ in STREAM)
    assert re.search(r"^    unsold  \+1  juice$", text, re.MULTILINE)
    assert re.search(r"^    unsold  -1  juice$", text, re.MULTILINE)
    assert re.search(r"^    stock   \+1  juice   full$", text, re.MULTILINE)
    assert "nothing changes" in text


def test_the_shop_is_a_module() -> None:
    command = [sys.executable, "-m", "examples.shop"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("check: 3 views equal their recomputation\n")
