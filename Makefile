# Two commands do everything: `make demo` and `make test`. Each sets up .venv when it is missing or stale, with what it needs itself.
PYTHON ?= python3
TESTERS ?= 3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.ready-dev

# Compiled modules make every process start faster: no test starts without them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup dev browser demo quick test soak lint bench peers docs pictures proto device-wheel clean
# What every command of FedFleet needs; what tests, checks and the site need as well.
setup: $(READY)
dev: $(DEV)
$(READY): EXTRA := all
$(DEV): EXTRA := dev

# Stale means: the declared dependencies are newer than the last successful installation.
# pip would compile modules one after the other; templates of some packages cannot be compiled, and nobody imports them.
$(READY) $(DEV): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e ".[$(EXTRA)]"
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib fedfleet || true
	@touch $(READY) $@

demo: setup
	@$(BIN)/fedfleet demo --out demo

# Pages are looked at in a browser; where none can be had, those tests say why they are skipped.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { echo "installing chromium for the tests of pages"; \
	  { apt-get update && apt-get install -y --no-install-recommends chromium; } >/dev/null 2>&1 || echo "no chromium here: the tests of pages will be skipped"; }

# What is not marked slow: most modules have a test in it. About a minute.
quick: dev
	@$(BIN)/python -m pytest -n 2 --dist worksteal --quick

# Three processes on two cores: more than a quarter of the time of tests is waiting for servers, devices and kills. At the end the tests
# that took most processor time are listed. TESTERS=2 for a machine with little memory.
test: dev browser
	@$(BIN)/python -m pytest -n $(TESTERS) --dist worksteal

# Proofs that take long: kills at many moments, thousands of worlds, the whole matrix of passes.
soak: dev
	@FEDFLEET_SOAK=1 $(BIN)/python -m pytest -n 2 --dist worksteal tests/soak
	@FEDFLEET_SOAK=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m soak tests

lint: dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/pyright

bench: setup
	@$(BIN)/python -m benchmarks.engine
	@$(BIN)/python -m benchmarks.startup

# Other simulators on the same work; they live in an environment of their own, never among our dependencies.
# PEERS="--tasks mlp --json" narrows it down.
.venv-peers/.ready: benchmarks/peers/requirements.txt
	@test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	@echo "setting up .venv-peers (a minute or two the first time)"
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers/requirements.txt
	@touch .venv-peers/.ready

peers: setup .venv-peers/.ready
	@$(BIN)/python -m benchmarks.peers $(PEERS)

# The reference pages that are made from the code itself, then the whole site, into site/: no network is needed.
docs: dev
	@$(BIN)/python -m docs.make_reference
	@$(BIN)/python -m sphinx -q -W -c docs -b html . site
	@$(BIN)/jupytext --quiet --to ipynb -o site/notebook.ipynb examples/notebook.py

# The pictures of README, tutorial and gallery, from pages that are made for them.
pictures: dev browser
	@$(BIN)/python -m docs.take_pictures

# The wheel of small devices, into dist/: the modules that a device imports, without PyTorch.
device-wheel: setup
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist packaging/device

# Only after a file of proto/ changed; a test says so when it was forgotten.
proto: dev
	@$(BIN)/python -m grpc_tools.protoc -I fedfleet/network/protocol=proto --python_out=. --pyi_out=. proto/fleet.proto proto/inside.proto

clean:
	@rm -rf $(VENV) demo build dist site *.egg-info
