# Two commands are all the set-up there is: `make demo` and `make test`. Each makes .venv when it is missing or stale.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint docs format bench mutants torture licences clean

.venv/ready: pyproject.toml constraints.txt
	@echo "Setting up .venv (once; torch is a large download) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	@$(BIN)/uv pip install --python $(BIN)/python -c constraints.txt -e '.[dev]'
	@touch $@

demo: .venv/ready  ## every solver on a known answer; then learn four steps for fashion-dit: tables, pictures
	@$(BIN)/python scripts/demo.py
	@$(BIN)/python scripts/demo_fashion.py

test: .venv/ready  ## the tests, doctests included
	@$(BIN)/python -m pytest

lint: .venv/ready  ## ruff (lint and format) and mypy --strict
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

docs: .venv/ready  ## build the documentation into site/; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: .venv/ready
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: .venv/ready  ## what all of it costs, into docs/measured/bench.md; PARTS="steps startup" does some of it
	@$(BIN)/python scripts/bench $(PARTS)

mutants: .venv/ready  ## change one symbol at a time in the solvers; the fast tests must notice
	@$(BIN)/python scripts/mutants.py

torture: .venv/ready  ## kills, faults, mutated files, determinism; the table goes to docs/measured (hours)
	@$(BIN)/python scripts/torture/torture.py

licences: .venv/ready  ## what is installed and what is shipped, with licences and pins
	@$(BIN)/python scripts/licences.py

clean:
	rm -rf .venv build dist site .mypy_cache .pytest_cache .ruff_cache
