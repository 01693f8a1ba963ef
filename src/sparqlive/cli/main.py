"""The command line: a thin layer over a session's calls.

Owns words, formats and exit codes; decides nothing about data. An error is one sentence on standard error and
exit code 1. `docs/CLI.md` is generated from the commands
themselves (`python -m sparqlive.cli.main --write-docs`).
"""

from __future__ import annotations

import json as json_module  # several commands have an option of that name
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer
from rich.console import Console
from rich.table import Table

import sparqlive
from sparqlive.agent.audit import Audit
from sparqlive.agent.tokens import FILE as TOKENS
from sparqlive.agent.tokens import LEAST, Limits, Tokens
from sparqlive.engine.deferred import check_refresh
from sparqlive.engine.register import check_view_name
from sparqlive.engine.view import GRAPH_FORMS, Answer, Delta, Epoch, View
from sparqlive.numbers import MOST_PORT, number, seconds, whole
from sparqlive.opening import ensure_store, is_store, locked, reading, say, say_created, writing
from sparqlive.pipeline.file import read_pipeline
from sparqlive.pipeline.job import run_pipeline
from sparqlive.pipeline.progress import Progress, duration
from sparqlive.rdf.changes import Batch, parse_changes, read_changes
from sparqlive.sparql.results import json_delta, tsv_term
from sparqlive.store.locks import describe_writer

if TYPE_CHECKING:
    from sparqlive.web.event_stream import Followed


class Format(StrEnum):
    """How results are written: solutions and answers up to tsv, graphs from nt on."""

    table = "table"
    json = "json"
    xml = "xml"
    csv = "csv"
    tsv = "tsv"
    nt = "nt"
    nquads = "nquads"
    turtle = "turtle"
    trig = "trig"
    rdfxml = "rdfxml"
    jsonld = "jsonld"


class Strategy(StrEnum):
    """How an epoch is carried to the views."""

    auto = "auto"
    live = "live"
    spark = "spark"
    rebuild = "rebuild"


class DefaultGraph(StrEnum):
    """What a query's default graph is."""

    strict = "strict"
    union = "union"


def _checked(check: Callable[[str, Any], Any]) -> Callable[[Any], Any]:
    """Refuses a flag's number before anything happens."""

    def checked(value: Any) -> Any:
        if value is not None:
            try:
                check("it", value)
            except sparqlive.Error as error:
                raise typer.BadParameter(str(error)) from error
        return value

    return checked


_port = _checked(partial(whole, most=MOST_PORT))
_seconds = _checked(partial(seconds, least=0.001))
_count = _checked(partial(whole, least=1))
_rate = _checked(partial(number, least=LEAST))
_epoch = _checked(whole)

app = typer.Typer(
    name="sparqlive",
    help="Keeps the results of SPARQL queries up to date while the RDF data under them changes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Store = Annotated[Path, typer.Option("--store", metavar="DIR", help="Store directory.")]
NewStore = Annotated[
    Path, typer.Option("--store", metavar="DIR", help="Store directory; created if missing.")
]
Default = Annotated[
    DefaultGraph | None,
    typer.Option(
        help="What a query's default graph is: the unnamed graph alone, or the union of all graphs."
    ),
]
Output = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="Solutions and answers: table (on a terminal), json, xml, csv, tsv (else); graphs: nt, …",
    ),
]
QueryArgument = Annotated[
    str, typer.Argument(metavar="QUERY", help="SPARQL text, a file with it, or - for standard input.")
]
ChangeFiles = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="Files of changes (.changes, .rdfp), or - for standard input."),
]


@app.command()
def load(
    store: NewStore,
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="RDF documents, folders and globs.")],
    graph: Annotated[str | None, typer.Option(metavar="IRI", help="The graph that triples go into.")] = None,
    default_graph: Default = None,
    runs: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Where a new store has its runs, if not in its directory."),
    ] = None,
) -> None:
    """Load RDF documents, plain or compressed, as one epoch."""
    progress = Progress()
    with _writing(store, default_graph, runs=runs) as session, progress.step("loading") as step:
        epoch = session.load(files, graph=graph)
        step.result = f"epoch {epoch.number}, {epoch.inserted:,} new quads, {len(session):,} in all"


@app.command()
def view(
    store: Store,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The view; none: lists them.")] = None,
    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", help="Registers it: SPARQL text, a file with it, or -."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a view with another query.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Forget the view.")] = False,
    refresh: Annotated[
        str, typer.Option(help="immediate, manual, or seconds within which changes may be gathered.")
    ] = "immediate",
    output: Output = None,
    default_graph: Default = None,
) -> None:
    """List views, show one, register one or drop one.

    Registering creates the store if it is missing.
    """
    if name is not None and drop:
        with _writing(store, default_graph, creates=False) as session:
            session.drop(name)
    elif name is not None and query is not None:
        text, lag = _query_text(query), _lag(refresh)
        check_view_name(name)
        with _writing(store, default_graph) as session, Progress().step(f"computing {name}") as step:
            made = session.view(name, text, replace=replace, refresh=lag)
            step.result = f"{len(made):,} solutions"
    else:
        with _reading(store, default_graph) as session:
            if name is None:
                _list_views(session.views)
            else:
                _write(session.views[name], output)


@app.command()
def apply(
    store: NewStore,
    files: ChangeFiles,
    strategy: Annotated[
        Strategy, typer.Option(help="How the changes are carried to the views.")
    ] = Strategy.auto,
    default_graph: Default = None,
) -> None:
    """Apply batches of changes, an epoch each, and say what they changed."""
    progress = Progress()
    with _writing(store, default_graph) as session:
        for source, epoch, seconds in _applied(session, files, strategy):
            progress.epoch(epoch, source, seconds)


@app.command()
def update(
    store: NewStore,
    text: Annotated[
        str | None, typer.Argument(metavar="UPDATE", help="SPARQL Update text, or - for standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="A file with it, in its place.")] = None,
    strategy: Annotated[
        Strategy, typer.Option(help="How the changes are carried to the views.")
    ] = Strategy.auto,
    default_graph: Default = None,
) -> None:
    """Carry out a SPARQL Update request as one epoch, and say what it changed."""
    if (text is None) == (file is None):
        raise sparqlive.Error(
            "Give the update as text (- for standard input) or with --file, one of the two."
        )
    progress = Progress()
    given = _read(file) if file is not None else sys.stdin.read() if text == "-" else str(text)
    with _writing(store, default_graph) as session:
        start = time.perf_counter()
        epoch = session.update(given, strategy=strategy.value)
        progress.epoch(epoch, "update" if file is None else str(file), time.perf_counter() - start)


@app.command()
def query(store: Store, query: QueryArgument, output: Output = None, default_graph: Default = None) -> None:
    """Evaluate a query once."""
    with _reading(store, default_graph) as session:
        _write(session.query(_query_text(query)), output)


@app.command()
def explain(
    store: Store,
    name: Annotated[str, typer.Argument(help="The view.")],
    default_graph: Default = None,
) -> None:
    """Show a view's plan, its delta rules, and what it stores."""
    with _reading(store, default_graph) as session:
        print(session.views[name].explain())


@app.command()
def check(
    store: Store,
    repair: Annotated[
        bool, typer.Option("--repair", help="First compute views anew whose files are damaged or missing.")
    ] = False,
    default_graph: Default = None,
) -> None:
    """Recompute every view from scratch and compare."""
    opened = _writing(store, default_graph, creates=False) if repair else _reading(store, default_graph)
    with opened as session:
        for name in session.repair() if repair else ():
            print(f"check: the view {name} was computed anew")
        session.check()
        print(f"check: {len(session.views)} views equal their recomputation")


@app.command()
def compact(store: Store, default_graph: Default = None) -> None:
    """Write the store's log and deltas into new runs."""
    progress = Progress()
    with _writing(store, default_graph, creates=False) as session, progress.step("compacting"):
        session.compact()


@app.command()
def run(
    pipeline: Annotated[Path, typer.Argument(metavar="PIPELINE", help="The pipeline.toml.")],
    once: Annotated[bool, typer.Option("--once", help="Apply what is there, then end.")] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark's master, in place of the file's.")
    ] = None,
    show: Annotated[
        list[str] | None, typer.Option(metavar="VIEW", help="Print the rows of a view as they change.")
    ] = None,
) -> None:
    """Run a pipeline: load, keep the views, follow the sources, write the sinks."""
    read = read_pipeline(pipeline)
    known = {entry.name for entry in read.views}
    for name in show or ():
        if name not in known:
            raise sparqlive.Error(f"{pipeline}: --show {name}: there is no [views.{name}].")
    if master is not None:
        from dataclasses import replace

        read = replace(read, master=master)

    def print_rows(epoch: Epoch) -> None:
        for name in show or ():
            for row, weight in epoch.deltas[name].weights().items():
                print(f"  {name}\t{_signed_row(row, weight)}", flush=True)

    run_pipeline(read, Progress(), once=once, observer=print_rows)


@app.command()
def serve(
    store: NewStore,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(callback=_port, help="The port to listen at; 0: any that is free.")
    ] = 8080,
    default_graph: Annotated[
        DefaultGraph | None,
        typer.Option(help="A new store's default graph: the union of all graphs, or the unnamed one alone."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Speak TLS with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's key (PEM).")] = None,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Sources and LOAD may fetch from non-public addresses.")
    ] = False,
    origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Web pages of this origin may use the agent (CORS)."),
    ] = None,
    query_seconds: Annotated[
        float | None,
        typer.Option(callback=_seconds, metavar="SECONDS", help="How long a one-off query may take."),
    ] = None,
    query_rows: Annotated[
        int | None,
        typer.Option(callback=_count, metavar="ROWS", help="How many rows a one-off query may give."),
    ] = None,
    body_bytes: Annotated[
        int | None, typer.Option(callback=_count, metavar="BYTES", help="How large a request's body may be.")
    ] = None,
    history_bytes: Annotated[
        int | None, typer.Option(callback=_count, metavar="BYTES", help="How far behind a subscriber may be.")
    ] = None,
    progress_seconds: Annotated[
        float | None,
        typer.Option(callback=_seconds, metavar="SECONDS", help="How often subscribers hear of quiet views."),
    ] = None,
    temporary_seconds: Annotated[
        float | None,
        typer.Option(callback=_seconds, metavar="SECONDS", help="How long an ad-hoc view is kept unread."),
    ] = None,
    stop_seconds: Annotated[
        float | None, typer.Option(callback=_seconds, metavar="SECONDS", help="How long stopping may take.")
    ] = None,
) -> None:
    """Serve a store over HTTP: SPARQL, views that are kept, subscriptions to them, sources.

    Its sources are watched. Listens on this machine alone unless tokens exist (sparqlive token create).
    """
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        raise sparqlive.Error(
            "Serving needs the extra packages of the agent: pip install 'sparqlive[agent]'."
        )
    from sparqlive.agent.logs import start_logging
    from sparqlive.agent.routes.health import Opening
    from sparqlive.agent.serve import Listening
    from sparqlive.agent.serve import serve as serve_store
    from sparqlive.agent.settings import Settings

    limits = {
        "query_seconds": query_seconds,
        "query_rows": query_rows,
        "body_bytes": body_bytes,
        "history_bytes": history_bytes,
        "progress_seconds": progress_seconds,
        "temporary_seconds": temporary_seconds,
        "stop_seconds": stop_seconds,
    }
    given: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    settings = Settings(allow_private=allow_private, origins=tuple(origin or ()), **given)
    at: list[str] = []

    def opened(opening: Opening) -> sparqlive.Session:
        is_new = not is_store(store)
        graph = DefaultGraph.union if default_graph is None and is_new else default_graph
        session = sparqlive.open(store, default_graph=_value(graph), progress=opening)
        if is_new:
            say_created(store)
        describe_writer(store, f"the agent at {at[0]}")
        return session

    def started(address: str) -> None:
        at.append(address)
        print(f"{store} is served at {address}", flush=True)

    start_logging()
    serve_store(store, opened, settings, Listening(host, port, tls_certificate, tls_key), started)


@app.command()
def watch(
    name: Annotated[
        str, typer.Argument(help="The view; of a running agent its address, http://…/views/NAME.")
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Changes to apply while watching; - for standard input."),
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="The store's directory, for a view's name.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="SPARQLIVE_TOKEN", help="The token for an agent that asks for one.")
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(callback=_epoch, metavar="EPOCH", help="Start after this epoch, not with the content."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON an epoch.")] = False,
    default_graph: Default = None,
) -> None:
    """Print a view's content, then its changes while changes are applied.

    A view of an agent is followed until it is interrupted. One process at a time writes a store: for its
    views, changes come from files or standard input. To watch a running pipeline, use run --show.
    """
    if name.startswith(("http://", "https://")):
        for followed in sparqlive.follow(name, since=since, token=token):
            _print_delta(followed.variables, followed, json)
        return
    if store is None:
        raise sparqlive.Error("Give the store of the view with --store, or the view's address at an agent.")
    opened = (
        _writing(store, default_graph, creates=False)
        if files
        else reading(store, watched=name, default_graph=_value(default_graph))
    )
    with opened as session:
        watched = session.views[name]
        for delta in watched.changes(since=-1 if since is None else since):
            _print_delta(watched.variables, delta, json)
        for _, epoch, _ in _applied(session, files or (), Strategy.auto):
            changed: Delta = epoch.deltas[name]
            if changed:
                _print_delta(watched.variables, changed, json)


sources = typer.Typer(
    help="Add, list and remove sources, which are watched while a pipeline runs on the store.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(sources, name="source")


@sources.command("add")
def add_source(
    store: NewStore,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Such as file, web, endpoint, ldes.")],
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="A path, or an address on the Web.")],
    name: Annotated[str | None, typer.Option(help="Its name; else the address.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="An option of the kind, see docs/SOURCES.md; values as JSON."
        ),
    ] = None,
    default_graph: Default = None,
) -> None:
    """Add a source."""
    options = dict(_source_option(given) for given in option or ())
    with _writing(store, default_graph) as session:
        session.source(kind, address, name=name, **options)


@sources.command("list")
def list_sources(store: Store) -> None:
    """List the sources: kind, number of quads, when each was seen, version, notifications, what went wrong.

    Also while another process runs on the store.
    """
    ensure_store(store)
    with sparqlive.open(store, read_only=True) as session:
        for source in session.sources.values():
            status = source.status()
            lag = status["lag_seconds"]
            seen = "not seen yet" if lag is None else f"seen {duration(lag)} ago"
            version = json_module.dumps(status["version"]) if status["version"] else "no version"
            words = [source.name, source.kind, f"{status['quads']:,} quads", seen, version]
            if status["notifications"] is not None:
                words.append(f"notifications: {status['notifications']}")
            if status["error"] is not None:
                since = datetime.fromtimestamp(status["stale_since"]).astimezone().isoformat(" ", "seconds")
                words.append(f"stale since {since}: {status['error']}")
            print("\t".join(words))


@sources.command("remove")
def remove_source(
    store: Store, name: Annotated[str, typer.Argument(help="The source.")], default_graph: Default = None
) -> None:
    """Remove a source; what no other source asserts leaves with it."""
    with _writing(store, default_graph, creates=False) as session:
        source = session.sources.get(name)
        if source is None:
            known = ", ".join(session.sources) or "none"
            raise sparqlive.Error(f"There is no source {name!r}. The sources are: {known}.")
        source.remove()


tokens = typer.Typer(
    help="Create, list and revoke tokens, which a running agent knows of at once.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(tokens, name="token")


@tokens.command("create")
def create_token(
    store: Annotated[
        Path, typer.Option("--store", metavar="DIR", help="Store directory; the store need not exist yet.")
    ],
    can: Annotated[
        list[str],
        typer.Option(
            metavar="RIGHTS",
            help="What it may do, with commas between: read, read:view=NAME, write, admin (which is all).",
        ),
    ],
    name: Annotated[str | None, typer.Option(help="What logs call it; else a random name.")] = None,
    requests_per_second: Annotated[float | None, typer.Option(callback=_rate, metavar="NUMBER")] = None,
    subscriptions: Annotated[
        int | None, typer.Option(callback=_count, metavar="NUMBER", help="At the same time.")
    ] = None,
    views: Annotated[
        int | None, typer.Option(callback=_count, metavar="NUMBER", help="Views that it registers.")
    ] = None,
    query_seconds: Annotated[
        float | None,
        typer.Option(callback=_seconds, metavar="SECONDS", help="How long a one-off query of it may take."),
    ] = None,
) -> None:
    """Create a token, and print it: it is kept as a hash, and cannot be shown again.

    From the first token on, the agent of the store asks for one.
    """
    limits = Limits(requests_per_second, subscriptions, views, query_seconds)
    rights = [right.strip() for given in can for right in given.split(",") if right.strip()]
    made, secret = Tokens(store).create(rights, name, limits)
    Audit(store).note("command line", f"create token {made}", "done", rights=rights)
    if not is_store(store):
        say(f"There is no store at {store} yet: sparqlive serve --store {store} creates it.")
    print(f"The token {made} may {', '.join(rights)}. It is not shown again:", file=sys.stderr)
    print(secret)


@tokens.command("list")
def list_tokens(store: Store) -> None:
    """List the tokens: names, rights, limits, when they were created."""
    _ensure_tokens(store)
    for token in Tokens(store).all().values():
        limits = [f"{name} {value:g}" for name, value in asdict(token.limits).items() if value is not None]
        print("\t".join([token.name, ",".join(token.rights), " ".join(limits) or "no limits", token.created]))


@tokens.command("revoke")
def revoke_token(store: Store, name: Annotated[str, typer.Argument(help="The token's name.")]) -> None:
    """Revoke a token. Without any left, nobody is let in until there is a new one."""
    _ensure_tokens(store)
    Tokens(store).revoke(name)
    Audit(store).note("command line", f"revoke token {name}", "done")


# What the commands share


def _reading(store: Path, default_graph: DefaultGraph | None) -> sparqlive.Session:
    """A session for one command that changes nothing."""
    return reading(store, default_graph=_value(default_graph))


def _writing(
    store: Path, default_graph: DefaultGraph | None, *, creates: bool = True, runs: str | None = None
) -> AbstractContextManager[sparqlive.Session]:
    """A session for one command that changes something: the store's sources are watched by run and serve."""
    graph = _value(default_graph)
    opened = partial(sparqlive.open, store, default_graph=graph, watch=False, runs=runs)
    return writing(store, opened, creates=creates)


def _value(default_graph: DefaultGraph | None) -> Any:
    return None if default_graph is None else default_graph.value


def _ensure_tokens(store: Path) -> None:
    """Tokens can be there before the store is: an agent that others reach begins with them."""
    if not os.path.exists(store / TOKENS):
        ensure_store(store)


def _source_option(given: str) -> tuple[str, Any]:
    """NAME=VALUE: a value of JSON, or text as it is; a query may stand in a file."""
    name, sign, value = given.partition("=")
    if not sign:
        raise sparqlive.Error(f"An option is NAME=VALUE, not {given!r}.")
    if name == "query":
        return name, _query_text(value)
    try:
        return name, json_module.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _lag(given: str) -> Any:
    """The refresh setting that a flag gives."""
    refresh: str | float = given
    with suppress(ValueError):
        refresh = float(given)
    check_refresh(refresh, "--refresh")
    return refresh


def _query_text(given: str) -> str:
    """SPARQL text has a brace; anything else is the name of a file."""
    if given == "-":
        return sys.stdin.read()
    if "{" in given:
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise sparqlive.Error(f"{given} is neither a query nor a file that can be read: {error}.") from error


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise sparqlive.Error(f"{file} cannot be read: {error}.") from error


def _applied(
    session: sparqlive.Session, files: Iterable[str], strategy: Strategy
) -> Iterator[tuple[str, Epoch, float]]:
    """Applies the batches of files; those that change nothing are left out."""
    for file in files:
        for batch in _batches(file):
            start = time.perf_counter()
            epoch = session.apply(insert=batch.insert, delete=batch.delete, strategy=strategy.value)
            if epoch.inserted or epoch.deleted:
                yield file, epoch, time.perf_counter() - start


def _batches(file: str) -> Iterator[Batch]:
    if file == "-":
        return parse_changes(sys.stdin.buffer, "standard-input.changes")
    return read_changes(file)


def _list_views(views: Mapping[str, View]) -> None:
    for name, kept in views.items():
        stats = kept.stats()
        print(f"{name}\t{stats['rows']:,} rows\tepoch {stats['last_epoch']}\t{stats['failure'] or 'kept'}")


def _write(result: View | Answer, output: Format | None) -> None:
    on_terminal = Format.table if sys.stdout.isatty() else Format.tsv
    chosen = output or (Format.nt if result.form in GRAPH_FORMS else on_terminal)
    if chosen is not Format.table:
        sys.stdout.write(result.serialize(chosen.value))
    elif result.form == "ASK":
        print("true" if result.answer() else "false")
    else:
        _write_table(result)


def _write_table(result: View | Answer) -> None:
    table = Table(*(f"?{name}" for name in result.variables))
    solutions = result.solutions()
    for solution in solutions:
        table.add_row(*(tsv_term(solution.get(name)) for name in result.variables))
    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print(f"{len(solutions):,} solutions")


def _signed_row(row: Sequence[Any], weight: int) -> str:
    return "\t".join([f"{weight:+d}", *map(tsv_term, row)])


def _print_delta(variables: Sequence[str], delta: Delta | Followed, as_json: bool) -> None:
    weights = delta.weights()
    if as_json:
        sys.stdout.write(json_delta(delta.epoch, delta.reset, variables, weights))
    else:
        print(f"@ epoch {delta.epoch}{', the whole content' if delta.reset else ''}")
        for row, weight in weights.items():
            print(_signed_row(row, weight))
    sys.stdout.flush()


# The program


def reference() -> str:
    """The text of docs/CLI.md: what --help says, for each command."""
    command = typer.main.get_command(app)
    parts = [
        "# The command line\n\n"
        "Written from `sparqlive --help` by `python -m sparqlive.cli.main --write-docs`; "
        "a test fails when it differs.\n\n" + _help(command, "sparqlive", None)
    ]
    context = command.make_context("sparqlive", [], resilient_parsing=True)
    for name, sub in cast("Any", command).commands.items():
        parts.append(f"## sparqlive {name}\n\n" + _help(sub, name, context))
        inner = sub.make_context(name, [], parent=context, resilient_parsing=True)
        for below, command_below in getattr(sub, "commands", {}).items():
            parts.append(f"## sparqlive {name} {below}\n\n" + _help(command_below, below, inner))
    return "\n".join(parts)


def _help(command: Any, name: str, parent: Any) -> str:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True, terminal_width=100)
    text = "\n".join(line.rstrip() for line in command.get_help(context).strip().splitlines())
    return f"```text\n{text}\n```\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the program; the exit code is 1 after an error, 2 after a wrong command."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--write-docs"]:
        Path("docs/CLI.md").write_text(reference(), encoding="utf-8")
        return
    try:
        app(given)
    except sparqlive.StoreLocked as error:
        _fail(str(locked(error)), sys.stderr)
    except sparqlive.Error as error:
        _fail(str(error), sys.stderr)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has gone
    except Exception as error:
        if os.environ.get("SPARQLIVE_DEBUG"):
            raise
        first = str(error).strip().partition("\n")[0]
        _fail(f"{type(error).__name__}: {first} (SPARQLIVE_DEBUG=1 shows where.)", sys.stderr)


def _fail(sentence: str, stream: TextIO) -> None:
    print(f"sparqlive: {' '.join(sentence.split())}", file=stream)
    sys.exit(1)


if __name__ == "__main__":
    main()
