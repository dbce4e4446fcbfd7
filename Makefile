# `make` lists what there is. Everything runs in a virtual environment of its own, set up on first use.

VENV   ?= .venv
JOBS   ?= 3
ARGS   ?=
DATA   ?=
STACK  ?=
SEEDS  ?= 2000
ROUNDS ?= 10
EXTRAS ?= local
WEIGHTS ?=

# The first Python of at least 3.11; `make PYTHON=...` names another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)

# A stamp's name holds a checksum of what the environment was made from, and of where it stands.
SUM   := $(shell { cat pyproject.toml packages/minilm/*.* ; echo "$(PYTHON)"; pwd; } | cksum | cut -d' ' -f1)
READY := $(VENV)/ready-to-run-$(SUM)
DEV   := $(VENV)/ready-to-develop-$(SUM)
BIN   := $(VENV)/bin
MODEL := $(VENV)/wheels-$(SUM)
PIP   := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

# uv takes a sixth of the time that pip takes. It reads no settings of pip: where it finds no index, pip installs.
INSTALL := sh -c '$(BIN)/uv pip install --quiet --system-certs --python $(BIN)/python "$$@" 2>/dev/null || $(PIP) "$$@"' install

# Where `make install` puts agentmem: what the caller named, or the environment that is active.
TARGET := $(if $(filter command,$(origin VENV)),$(VENV),$(VIRTUAL_ENV))

# Compiled code is kept in the environment, whatever the shell says: the tests start a thousand processes.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/pycache
# Plugins of pytest that other packages bring take two seconds of every process.
export PYTEST_ADDOPTS := -p no:langsmith_plugin -p no:schemathesis

SOURCES := pyproject.toml $(shell find agentmem packages schema tests workers docs/examples -type f -not -name '*.pyc' -not -name '.*' 2>/dev/null)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo picture install wheels release serve test test-unit nightly lint gate-types gate-shape gate-wheel format check bench bench-extraction bench-servers faults soak simulate clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1|/' | while IFS='|' read -r name what; do \
		printf '  make %-16s %s\n' "$$name" "$$what"; done

demo: $(if $(filter servers,$(STACK)),$(DEV),$(READY)) ## tell a story of one memory; ARGS=--long: a whole conversation; DATA=path: one of yours; STACK=servers: real servers
	@$(if $(filter servers,$(STACK)),$(BIN)/python -m tests.servers demo,$(BIN)/python -m docs.examples.demo) $(if $(DATA),--data "$(DATA)") $(ARGS)

install: ## install agentmem into the active environment, or into that of VENV=path; EXTRAS=local,mcp names the extras
	@test -n "$(TARGET)" || { echo "activate an environment, or name one: make install VENV=path" >&2; exit 1; }
	@$(MAKE) --no-print-directory wheels VENV=.venv
	@test -e "$(TARGET)/bin/python" || "$(PYTHON)" -m venv "$(TARGET)"
	"$(TARGET)/bin/python" -m pip install --quiet --disable-pip-version-check --find-links dist "$$(ls dist/agentmem_graph-*.whl)[$(EXTRAS)]"
	@echo "installed: $(TARGET)/bin/agentmem"

wheels: $(READY) ## put the wheels agentmem-graph and agentmem-minilm into dist; WEIGHTS=folder holds the model where no index has it
	@rm -rf dist && mkdir dist && cp $(MODEL)/*.whl dist
	@$(BIN)/python -m hatchling build --directory dist
	@ls dist

release: wheels ## check what a publisher needs, and publish nothing: metadata, licenses, the model; writes dist/sbom.cdx.json
	@rm -rf build/release && "$(PYTHON)" -m venv build/release/tools && "$(PYTHON)" -m venv build/release/installed
	@build/release/tools/bin/python -m pip install --quiet --disable-pip-version-check 'twine>=6,<7' 'cyclonedx-bom>=7,<8'
	build/release/tools/bin/twine check --strict dist/*.whl dist/*.tar.gz
	$(BIN)/python -m packages.check_release dist
	build/release/installed/bin/python -m pip install --quiet --disable-pip-version-check --find-links dist 'agentmem-graph[local]'
	build/release/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --output-file dist/sbom.cdx.json build/release/installed/bin/python

picture: $(DEV) ## draw the picture of the README from what the demo prints
	$(BIN)/python -m docs.examples.picture docs/pictures/demo.svg

serve: $(DEV) ## serve the demo's conversation over REST and MCP on a free port, and print a question to ask
	@$(BIN)/python -m docs.examples.serve $(ARGS)

test: $(DEV) ## run all tests; ARGS="tests/unit -k words" runs some, without measuring coverage
ifeq ($(strip $(ARGS)),)
	$(run-tests)
else
	$(BIN)/python -m pytest $(ARGS)
endif

test-unit: $(DEV) ## tests of single modules, without servers and programs; takes less than a minute
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/unit $(ARGS)

nightly: $(DEV) ## the random histories, simulations and long runs of `make test`, with every seed and example
	@$(INSTALL) 'agentmem-graph[nightly]'
	AGENTMEM_TEST_SCALE=nightly $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "(long or nightly) and not alone" --durations=20 tests
	AGENTMEM_TEST_SCALE=nightly $(BIN)/python -m pytest -n 2 --dist worksteal -m alone --durations=20 tests/faults

lint: $(DEV) .coverage ## format, lint, types, layers, sizes, dead code, coverage floor, the wheel in an empty environment
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory -j2 --output-sync=target gate-wheel gate-types gate-shape

gate-types:
	$(BIN)/mypy agentmem $(wildcard workers)
	$(BIN)/lint-imports --no-logo

gate-shape:
	$(BIN)/python -m pytest -q tests/gates/test_shape.py
	$(BIN)/python tests/gates/dead_code.py
	$(BIN)/coverage report

gate-wheel:
	$(BIN)/python -m pytest -q -m "not nightly" tests/gates --ignore=tests/gates/test_shape.py

format: $(DEV) ## put the code into its standard form
	$(BIN)/ruff check --fix-only --exit-zero .
	$(BIN)/ruff format .

check: ## test, then lint: what a change must pass
	@$(MAKE) --no-print-directory test ARGS=
	@$(MAKE) --no-print-directory lint

bench: $(DEV) ## measure recall and latency; ARGS="--help" lists the options
	$(BIN)/python -m tests.benchmarks $(ARGS)

bench-servers: $(DEV) ## measure recall, writes and the projector on real servers; takes half an hour
	$(BIN)/python -m tests.benchmarks.servers $(ARGS)

bench-extraction: $(DEV) ## the cases of extraction; DATA=path: the rules on its hand-checked facts too
	$(BIN)/python -m tests.benchmarks extraction
	$(BIN)/python -m tests.benchmarks rules
	$(if $(DATA),$(BIN)/python -m tests.benchmarks.rules "$(DATA)")

faults: $(DEV) ## kill, pause and cut off each server at each step of a write, ROUNDS=10 times
	$(BIN)/python -m tests.faults.servers --rounds $(ROUNDS) $(ARGS)

soak: $(DEV) ## a worker beside two agents for ten minutes, killed five times; ARGS="--seconds 60"
	$(BIN)/python -m tests.faults.soak $(ARGS)

simulate: $(DEV) ## run the fault simulation over SEEDS=2000 seeds
	$(BIN)/python -m tests.faults.simulate --seeds $(SEEDS) $(ARGS)

clean: ## remove what was built and measured; the virtual environment stays
	rm -rf build dist .coverage .coverage.* htmlcov .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# The tests leave .coverage behind only when they pass, and `lint` reads it: nothing runs twice, and stale figures never count.
define run-tests
@rm -f .coverage .coverage.*
$(BIN)/coverage run -m pytest -n $(JOBS) --dist worksteal -m "not alone and not nightly" --ignore=tests/gates --durations=5 --durations-min=3 tests
$(BIN)/python -m pytest -n 3 --dist worksteal -m alone --durations=5 tests/faults
@$(BIN)/coverage combine --quiet
endef

.coverage: $(SOURCES) | $(DEV)
	@echo "no coverage figures for the code as it is now: running the tests first"
	$(run-tests)

# The pip that Python brings along takes twice as long to choose among the files of an index as a new one.
define new-environment
@test -n "$(PYTHON)" || { echo "agentmem needs Python 3.11 or newer; name one with make PYTHON=..." >&2; exit 1; }
@test -e $(READY) || { echo "setting up $(VENV) with $(PYTHON); the first time takes a minute or two"; \
	rm -f $(VENV)/ready-to-*; "$(PYTHON)" -m venv $(VENV) && $(PIP) --upgrade pip 'uv>=0.9,<1'; }
endef

# The wheel with the sentence embedder is made from this checkout, so that the index is never asked for one. Without
# isolation, because pip would make an environment for hatchling each time. From 1.30 on hatchling writes metadata 2.5,
# which twine 6 refuses.
define install-model
@test -e $(MODEL) || { echo "building the sentence embedder from its published weights"; \
	$(INSTALL) 'hatchling>=1.25,<1.30' editables onnx onnxruntime pydantic tokenizers && \
	$(BIN)/python -m packages.minilm.build_wheel --out $(MODEL).new $(if $(WEIGHTS),--weights "$(WEIGHTS)") && mv $(MODEL).new $(MODEL); }
$(PIP) --force-reinstall --no-deps --no-build-isolation $(MODEL)/*.whl --editable .
endef

$(READY):
	$(new-environment)
	$(install-model)
	@$(INSTALL) 'agentmem-graph[local,openai]'
	@touch $@

# Everything in one go where nothing is there yet: each round of pip takes half a minute.
$(DEV): | $(if $(filter demo,$(MAKECMDGOALS)),$(READY))
	$(new-environment)
	$(install-model)
	@$(INSTALL) 'agentmem-graph[all,dev]'
	@touch $(READY) $@
