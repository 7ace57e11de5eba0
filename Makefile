# `make demo` and `make test` work from a fresh clone: whatever they need, they set up first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: .venv demo test check docs bench siege clean

.venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -c constraints.txt -e '.[dev,cluster,studio]'
	touch $@

demo: .venv
	$(BIN)/sfl demo

test: .venv
	$(BIN)/python -m pytest -q -n auto --dist loadscope

check: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The documentation as a site, in build/site
docs: .venv
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# WHAT: minigrid, graph, encoders, doom, studio or all; ARGS: options such as --out FILE.csv
bench: .venv
	$(BIN)/python -m benchmarks.bench $(or $(WHAT),all) $(ARGS)

# SEED, CASES: as many cases as you like, from any seed on; KILLS=1000: kills alone, which go on where they were stopped
siege: .venv
ifdef KILLS
	$(BIN)/python -m benchmarks.siege.kills --kills $(KILLS)
else
	$(BIN)/python -m benchmarks.siege --seed $(or $(SEED),0) --cases $(or $(CASES),7000) --out benchmarks/results/siege.csv
endif

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
