# Two commands are all a newcomer needs: `make demo` and `make test`.
# Each makes what it needs first; a second call finds it made.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test check format lock clean

demo: $(VENV)/.runtime
	$(BIN)/roost demo

# Half of a test's time is waiting for the processes that it starts.
TESTS_AT_ONCE ?= $(shell echo $$(( ($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2 )))

# The tests start hundreds of interpreters: none of them is to compile roost again, whatever the
# environment says of bytecode.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.dev judge panel-tools
	$(BIN)/python -m pytest --numprocesses=$(TESTS_AT_ONCE) --dist=worksteal --durations=15

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What roost needs to run, exactly as locked.
$(VENV)/.runtime: requirements/runtime.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "roost needs Python 3.11 or newer; this is $$($(PYTHON) --version). Name another one: make PYTHON=python3.12 demo" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing roost into $(VENV) (once) ..."
	@$(PIP) install --require-hashes -r requirements/runtime.txt
	@$(PIP) install --no-deps --editable .
	@touch $@

# What its developers need on top.
$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	@echo "Installing the development tools into $(VENV) (once) ..."
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

# The independent AG-UI verifier, where node 20 or newer is. Without it those tests skip, loudly.
# The same for what builds and checks the panel: its built files are in the repository.
.PHONY: judge panel-tools panel
judge: NODE_FOLDER = tests/judge
panel-tools: NODE_FOLDER = panel
judge panel-tools:
	@if command -v npm >/dev/null && [ "$$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)" -ge 20 ]; then \
	  if [ $(NODE_FOLDER)/.installed -ot $(NODE_FOLDER)/package-lock.json ] || [ ! -d $(NODE_FOLDER)/node_modules ]; then \
	    (cd $(NODE_FOLDER) && npm ci --silent --no-audit --no-fund) && touch $(NODE_FOLDER)/.installed; fi; \
	else echo "node 20 or newer is not here: the tests that need $(NODE_FOLDER) will be skipped"; fi

# Build the panel's page from its sources into the package.
panel: panel-tools
	cd panel && npm run --silent check && npm run --silent build

# Renew the locks after a change of pyproject.toml (needs uv).
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate pyproject.toml -o requirements/runtime.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate --group dev pyproject.toml -c requirements/runtime.txt -o requirements/dev.txt

clean:
	rm -rf $(VENV) tests/judge/node_modules tests/judge/.installed panel/node_modules panel/.installed
