# The verbs of this project. Each one makes the virtual environment it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP     = $(BIN)/python -m pip --disable-pip-version-check --quiet
ONLY   ?=
COUNT  ?=
SEED   ?=
WORKERS ?= 2
# Programmes of `make torture` beside each other: 0 for one after the other, as those that measure time want it.
JOBS ?= 0
# The public names, what they hand out, and the types that travel.
DOCUMENTED := sapwood $(addprefix sapwood.,runtime.session runtime.scope templates.registry core.artifacts core.events core.tree core.seal core.reconstruct core.findings)

.PHONY: demo test check format torture bench docs lock clean

demo: $(VENV)/.run
	$(BIN)/sapwood demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

torture: $(VENV)/.dev
	SAPWOOD_TORTURE=full SAPWOOD_TORTURE_COUNT=$(COUNT) SAPWOOD_TORTURE_SEED=$(SEED) \
	  $(BIN)/python -m pytest -m torture -p no:randomly -n $(JOBS) $(if $(ONLY),-k '$(ONLY)')

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(ONLY)

# The warning left out is about the fields of named tuples, which pdoc then shows as they are written.
docs: $(VENV)/.dev
	$(BIN)/python -W "ignore:Error parsing type annotation" -m pdoc --output-directory build/docs $(DOCUMENTED)

# Lock files name no hosts; run this after a change to the dependencies.
lock:
	$(PYTHON) -m venv build/lock && build/lock/bin/pip --quiet install uv
	UV="build/lock/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet" && \
	  $$UV pyproject.toml --group build -o requirements/run.txt && \
	  $$UV pyproject.toml --all-extras --group build --group dev -c requirements/run.txt -o requirements/dev.txt

$(VENV)/.run: requirements/run.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --no-deps --require-hashes --requirement requirements/run.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	$(PIP) install --no-deps --require-hashes --requirement requirements/dev.txt
	$(BIN)/python -m pip check
	touch $@

clean:
	rm -rf $(VENV) build dist torture-results .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
