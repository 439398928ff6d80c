# Two commands do everything: `make demo` and `make test`. Each sets up .venv when it is missing or stale.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test lint bench docs proto clean
setup: $(READY)

# Stale means: the declared dependencies are newer than the last successful installation.
$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $(READY)

demo: setup
	@$(BIN)/fedfleet demo --out demo

test: setup
	@$(BIN)/python -m pytest -n 2 --dist worksteal --ignore tests/run/executors/test_ray.py
	@$(BIN)/python -m pytest tests/run/executors/test_ray.py  # alone: a cluster of its own needs both cores

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/pyright

bench: setup
	@$(BIN)/python -m benchmarks.engine
	@$(BIN)/python -m benchmarks.startup

# The reference pages that are made from the code itself.
docs: setup
	@$(BIN)/python -m docs.make_reference

# Only after proto/fleet.proto changed.
proto: setup
	@$(BIN)/python -m grpc_tools.protoc -I fedfleet/run/wire=proto --python_out=. --grpc_python_out=. --pyi_out=. proto/fleet.proto

clean:
	@rm -rf $(VENV) demo build dist *.egg-info
