# Commands: demo, test, check, bench, bench-grammars, soak. Each sets up what it needs in .venv.
# Another index or pip option: make demo PIP_ARGS="--index-url https://..."

PYTHON ?= python3
PIP_ARGS ?=
ARGS ?=
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: demo test check bench soak bench-grammars bench-kernels kernel-report clean

demo: $(VENV)/.run.ready
	$(RUN) examples/extract.py

test: $(VENV)/.test.ready
	$(RUN) -m pytest

check: $(VENV)/.test
	$(RUN) -m ruff check .
	$(RUN) -m mypy src/espalier scripts
	$(RUN) -m pytest tests/test_layout.py

bench: $(VENV)/.test.ready
	$(RUN) -m bench

# On a machine with a GPU.
bench-kernels: $(VENV)/.test.ready
	$(RUN) -m bench.kernels $(ARGS)

# Without one: compiles every kernel for sm_90 and reads the machine code.
kernel-report: $(VENV)/.test.ready
	$(RUN) -m scripts.kernel_report $(ARGS)

# HARNESS: the folder of the harness of grammar engines. TOK: a tokenizer.json. PEERS: a python with llguidance, xgrammar.
bench-grammars: $(VENV)/.test.ready
	$(RUN) -m bench.grammars $(HARNESS) $(TOK) $(if $(PEERS),--peers $(PEERS)) $(BENCH_ARGS)

soak: $(VENV)/.test.ready
	$(RUN) -m pytest -m 'slow or not slow' --timeout 1800 --hypothesis-profile soak

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python pyproject.toml constraints.txt
	$(RUN) -m pip install --disable-pip-version-check -q -e . -c constraints.txt $(PIP_ARGS)
	touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(RUN) -m pip install --disable-pip-version-check -q -e '.[test]' -c constraints.txt $(PIP_ARGS)
	touch $(VENV)/.run $@

$(VENV)/.run.ready $(VENV)/.test.ready: %.ready: %
	@echo 'Compiling the grammar engine for this machine, once: one to three minutes.'
	$(VENV)/bin/espalier prepare
	touch $@

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
