# `make demo` and `make test` work from a fresh clone: whatever they need, they set up first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: .venv demo test check bench clean

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

bench: .venv
	$(BIN)/sfl bench

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
