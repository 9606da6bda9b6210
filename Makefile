# Two commands on a fresh machine: `make demo` runs the main job, `make test` passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= test
# What Jinja's compiler makes of the templates: with an empty cache, a third of the first compilation.
PREPARE := $(BIN)/python -m luminal.runtimes.prepare && $(BIN)/python -m compileall -q runtimes/.prepared
# A compiler from PyPI only where there is neither clang nor gcc.
CC_FOUND := $(shell for c in clang gcc $$(ls /usr/bin 2>/dev/null | grep -E '^(clang|gcc)-[0-9]+$$'); do command -v $$c; done 2>/dev/null | head -1)
CC_EXTRA := $(if $(CC_FOUND),,cc)
comma := ,
# The modules in which passes spend their time, compiled ahead of time (once; a minute at most): passes take three fifths of the time.  Where that cannot be, and after an edit to one of them, the sources run.
CORE := ($(BIN)/python -c 'import mypyc' 2>/dev/null || $(BIN)/python -m pip install -q -e '.[fast]') && $(BIN)/python -m luminal.compile_core || echo "the passes run from their sources"

.PHONY: demo test check fast bench chart sizes bless docs tables reports clean

demo: $(VENV)/demo
	@echo; echo "== the C that samples/gemm.toml becomes (its first lines)"
	@$(BIN)/luminal compile samples/gemm.toml --runtime clang --emit source | sed -n '1,60p'
	@echo; echo "== built, run, and compared with the reference"
	$(BIN)/luminal compile samples/gemm.toml --runtime clang --test "M=100, N=100, K=100"
	@echo; echo "== the passes compiled ahead of time, for what is compiled from now on"
	@$(MAKE) --no-print-directory fast

test: $(VENV)/test
	@$(CORE)
	$(BIN)/python -m pytest -q -n 2 $(ARGS)

check: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	@$(CORE)
	$(BIN)/python -m pytest -q -n 2 -W error

fast: $(VENV)/demo
	@$(CORE)

# Beside NumPy, and PyTorch where that is installed (.venv/bin/pip install torch).  BENCH="--only gemm --blocks 3" for less.
bench: $(VENV)/demo
	$(BIN)/python -m luminal.bench --out bench/results $(BENCH)

# docs/bench.svg from the newest results that are kept
chart: $(VENV)/demo
	$(BIN)/python -m luminal.bench.chart -o docs/bench.svg

bless: $(VENV)/test
	$(BIN)/python -m pytest -q --bless tests

# The page of the library, from the library, and that of the schedules, from the steps.
docs: $(VENV)/demo
	LUMINAL_PURE=1 $(BIN)/python -m luminal.cli.library_page > docs/ops.md
	LUMINAL_PURE=1 $(BIN)/python -m luminal.cli.schedule_page > docs/schedules.md

# The tables of the S-expression parser, from its grammar.
tables: $(VENV)/demo
	$(BIN)/python -m luminal.dsl.grammar.make > dsl/grammar/tables.new && mv dsl/grammar/tables.new dsl/grammar/tables.py

# What each runtime computes right, in minutes; `make report-clang FULL_clang=` leaves out no dtype or layout and takes about an hour.  --resume goes on where an interrupted run was.
JOBS ?= 2
REPORTS ?= clang reference cuda
FULL_clang := --quick
FULL_reference := --quick
FULL_cuda := --quick --device host
reports: $(VENV)/demo
	s=0; for r in $(REPORTS); do $(MAKE) report-$$r || s=1; done; exit $$s

report-%: $(VENV)/demo
	$(BIN)/luminal test-runtime --runtime $* $(FULL_$*) -j $(JOBS) --resume -o runtimes/$*/REPORT.md

sizes:
	@git ls-files '*.py' | xargs wc -l | sort -rn | head -20

clean:
	rm -rf $(VENV) build *.egg-info runtimes/.prepared .compiled

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	@# where Python is told to write none (PYTHONDONTWRITEBYTECODE, as container images do), every command would compile all that it imports
	$(BIN)/python -m compileall -q -x '/\.' .

$(VENV)/demo: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -q -e '.$(if $(CC_EXTRA),[$(CC_EXTRA)],)'
	$(PREPARE)
	@touch $@

$(VENV)/test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -q -e '.[$(EXTRAS)$(if $(CC_EXTRA),$(comma)$(CC_EXTRA),)]'
	$(PREPARE)
	@touch $@

$(VENV)/dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -q -e '.[dev$(if $(CC_EXTRA),$(comma)$(CC_EXTRA),)]'
	$(PREPARE)
	@touch $@
