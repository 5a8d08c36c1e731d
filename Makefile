# Each recipe sets up what it needs: a virtual environment in .venv with the versions of
# constraints.txt, made anew when pyproject.toml or constraints.txt changes.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
BENCHMARKS := $(sort $(wildcard benchmarks/bench_*.py))

.PHONY: train test unit flaky mutants floors newest extras chaos mac-kit lint types layers package notes bench format docs docs-pages docs-site docs-check clean
.DEFAULT_GOAL := test

# Train the demo: makes a synthetic set, trains a GRU on it, prints recall before and after.
# Eighteen seconds on two idle cores. Options: make train ARGS="--seed 1 --tower lstm"
train: $(STAMP)
	$(BIN)/ttf train $(ARGS)

# Everything CI runs: the suite, on four processes, which often wait for others (six on two
# cores); beside it lint, types and layers, whose words come at the end.
# One file: make test ARGS=tests/system/commands
test: $(STAMP)
	@said=$$(mktemp); trap 'rm -f "$$said"' EXIT INT; \
	$(MAKE) --no-print-directory --keep-going lint types layers >"$$said" 2>&1 & checks=$$!; \
	$(BIN)/pytest -n 4 --dist worksteal $(ARGS); suite=$$?; \
	wait $$checks; checks=$$?; cat "$$said"; \
	test $$suite -eq 0 -a $$checks -eq 0

# What one runs while working: the tests that start no process, in a minute.
unit: $(STAMP)
	$(BIN)/pytest -n 2 --dist worksteal tests/unit $(ARGS)

# The tests of what changed since a commit, many times beside two busy processes and one that writes
# to the disk; says which failed how often: make flaky BASE=main N=10
BASE ?= main
N ?= 10
flaky: $(STAMP)
	$(BIN)/python tests/flaky.py $(BASE) --times $(N)

# Forty small mistakes, put into the code one at a time: does a test notice? An hour.
mutants: $(STAMP)
	$(BIN)/python tests/mutants.py --seed 14 $(ARGS)

# The suite with the lowest, or the newest, version of every dependency that pyproject.toml allows, in
# an environment of its own; torch stays as in constraints.txt (TTF_TORCH=2.10.0: another one).
floors:
	.ci/dependency-ends lowest $(ARGS)
newest:
	.ci/dependency-ends newest $(ARGS)

# The tests of encoders, exporters, servers and trackers with the real libraries, which are extras: an
# environment of its own, a gigabyte.
extras:
	.ci/extras $(ARGS)

# Real faults against real runs: hundreds of deaths, hangs, full disks; each run must end with the
# weights of an undisturbed one. Half an hour on two quiet cores, best as root (mounts, limits); the
# table goes into docs/reliability.md. Six minutes: make chaos ARGS=--quick
# One fault: make chaos ARGS="--only trainer-death --seed 7". An hour's soak: ARGS="--soak 60"
chaos: $(STAMP)
	$(BIN)/python -m chaos $(ARGS)

# What a Mac can tell about MPS, in one file to send: runs/mac-kit/kit.zip (examples/founding/README.md).
# Half an hour; without a Metal device on the CPU, which says nothing about MPS.
mac-kit: $(STAMP)
	$(BIN)/python examples/founding/mac_kit.py $(ARGS)

# Style, likely bugs and spelling; changes nothing.
lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell core plugins chaos docs examples twotower-guard *.md Makefile

# mypy --strict over core, plugins, tests, benchmarks and chaos.
types: $(STAMP)
	$(BIN)/mypy

# The core imports no plugin, plugin kinds do not import one another.
layers: $(STAMP)
	$(BIN)/lint-imports

# The sdist and the wheel, each installed into an environment of its own, where it trains; the wheel
# of twotower-guard, where it explains a crash.
package: $(STAMP)
	.ci/package

# The next release's notes, from the pieces in changes/; with VERSION=x.y.z they go into CHANGELOG.md.
notes: $(STAMP)
	$(BIN)/towncrier build $(if $(VERSION),--yes --version $(VERSION),--draft --version next)

# All benchmarks, one after another; takes as long as their headers say.
bench: $(STAMP)
	set -e; for file in $(BENCHMARKS); do echo "== $$file"; $(BIN)/python "$$file"; done

# Rewrite files to the house style, with safe fixes.
format: $(STAMP)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# The generated pages, then the site: build/site/index.html, to be opened as a file.
docs: docs-pages docs-site

# docs/cli.md from the commands' own help, docs/configuration.md from the keys, docs/crashes/README.md
# from the pages of the classes, docs/reference/*.rst and what the plugin API promises from its names.
docs-pages: $(STAMP)
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_configuration.py
	$(BIN)/python docs/make_crashes.py
	$(BIN)/python docs/make_plugin_api.py
	$(BIN)/python docs/make_api.py

# The site by Sphinx; a warning, such as a link that leads nowhere, is an error. Links that leave the
# site are listed in build/site/external-links.txt.
docs-site: $(STAMP).docs
	$(BIN)/python -m sphinx -c docs -d build/doctrees . build/site -E -a --keep-going -W -q

# Every command and code block of the pages, run in an empty folder; what is skipped says why.
# One page: make docs-check ARGS=docs/python.md
docs-check: $(STAMP)
	$(BIN)/python docs/check_blocks.py $(ARGS)

# Remove the environment and every cache; runs/ stays.
clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache
	find core plugins tests -name __pycache__ -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"Python 3.11 or later is needed, $(PYTHON) is {v[0]}.{v[1]}: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@echo "Installing the versions of constraints.txt into .venv ..."
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[all]" --group dev || { \
	  echo "The installation failed. If hnswlib did not build: it is compiled on your machine and" >&2; \
	  echo "needs a C++ compiler and Python's headers. Debian, Ubuntu: apt-get install g++ python3-dev;" >&2; \
	  echo "Fedora: dnf install gcc-c++ python3-devel; macOS: xcode-select --install." >&2; exit 1; }
	@touch $@

$(STAMP).docs: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt --group docs
	@touch $@
