# One virtual environment for the whole workspace. Every target installs first; a second run costs nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DISTRIBUTIONS := core plugins/context_legacy plugins/memory_core
PROJECTS := $(addsuffix /pyproject.toml,$(DISTRIBUTIONS))
TESTS ?=

.PHONY: install demo test test-slow check format clean

install: $(STAMP)

$(STAMP): $(PROJECTS) constraints.txt dev-requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--requirement dev-requirements.txt $(addprefix --editable ./,$(DISTRIBUTIONS))
	touch $(STAMP)

demo: install
	$(BIN)/python -m examples.demo

test: install
	$(BIN)/python -m pytest -m "not slow" $(TESTS)

test-slow: install
	$(BIN)/python -m pytest -m slow $(TESTS) || [ $$? -eq 5 ]

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
