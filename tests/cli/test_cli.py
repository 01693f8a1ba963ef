"""The command line: what it prints, its exit codes, and that its reference says what it does."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyoxigraph import RdfFormat, parse

import sparqlive
from sparqlive.cli import main as cli
from tests.conftest import ROOT

DATA = """
<http://x/tea> <http://x/price> "4"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://x/cake> <http://x/price> "9"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://x/tea> <http://x/name> "tea, \\"green\\""@en .
"""
QUERY = "SELECT ?item ?price ?name { ?item <http://x/price> ?price OPTIONAL { ?item <http://x/name> ?name } }"
CHANGES = """
- <http://x/cake> <http://x/price> "9"^^<http://www.w3.org/2001/XMLSchema#integer> .
+ <http://x/cake> <http://x/price> "2"^^<http://www.w3.org/2001/XMLSchema#integer> .
@
+ <http://x/juice> <http://x/price> "3"^^<http://www.w3.org/2001/XMLSchema#integer> .
"""


class Shop:
    """A store in a folder, and the command line on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        (folder / "data.nt").write_text(DATA, encoding="utf-8")
        (folder / "prices.rq").write_text(QUERY, encoding="utf-8")
        (folder / "day.changes").write_text(CHANGES, encoding="utf-8")

    def __call__(self, command: str, *arguments: object, code: int = 0) -> str:
        given = [*command.split(), "--store", str(self.folder / "shop.store"), *map(str, arguments)]
        return self.plain(*given, code=code)

    def plain(self, *arguments: str, code: int = 0) -> str:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        out, err = self._capsys.readouterr()
        assert ended.value.code == code, err
        if code:
            assert "Traceback" not in err
            return err
        said = (
            "Created store shop.store.",
            f"Created store {self.folder / 'shop.store'}.",
            "There are no views",
            "No triple has the predicate <x:never>. ",
        )
        assert all(line.startswith(said) for line in err.splitlines())
        return out


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path, capsys)


@pytest.fixture
def filled(shop: Shop) -> Shop:
    shop("load", "data.nt")
    shop("view", "prices", "prices.rq")
    return shop


def test_a_store_is_filled_and_kept(shop: Shop) -> None:
    assert shop("load", "data.nt").startswith("loading: epoch 1, 3 new quads, 3 in all, ")
    assert shop("load", "data.nt").startswith("loading: epoch 1, 0 new quads, 3 in all, ")
    assert shop("view", "prices", "prices.rq").startswith("computing prices: 2 solutions, ")
    assert shop("view", "count", "SELECT (COUNT(*) AS ?n) { }").startswith("computing count: 1 solution, ")
    assert shop("view", "count", "--drop") == "Dropped view count.\n"
    lines = shop("apply", "day.changes").splitlines()
    assert [line.split("  ")[:4] for line in lines] == [
        ["epoch 2", "day.changes", "+1 −1", "prices 2"],
        ["epoch 3", "day.changes", "+1 −0", "prices 1"],
    ]
    assert shop("check") == "check: 1 view equals its recomputation\n"
    shop("compact")
    assert len(shop("view", "prices").splitlines()) == 1 + 3
    assert shop("view").split("\t")[:2] == ["prices", "3 rows"]
    assert shop("view", "prices", "--drop") == "Dropped view prices.\n"
    assert shop("view") == ""


def test_formats(filled: Shop) -> None:
    found = json.loads(filled("view", "prices", "--format", "json"))
    assert found["head"] == {"vars": ["item", "price", "name"]}
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    tea = {
        "item": {"type": "uri", "value": "http://x/tea"},
        "price": {"type": "literal", "value": "4", "datatype": integer},
        "name": {"type": "literal", "value": 'tea, "green"', "xml:lang": "en"},
    }
    assert tea in found["results"]["bindings"]
    assert all("name" in row or "cake" in row["item"]["value"] for row in found["results"]["bindings"])
    rows = list(csv.reader(io.StringIO(filled("query", "prices.rq", "--format", "csv"), newline="")))
    assert rows[0] == ["item", "price", "name"]
    assert sorted(rows[1:]) == [["http://x/cake", "9", ""], ["http://x/tea", "4", 'tea, "green"']]
    lines = filled("query", QUERY, "--format", "tsv").splitlines()
    assert lines[0] == "?item\t?price\t?name"
    assert f'<http://x/cake>\t"9"^^<{integer}>\t' in lines
    assert "2 solutions" in filled("query", QUERY, "--format", "table")


def test_multiplicities_are_written(shop: Shop) -> None:
    shop("load", "data.nt")
    assert shop("query", "SELECT ?p { ?s ?p ?o }").count("<http://x/price>") == 2


def test_an_update_is_one_epoch(filled: Shop) -> None:
    update = (
        "DELETE { ?i <http://x/price> ?p } INSERT { ?i <http://x/price> 1 } WHERE { ?i <http://x/price> ?p }"
    )
    assert "+2 −2  prices 4" in filled("update", f"{update} ; CLEAR GRAPH <http://x/absent>")
    (filled.folder / "clear.ru").write_text("CLEAR ALL", encoding="utf-8")
    assert "+0 −3  prices 2" in filled("update", "--file", "clear.ru")
    assert "line 1, column 1" in filled("update", "CLEER ALL", code=1)
    assert "or with --file." in filled("update", code=2)


def test_watch_prints_the_content_and_then_the_changes(filled: Shop) -> None:
    lines = filled("watch", "prices", "day.changes").splitlines()
    assert lines[0] == "@ epoch 1, full content"
    assert lines[3] == "@ epoch 2"
    assert sorted(line.split("\t")[0] for line in lines[4:6]) == ["+1", "-1"]
    assert lines[6] == "@ epoch 3"
    [entry] = map(json.loads, filled("watch", "prices", "--json").splitlines())
    assert (entry["epoch"], entry["reset"], len(entry["changes"])) == (3, True, 3)


def test_other_forms_than_select(filled: Shop) -> None:
    assert filled("query", "ASK { ?s ?p ?o }") == "true\n"
    assert filled("query", "ASK { ?s <x:never> ?o }", "--format", "json") == '{"head":{},"boolean":false}\n'
    everything = "CONSTRUCT WHERE { ?s ?p ?o }"
    triples = set(parse(filled("query", everything), format=RdfFormat.N_TRIPLES))
    assert triples == set(parse(filled("query", everything, "--format", "turtle"), format=RdfFormat.TURTLE))
    assert triples
    error = filled("query", everything, "--format", "xml", code=1)
    assert error.startswith("sparqlive: A graph cannot be written as 'xml'. Available formats: nt")
    filled("view", "graph", everything)
    filled("view", "any", "ASK { ?s ?p ?o }")
    assert len(filled("watch", "graph").splitlines()) == len(triples) + 1
    assert filled("watch", "any").splitlines()[1] == "+1"


def test_a_description_needs_no_braces(filled: Shop) -> None:
    item = filled("query", "SELECT ?s { ?s ?p ?o } LIMIT 1", "--format", "csv").splitlines()[1]
    described = filled("query", f"DESCRIBE <{item}>", "--format", "nt")
    assert described
    assert described == filled("query", f"BASE <{item}>\nDESCRIBE <>", "--format", "nt")


def test_explain_shows_the_rules(filled: Shop) -> None:
    assert "Δ" in filled("explain", "prices")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("load", "nowhere.nt"), "sparqlive: There is nothing to load at nowhere.nt"),
        (("view", "nobody"), "sparqlive: There is no view named 'nobody'"),
        (
            ("view", "prices", "SELECT * { ?s ?p ?o }"),
            "sparqlive: View 'prices' already exists with a different query or refresh setting. Use",
        ),
        (("query", "SELECT * {"), "sparqlive: "),
        (("query", "nowhere.rq"), "sparqlive: nowhere.rq is neither a query nor a readable file"),
        (("load", "shop.store"), "sparqlive: The folder shop.store has no RDF documents."),
        (("apply", "bad.changes"), "sparqlive: bad.changes, line 1: "),
        (("query", "SELECT ?x"), "sparqlive: line 1, column 10: "),
        (("apply", "nowhere.changes"), "sparqlive: There is no file nowhere.changes"),
        (("watch", "prices", "--since", "99"), "sparqlive: Epoch 99 does not exist yet"),
    ],
)
def test_errors_are_a_sentence(filled: Shop, arguments: tuple[str, ...], said: str) -> None:
    (filled.folder / "bad.changes").write_text("what?\n", encoding="utf-8")
    error = filled(*arguments, code=1)
    assert error.startswith(said)
    assert error.count("\n") == (3 if arguments[1].startswith("SELECT") else 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("view", "--drop"), "name the view to drop"),
        (("view", "prices", "ASK {}", "--drop"), "name the view to drop"),
        (("view", "prices", "--replace"), "add the query: sparqlive view NAME QUERY --replace"),
        (("view", "prices", "--refresh", "5"), "add the query: sparqlive view NAME QUERY --refresh"),
        (("load", "day.changes"), "day.changes is a file of changes. To apply it, use sparqlive apply."),
        (("apply", "data.nt"), "data.nt is an RDF document. To load it, use sparqlive load."),
        (("load", ""), "The name of a file is empty."),
        (("apply", ""), "The name of a file is empty."),
        (("view", "SELECT * { ?s ?p ?o }"), "Give the view a name before its query"),
        (("query", "prices"), "To show the view of that name, use sparqlive view prices."),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    filled: Shop, arguments: tuple[str, ...], said: str
) -> None:
    assert said in filled(*arguments, code=2)
    assert filled("view").startswith("prices\t")


def test_the_list_of_views_says_how_far_a_view_is_behind(filled: Shop) -> None:
    filled("view", "later", "SELECT ?o { <http://x/tea> <http://x/price> ?o }", "--refresh", "manual")
    assert filled("view").endswith("later\t1 row\tepoch 1\tkept\n")
    filled("apply", "day.changes")
    assert filled("view").endswith("later\t1 row\tepoch 1\tkept, 3 changes not seen yet\n")


def test_options_before_the_command_are_wrong_usage(filled: Shop) -> None:
    said = filled.plain("--store", "shop.store", "load", "data.nt", code=2)
    assert said == "sparqlive: Options come after the command: sparqlive load --store …\n"
    assert "No such option: --nonsense" in filled.plain("--nonsense", code=2)


@pytest.mark.parametrize("arguments", [("prices.rq", "other"), ("prices.rq",)])
def test_a_file_in_place_of_the_name_of_a_view_is_noticed(filled: Shop, arguments: tuple[str, ...]) -> None:
    assert filled("view", *arguments, code=1).endswith("sparqlive view NAME prices.rq\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("load", "nowhere.nt"),
        ("view", "nobody"),
        ("view", "new", "SELECT * {"),
        ("apply", "nowhere.changes"),
        ("update", "CLEER ALL"),
        ("query", "SELECT * { ?s x:p ?o }"),
        ("explain", "nobody"),
        ("watch", "nobody"),
        ("source add", "nonsense", "x"),
        ("source remove", "nobody"),
        ("token create", "--can", "fly"),
        ("token revoke", "nobody"),
    ],
)
def test_errors_are_json_where_json_was_asked_for(
    filled: Shop, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="1"):
        cli.main([*arguments[0].split(), "--store", "shop.store", *arguments[1:], "--json"])
    out, err = capsys.readouterr()
    assert err == f"sparqlive: {json.loads(out)['error']}\n"


def test_a_source_whose_file_is_missing_is_noticed(filled: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    for file, said in (("nowhere.nt", "File nowhere.nt does not exist yet"), ("*.nt", "")):
        with pytest.raises(SystemExit, match="0"):
            cli.main(["source", "add", "--store", "shop.store", "file", file])
        assert capsys.readouterr().err.startswith(said)


def test_files_that_change_nothing_say_so(filled: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    (filled.folder / "nothing.changes").write_text("# nothing\n", encoding="utf-8")
    filled("apply", "day.changes")
    for again in ("day.changes", "nothing.changes"):
        with pytest.raises(SystemExit):
            cli.main(["apply", "--store", "shop.store", again])
        assert capsys.readouterr() == ("", "Nothing changed.\n")


@pytest.mark.parametrize("address", ["http://127.0.0.1:8080", "file:///data/shop.store", "s3a://shop/store"])
def test_an_address_is_not_a_store(shop: Shop, address: str) -> None:
    for command in ("load data.nt", "view", "check", "serve", "token list", "watch v", "source list"):
        said = shop.plain(*command.split(), "--store", address, code=2)
        assert f"{address} is an address, but a store is a local directory" in said
    assert not list(shop.folder.glob("*:"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("query", " "), "The query is empty."),
        (("update", ""), "The update is empty."),
        (("query", "INSERT DATA {}"), "`INSERT` begins an update, and this must be a query"),
        (("view", "new", "PREFIX a: <b:> DELETE WHERE {}"), "`DELETE` begins an update"),
        (("update", "SELECT * {}"), "`SELECT` begins a query, and this must be an update"),
        (("update", "LOAD <http://127.0.0.1/>"), "--allow-private on the command line"),
        (("update", "LOAD <http://127.0.0.1:1/>", "--allow-private"), "no connection"),
    ],
)
def test_a_text_of_the_wrong_kind_says_so(filled: Shop, arguments: tuple[str, ...], said: str) -> None:
    assert said in filled(*arguments, code=1)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * { ?s <http://x/prize> ?o }", "No triple has the predicate <http://x/prize>. Check its"),
        (
            "SELECT * { ?s <http://x/price>/<http://x/prize> ?o }",
            "No triple has the predicate <http://x/prize>",
        ),
        ("SELECT * { ?s a <http://x/Shop> }", "No triple has the class <http://x/Shop>"),
        ("SELECT * { ?s <http://x/stock> ?o }", "Only named graphs have the predicate <http://x/stock>"),
        ("SELECT * { GRAPH <http://x/g> { ?s <http://x/price> ?o } }", None),
        ("SELECT * { ?s <http://x/price> ?o FILTER(?o > 100) }", None),
        ("SELECT * { ?s <http://x/price> ?o . MINUS { ?s !<http://x/prize> ?o } }", None),
    ],
)
def test_an_empty_view_says_why(
    shop: Shop, query: str, said: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    shop("load", "data.nt", "--default-graph", "strict")
    shop("update", "INSERT DATA { GRAPH <http://x/g> { <http://x/tea> <http://x/stock> 1 } }")
    for command in (
        ["view", "new", query],
        ["view", "as-json", query, "--json"],
        ["view", "new"],
        ["query", query],
        ["watch", "new"],
    ):
        with pytest.raises(SystemExit):
            cli.main([*command, "--store", "shop.store"])
        _, hint = capsys.readouterr()
        assert said in hint if said is not None else hint == ""
        assert len(hint.splitlines()) == (said is not None)  # and no warning


@pytest.mark.parametrize(
    "command",
    [
        ("load", "data.nt"),
        ("view", "prices", "prices.rq"),
        ("source add", "file", "data.nt"),
        ("apply", "day.changes"),
        ("update", "INSERT DATA { <http://x/a> <http://x/b> 1 }"),
    ],
)
def test_a_new_store_has_the_union_as_its_default_graph(shop: Shop, command: tuple[str, ...]) -> None:
    """Like those of `serve` and `run`: sources put their triples into named graphs."""
    shop(*command)
    with sparqlive.open(shop.folder / "shop.store", watch=False) as session:
        assert session.default_graph == "union"


def test_an_existing_store_keeps_its_default_graph(shop: Shop) -> None:
    with sparqlive.open(shop.folder / "shop.store"):
        pass
    shop("load", "data.nt", "--graph", "http://x/g")
    with sparqlive.open(shop.folder / "shop.store") as session:
        assert session.default_graph == "strict"
    assert "was created with" in shop("load", "data.nt", "--default-graph", "union", code=1)
    (shop.folder / "pipeline.toml").write_text(
        'store = "shop.store"\n[[views]]\nname = "all"\nquery = "prices.rq"\n'
    )
    with pytest.raises(SystemExit):
        cli.main(["run", "pipeline.toml"])
    with sparqlive.open(shop.folder / "shop.store") as session:
        assert session.default_graph == "strict"


@pytest.mark.parametrize(
    ("query", "caret"),
    [
        ("SELECT *\n{ ?s ?p ?o FILTER( }", "                     ^"),
        ('SELECT * { ?s ?p "日本" FILTER( }', "                                  ^"),
    ],
)
def test_a_caret_points_at_the_place_of_an_error(filled: Shop, query: str, caret: str) -> None:
    _, line, below = filled("query", query, code=1).splitlines()
    assert line == f"  {query.splitlines()[-1]}"
    assert below == caret


def test_the_version(shop: Shop) -> None:
    assert shop.plain("--version") == f"sparqlive {sparqlive.__version__}\n"


def test_json(filled: Shop) -> None:
    """Every command that prints something can print JSON."""
    views = [json.loads(line) for line in filled("view", "--json").splitlines()]
    assert [(view["name"], view["rows"]) for view in views] == [("prices", 2)]
    assert json.loads(filled("view", "prices", "--json"))["head"]["vars"] == ["item", "price", "name"]
    assert json.loads(filled("view", "other", "ASK { ?s ?p ?o }", "--json"))["name"] == "other"
    assert json.loads(filled("query", "ASK { ?s ?p ?o }", "--json"))["boolean"] is True
    assert json.loads(filled("explain", "prices", "--json"))["epoch"] >= 1
    epochs = [json.loads(line) for line in filled("apply", "day.changes", "--json").splitlines()]
    assert [(epoch["inserted"], epoch["views"]["prices"]) for epoch in epochs] == [(1, 2), (1, 1)]
    assert json.loads(filled("update", "CLEAR ALL", "--json"))["deleted"] > 0
    assert json.loads(filled("load", "data.nt", "--json"))["quads"] == 3
    assert json.loads(filled("check", "--json")) == {"views": 2, "repaired": []}
    assert json.loads(filled("compact", "--json"))["epoch"] > 1
    assert json.loads(filled("source add", "file", "data.nt", "--json"))["kind"] == "file"
    assert json.loads(filled("source list", "--json"))["address"].endswith("data.nt")


def test_files_folders_and_standard_input(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"<urn:s> <urn:p> 1, 2 .")))
    assert "2 new quads" in shop("load", "-", "--syntax", "ttl")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"<urn:s> <urn:p> 1 .")))
    assert "standard input, line 1" in shop("load", "-", code=1)
    (shop.folder / "days").mkdir()
    for name, value in (("b", 4), ("a", 3)):
        (shop.folder / "days" / f"{name}.changes").write_text(
            f'+ <urn:s> <urn:p> "{value}" .', encoding="utf-8"
        )
    applied = [json.loads(line)["source"] for line in shop("apply", "days", "--json").splitlines()]
    assert applied == ["days/a.changes", "days/b.changes"]
    (shop.folder / "some.ru").write_text("DELETE WHERE { ?s ?p 1 }", encoding="utf-8")
    assert json.loads(shop("update", "some.ru", "--json"))["deleted"] == 1
    assert "Cannot read none.ru" in shop("update", "none.ru", code=1)
    (shop.folder / "empty").mkdir()
    assert "The folder empty has no change files" in shop("apply", "empty", code=1)
    assert "--store" in shop.plain("view", code=2)
    assert "--store" in shop.plain("view", "--store", "x", "--agent", "http://127.0.0.1:9", code=2)
    asked = ("query", "ASK {}", "--allow-private", "--agent", "http://127.0.0.1:9")
    assert "works with --store" in shop.plain(*asked, code=1)


def test_empty_lists_say_what_to_do(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop("load", "data.nt")
    for command, said in (("view", "There are no views yet."), ("source list", "There are no sources yet.")):
        with pytest.raises(SystemExit) as ended:
            cli.main([*command.split(), "--store", "shop.store"])
        assert ended.value.code == 0
        out, err = capsys.readouterr()
        assert (out, err.startswith(said)) == ("", True)


def test_wrong_commands_have_another_exit_code(shop: Shop) -> None:
    assert "No such command" in shop.plain("nonsense", code=2)


def test_the_program_reads_standard_input(filled: Shop) -> None:
    command = [sys.executable, "-m", "sparqlive", "apply", "--store", "shop.store", "-"]
    result = subprocess.run(
        command, input=CHANGES, cwd=filled.folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 2


def test_a_large_file_of_changes_is_applied_until_its_fault(shop: Shop) -> None:
    """It is read by columns; the error names the line, and the batch before is committed."""
    line = "{} <http://example.org/subject/{}> <http://example.org/predicate> <http://example.org/object> .\n"
    first = [line.format("+", number) for number in range(3_000)]
    lines = [*first, line.format("-", 5), "@ 2026-01-01\n", *first, "+ <broken\n"]
    (shop.folder / "large.changes").write_text("".join(lines), encoding="utf-8")
    error = shop("apply", "large.changes", code=1)
    assert "large.changes, line 6003: " in error
    assert '"2999"' in shop("query", "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }")


PIPELINE = """
store = "shop.store"
[load]
catalogue = "data.nt"
[views.prices]
query = "prices.rq"
[sinks.prices]
view = "prices"
kind = "json-lines"
path = "out/prices.jsonl"
"""


def test_a_pipeline_without_sources_needs_no_spark(shop: Shop) -> None:
    (shop.folder / "pipeline.toml").write_text(PIPELINE, encoding="utf-8")
    for new in (3, 0):
        out = shop.plain("run", "pipeline.toml", "--once")
        assert out.startswith(f"loading catalogue: {new} new, 3 quads in all")
        assert "computing prices: 2 solutions" in out
    [line] = (shop.folder / "out/prices.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["reset"] is True


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('store = "shop.store"', "", "the key 'store' is missing"),
        ('store = "shop.store"', "store = 1", "store must be a string, not 1"),
        ('store = "shop.store"', 'store = "a"\nstorage = "b"', "unknown key 'storage'"),
        ('store = "shop.store"', "store =", "not valid TOML"),
        ('"data.nt"', '"nowhere.nt"', "there is no file at "),
        ('"prices.rq"', '"nowhere.rq"', "query names a file "),
        ('"prices.rq"', '"data.nt"', "data.nt: "),
        ('view = "prices"', 'view = "others"', "there is no [views.others]"),
        (
            '"json-lines"',
            '"xml"',
            "unknown kind 'xml'. Available kinds: delta-lake, json-lines, kafka, parquet, rdf-patch",
        ),
        ('"json-lines"', '"rdf-patch"', "CONSTRUCT"),
        ("[views.prices]", '[views.prices]\nrefresh = "never"', "refresh must be "),
        ("[load]", '[sources.s]\nkind = "ftp"\npath = "x"\n[load]', "unknown kind 'ftp'"),
        ("[load]", '[sources.s]\nkind = "web"\n[load]', "[sources.s]: needs either path or address"),
        ("[load]", '[sources.s]\nkind = "file"\naddress = "x.ttl"\n[load]', "For a file, use path"),
        (
            "[load]",
            '[sources.s]\nkind = "file"\npath = "x"\nspeed = 1\n[load]',
            "[sources.s]: Invalid options for a source of kind 'file'",
        ),
        ("[load]", '[sources.s]\nkind = "mqtt"\naddress = "mqtt:x"\n[load]', "not an MQTT address"),
        ("[load]", '[sources.s]\nkind = "file"\npath = "x"\nx = 2026-01-01\n[load]', "not JSON"),
        ("[load]", '[sources.s]\nkind = "changes"\npath = "in/*.changes"\n[load]', "there is no folder"),
        ("[load]", '[sources."a b"]\nkind = "changes"\npath = "."\n[load]', "the name of a source"),
    ],
)
def test_a_bad_pipeline_is_refused_before_anything_happens(shop: Shop, old: str, new: str, said: str) -> None:
    assert old in PIPELINE
    (shop.folder / "pipeline.toml").write_text(PIPELINE.replace(old, new), encoding="utf-8")
    error = shop.plain("run", "pipeline.toml", code=1)
    assert error.startswith("sparqlive: pipeline.toml: ")
    assert said in error
    assert not (shop.folder / "shop.store").exists()


def test_the_reference_is_what_help_says() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert page == cli.reference(), "write it anew: python -m sparqlive.cli.main --write-docs"


def test_json_and_another_format_contradict_each_other(filled: Shop) -> None:
    for command in (("query", "prices.rq"), ("view", "prices")):
        error = filled(*command, "--json", "--format", "csv", code=2)
        assert "Use either --json or --format csv." in " ".join(error.replace("│", " ").split())
        assert filled(*command, "--json", "--format", "json") == filled(*command, "--json")
    graph = json.loads(filled("query", "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }", "--json"))
    assert {node["@id"] for node in graph} == {"http://x/tea", "http://x/cake"}


def test_a_listed_view_says_which_epoch_it_is_at(filled: Shop) -> None:
    assert filled("view").startswith("prices\t")
    before = filled("view").splitlines()[0].split("\t")[2]
    filled("apply", "day.changes")
    assert before == "epoch 1"
    assert filled("view").splitlines()[0].split("\t")[2] != before
