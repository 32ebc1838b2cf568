# Every target sets up what it needs: a virtual environment in .venv, made once with pip from pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.installed

.PHONY: demo test test-slow check fix docs results results-full reproduce reproduce-full clean

demo: $(SETUP)  ## compress 10,000 word vectors and show what came of it
	$(BIN)/kdcode demo

test: $(SETUP)  ## all tests that take seconds
	$(BIN)/pytest -n 2

test-slow: $(SETUP)  ## the tests that take minutes
	$(BIN)/pytest -m slow

check: $(SETUP)  ## what CI runs: format, lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) test

fix: $(SETUP)  ## format, and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(SETUP)  ## write docs/cli.md from the commands' own help
	$(BIN)/python docs/make_cli.py

results: $(SETUP)  ## measure again what README and docs quote; DATA is a folder with GloVe 100d (vectors.npy, symbols.txt)
	$(BIN)/python benchmarks/reconstruction.py --data $(DATA)
	$(BIN)/python benchmarks/symbol_index.py --symbols $(DATA)/symbols.txt

# These take hours, and go on where they were when they are stopped. MINILM is all-MiniLM-L6-v2's model.safetensors.
results-full: results  ## and kdcode beside its peers, and against the size of the table
	$(BIN)/python benchmarks/equal_bits.py --glove $(DATA) --work $(or $(WORK),benchmarks/work)/equal_bits
	$(BIN)/python benchmarks/equal_bytes.py --glove $(DATA) --minilm $(MINILM) --work $(or $(WORK),benchmarks/work)/equal_bytes
	$(BIN)/python benchmarks/scaling.py --glove $(DATA) --work $(or $(WORK),benchmarks/work)/scaling

# DATA here is the folder that holds glove-100d/ and ptb/.
GLOVE = --data $(DATA)/glove-100d
PTB = --data $(DATA)/ptb --work $(or $(WORK),experiments/work)

reproduce: $(SETUP)  ## the paper's experiments that take minutes
	$(BIN)/python experiments/temperature.py
	$(BIN)/python experiments/clustering.py
	$(BIN)/python experiments/code_space.py
	$(BIN)/python experiments/glove_codes.py $(GLOVE)

reproduce-full: reproduce  ## all of them: the language models take hours, and go on from WORK when started again
	$(BIN)/python experiments/related.py $(GLOVE)
	$(BIN)/python experiments/ptb_perplexity.py $(PTB)
	$(BIN)/python experiments/ptb_perplexity.py $(PTB) --steps 100 --rows conventional,random-linear,random-lstm
	$(BIN)/python experiments/ptb_perplexity.py $(PTB) --steps 200 --rows conventional,random-linear,random-lstm --model large
	$(BIN)/python experiments/vary_k_d.py $(PTB)
	$(BIN)/python experiments/lightrnn.py $(PTB) --glove $(DATA)/glove-100d
	$(BIN)/python experiments/random_codes.py $(PTB)
	$(BIN)/python experiments/summary.py

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The marker is newer than what it was made from, so a change of dependencies installs again. The variable, unlike the
# option --constraint, also reaches the environment that builds the package.
$(SETUP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(SETUP)
