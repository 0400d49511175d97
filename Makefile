# Needs make and Python 3.11 or newer. Everything else is installed into .venv.
#
#   make demo    train a small classifier on handwritten digits
#   make test    run every test, with the examples in the documentation, in an order shuffled by
#                SEED=1
#   make long    run the long checks: 20,000 training steps in three styles, 1,000 shapes, 20,000
#                random programs on meshes, 500 in every scenario, 100,000 broken texts, 13,000
#                bad calls, 200 kills during saving, 40 kills of training runs
#   make docs    build the documentation site: build/docs/index.html
#   make docs-tables
#                regenerate the tables of docs/ir.md and the outputs of docs/tour.ipynb
#   make docs-accuracy
#                measure the errors of elementwise functions against mpmath: docs/accuracy.md
#   make kernels compile what is in C++, kernels and hot paths, if there is a compiler (c++)
#   make wheel   build a wheel with what is in C++: dist/
#   make lint    run the linter, the type checker and the import contract
#   make bench   compare speed and memory with JAX and PyTorch where they are installed, and write
#                benchmarks/results.md and results.svg; print how costs grow with sizes
#   make clean   remove everything that was built, including .venv

PYTHON ?= $(firstword $(foreach p,python3.11 python3,$(if $(shell $(p) -c \
	'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null),$(p))))
BIN := .venv/bin
JOBS ?= 2
SEED ?= 1
BENCH ?= --torch-compile

.PHONY: demo test long docs docs-tables docs-accuracy kernels wheel lint bench clean

demo: .venv/ready kernels
	$(BIN)/python examples/digits.py

# Tests start many processes: they need not compile the package each time, nor the workers the
# modules whose assertions pytest rewrites. A worker takes whole files from the shuffled list, as
# long as there are enough, so that their tests share programs.
test: export PYTHONDONTWRITEBYTECODE =
test: .venv/ready kernels
	$(BIN)/python -m compileall -q pullback
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --randomly-seed=$(SEED)

long: .venv/ready kernels
	$(BIN)/python tests/long/training_loops.py
	$(BIN)/python tests/long/many_shapes.py
	$(BIN)/python tests/long/all_compositions.py
	$(BIN)/python tests/long/sharded_programs.py
	$(BIN)/python tests/long/scenarios.py --count 500
	$(BIN)/python tests/long/ir_determinism.py
	$(BIN)/python tests/long/fuzz_ir.py
	$(BIN)/python tests/long/bad_inputs.py
	$(BIN)/python tests/long/bad_inputs.py 5000 1
	$(BIN)/python tests/long/stablehlo_bits.py
	$(BIN)/python tests/long/large_programs.py
	$(BIN)/python tests/long/saved_programs.py
	$(BIN)/python tests/long/kill_during_save.py
	$(BIN)/python tests/long/kill_training.py

docs: .venv/ready kernels
	$(BIN)/python -m tools.site

docs-tables: .venv/ready
	$(BIN)/python tools/ir_tables.py docs/ir.md
	$(BIN)/python -m tools.site.notebook docs/tour.ipynb

docs-accuracy: .venv/ready kernels
	$(BIN)/python tools/accuracy.py docs/accuracy.md

# Beside their source, for the checkout; a wheel has them compiled by pip.
kernels: .venv/ready
	@if command -v c++ > /dev/null; then \
	  $(BIN)/cmake -S . -B build/kernels -G Ninja -DPULLBACK_IN_TREE=ON \
	    -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
	    -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja > /dev/null && \
	  $(BIN)/cmake --build build/kernels --parallel $(JOBS) -- --quiet; \
	else echo "There is no C++ compiler: no kernels, and hot paths run in Python."; fi

wheel: .venv/ready
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check pullback tests benchmarks examples tools/site docs
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/ready kernels
	$(BIN)/python -m benchmarks $(BENCH)
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python benchmarks/compile.py
	$(BIN)/python benchmarks/sharding.py
	$(BIN)/python benchmarks/collectives.py
	$(BIN)/python benchmarks/ir.py
	$(BIN)/python benchmarks/linalg.py

clean:
	rm -rf .venv build dist *.egg-info pullback/engines/xla/kernels/*.so pullback/graph/native/*.so .pytest_cache .ruff_cache .mypy_cache .hypothesis examples/out
	find pullback tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# The virtual environment, updated when the list of dependencies changes.
.venv/ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs]'
	touch $@
