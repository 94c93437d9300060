# Needs Python 3.10 or newer with venv, a C compiler and make, and for the tests a C++ compiler;
# `make help` lists the targets.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(VENV)/.stamp-run
DEV    := $(VENV)/.stamp-dev
# Bytecode of what is imported is made when it is: that of all packages takes half a minute.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

# Many tests start Python. Who wants no bytecode beside the sources has it in $(VENV).
ifneq ($(PYTHONDONTWRITEBYTECODE),)
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode
endif

.DEFAULT_GOAL := help
.PHONY: help demo test fuzz bench bench-general bench-peers bench-scale bench-tuner lint clean compiler cxx python

help:
	@echo "make demo    tune a kernel on this machine and compare it with the unscheduled program"
	@echo "make test    run the tests"
	@echo "make fuzz    random schedules against their meaning: SEED=, COUNT=, SECONDS=, SANITIZE=1,"
	@echo "            ORDERS=1 for kernels whose threads take turns, in any order: who does not wait is found,"
	@echo "            NETWORKS=1 for what rules and search make of random networks of operators,"
	@echo "            INVENTED=1 for the same of random tensor expressions,"
	@echo "            SMALL=1 for both on machines so small that small programs are treated as large,"
	@echo "            ODD=1 for requests with any arguments,"
	@echo "            DATABASES=1 for tuning databases with random damage,"
	@echo "            KILLS=1 for searches that are killed at random moments and begun again,"
	@echo "            TE=1 for requests to te schedules in any order,"
	@echo "            GPU=1 for schedules for GPUs, interpreted before and after lowering,"
	@echo "            EMULATED=1 for schedules on the emulator of GPUs, their threads watched (with GPU=1"
	@echo "            those for GPUs alone),"
	@echo "            OPERATORS=1 for all operators with all examples by their default schedules for"
	@echo "            GPUs, on the emulator, their threads watched (ARGS= for some, by name)"
	@echo "make bench   run the benchmark suite"
	@echo "make bench-general   programs rewritten in other ways, beside the plain ones"
	@echo "make bench-peers   side by side with other libraries, installed into .venv-peers"
	@echo "make bench-scale   cost over size, and over the number of threads"
	@echo "make bench-tuner   searches on recorded times: strategies, transfer, kill -9; ARGS=--live adds"
	@echo "            what compiles and times: seconds by phase, a second load, memory"
	@echo "make lint    run ruff and mypy"
	@echo "make clean   remove the virtual environment and the caches of the tools"
	@echo "The first call creates $(VENV); choose the interpreter with PYTHON=python3.12."

demo: $(RUN) | compiler
	@$(BIN)/python -m demo

test: $(DEV) | compiler cxx
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

fuzz: $(DEV) | compiler
ifneq ($(OPERATORS),)
	@$(BIN)/python tests/fuzz/gpu_operators.py $(ARGS)
else
	@$(BIN)/python tests/fuzz/$(if $(EMULATED),emulated.py,fuzz.py) $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) \
	  --seconds $(or $(SECONDS),$(if $(COUNT),0,180)) $(if $(SANITIZE),--sanitize) $(if $(ORDERS),--orders) \
	  $(if $(NETWORKS),--networks) $(if $(INVENTED),--invented) $(if $(DATABASES),--databases) $(if $(KILLS),--kills) \
	  $(if $(TE),--te) $(if $(GPU),--gpu) $(if $(ODD),--odd) $(if $(SMALL),--small) $(ARGS)
endif

bench: $(DEV) | compiler
	@$(BIN)/python benchmarks/suite.py $(ARGS)

bench-general: $(DEV) | compiler
	@$(BIN)/python -m benchmarks.general $(ARGS)

bench-peers: $(DEV) | compiler
	@$(BIN)/python -m benchmarks.peers $(ARGS)

bench-scale: $(DEV) | compiler
	@$(BIN)/python benchmarks/scale.py $(ARGS)

bench-tuner: $(DEV)
	@$(BIN)/python -m benchmarks.tuner $(ARGS)

lint: $(DEV)
	@$(BIN)/ruff check .
	@$(BIN)/mypy

clean:
	rm -rf $(VENV) .venv-peers .venv-tvm build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

compiler:
	@set -- $${CC:-}; \
	if [ $$# -gt 0 ]; then \
	  command -v "$$1" >/dev/null || { \
	    echo "CC is '$$CC', but there is no program '$$1': install it, or unset CC." >&2; exit 2; }; \
	else \
	  command -v gcc >/dev/null || command -v clang >/dev/null || { \
	    echo "No C compiler found: install gcc or clang (Debian/Ubuntu: apt install gcc;" \
	      "Fedora: dnf install gcc; macOS: xcode-select --install)." >&2; exit 2; }; \
	fi

cxx:
	@set -- $${CXX:-}; \
	if [ $$# -gt 0 ]; then \
	  command -v "$$1" >/dev/null || { \
	    echo "CXX is '$$CXX', but there is no program '$$1': install it, or unset CXX." >&2; exit 2; }; \
	else \
	  command -v g++ >/dev/null || command -v clang++ >/dev/null || { \
	    echo "No C++ compiler found, which runs kernels of GPUs in the tests: install g++ or clang++" \
	      "(Debian/Ubuntu: apt install g++; Fedora: dnf install gcc-c++)." >&2; exit 2; }; \
	fi

python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "No program '$(PYTHON)': install Python 3.10 or newer, or name one:" \
	    "make PYTHON=python3.12." >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "Python 3.10 or newer is needed, but '$(PYTHON)' is $$($(PYTHON) -V 2>&1):" \
	    "name a newer one: make PYTHON=python3.12." >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' has no venv module: install it" \
	    "(Debian/Ubuntu: apt install python3-venv)." >&2; exit 2; }

$(BIN)/activate: | compiler python
	@echo "creating $(VENV) with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv $(VENV)

$(RUN): setup.cfg pyproject.toml | $(BIN)/activate
	@echo "installing what the demo needs into $(VENV)"
	@$(PIP) -e '.[demo]'
	@touch $@

$(DEV): setup.cfg pyproject.toml | $(BIN)/activate
	@echo "installing what the tests need into $(VENV)"
	@$(PIP) -e '.[dev]'
	@touch $(RUN) $@
