# make build   a virtual environment in .venv with the package installed
# make demo    principal components of a matrix five times larger than the memory limit, under two minutes
# make test    C++ tests (ctest), then Python tests (pytest) against the installed package; the 20 slowest are told
# make test-all  the same with what is marked slow and all examples of hypothesis (.ci/nightly)
# make wheel   a manylinux wheel in dist/, tried in an empty environment; make sdist: the sources
# make package the C++ package under build/package, and examples/cpp built against it
# make lint    formatting, static checks, the rooms: layers and house
# make gpu-bundle  programs that measure a GPU, in one folder that runs elsewhere (needs nvcc, no GPU)
# make docs    the documentation site in out/docs (warnings are errors)
# make bench   the benchmark commands
# make clean   removes build/ and .venv
# Arguments:   make demo DEMO="--memory 256MiB"    make test TEST="-k matmul"    make asan    make tsan    make examples
#              make asan-examples    make tsan-examples
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: build demo test test-all ctest pytest pytest-all asan tsan asan-examples tsan-examples examples package lint format layers api docs bench clean wheel sdist gpu-bundle

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
BUILD := build/python
SOURCES := CMakeLists.txt pyproject.toml $(shell find src python cmake -type f -not -name '*_test.cpp' -not -name '*.pyc')

export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)
ifneq ($(shell command -v ccache),)
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
export CCACHE_SLOPPINESS ?= pch_defines,time_macros
endif

build: .venv/.installed

.venv/bin/python:
	@tools/system_packages.sh build
	$(PYTHON) -m venv .venv

# What the build and the demonstration need; the package itself comes next, so that its build is incremental.
.venv/.requirements: .venv/bin/python pyproject.toml tools/requirements.py
	@tools/system_packages.sh build
	$(PIP) install -r <($(BIN)/python tools/requirements.py build demo)
	@touch $@

# The stamp is as old as the start of the build: what changes meanwhile is built next time.
.venv/.installed: .venv/.requirements $(SOURCES)
	@touch $@.new
	$(PIP) install --no-build-isolation -C build-dir=$(BUILD) .
	@mv $@.new $@

.venv/.test-requirements: .venv/.requirements
	@tools/system_packages.sh test
	$(PIP) install -r <($(BIN)/python tools/requirements.py test)
	@touch $@

.venv/.lint-requirements: .venv/.requirements
	$(PIP) install -r <($(BIN)/python tools/requirements.py dev)
	@touch $@

demo: build
	$(BIN)/flagstone demo $(DEMO)

test: ctest pytest
test-all: ctest pytest-all

# The wheel's own build directory, with the unit tests and the programs behind benchmarks switched on: the core is
# compiled once, also for the benchmarks that the tests run.
ctest: build .venv/.test-requirements
	cmake -S . -B $(BUILD) -DFLAGSTONE_TESTS=ON -DFLAGSTONE_BENCHMARKS=ON >/dev/null
	cmake --build $(BUILD)
	$(BIN)/python tools/check_links.py $(BUILD)
	ctest --test-dir $(BUILD) -j2 --output-on-failure

# Two processes, each with files of its own; then, one after the other, what is marked alone. Either part may be empty
# (status 5) where TEST chooses, not both. Threads of NumPy's BLAS wait in a loop: they took an eighth of both processors.
pytest pytest-all: export OPENBLAS_NUM_THREADS := 1
PYTEST = $(BIN)/python -m pytest --durations=20 --durations-min=1
pytest: CHOSEN := not slow and
pytest-all: CHOSEN :=
pytest-all: export FLAGSTONE_TEST_EXAMPLES := 1
pytest pytest-all: build .venv/.test-requirements
	@together=0; $(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder -m "$(CHOSEN) not alone" $(TEST) || together=$$?; \
	alone=0; $(PYTEST) -m "$(CHOSEN) alone" $(TEST) || alone=$$?; \
	case $$together/$$alone in 0/0 | 0/5 | 5/0) ;; *) exit 1 ;; esac

# C++ tests and examples, then the Python examples with the extension module of that build.
asan tsan: .venv/.test-requirements
	cmake --preset $@ -DFLAGSTONE_PYTHON=ON >/dev/null
	cmake --build --preset $@
	ctest --preset $@
	$(BIN)/python tools/sanitized_examples.py $@

# The examples alone: the library, the extension module and examples/cpp are built with the sanitizer, no unit test.
asan-examples tsan-examples: %-examples: .venv/.test-requirements
	cmake --preset $* -DFLAGSTONE_PYTHON=ON >/dev/null
	cmake --build --preset $* --target examples _core
	ctest --preset $* -R '^examples\.'
	$(BIN)/python tools/sanitized_examples.py $*

.venv/.wheel-requirements: .venv/.requirements
	$(PIP) install -r <($(BIN)/python tools/requirements.py wheel)
	@touch $@

# From the objects of `make build`, with the libraries that it needs inside but the BLAS wheel's, which it depends on, and
# CUDA's, which whoever has a card has.
wheel: build .venv/.wheel-requirements
	@rm -rf build/wheel dist/*.whl
	$(PIP) wheel --no-deps --no-build-isolation -C build-dir=$(BUILD) -w build/wheel .
	PATH="$$PWD/$(BIN):$$PATH" $(BIN)/auditwheel repair --exclude libscipy_openblas.so --exclude 'libcu*' --exclude 'libnv*' -w dist build/wheel/*.whl 2>build/wheel/repair.log || \
	  { cat build/wheel/repair.log; exit 1; }
	$(BIN)/python tools/check_wheel.py dist/*.whl $(WHEEL)

sdist: .venv/.wheel-requirements
	@rm -f dist/*.tar.gz
	$(BIN)/python -m build --sdist --no-isolation -o dist . >/dev/null
	@ls -l dist/*.tar.gz

examples: build .venv/.test-requirements
	@for example in examples/*.py examples/stencils/*.py; do echo "== $$example"; $(BIN)/python "$$example"; done

# The C++ package from the wheel's build directory, installed under build/package, and programs outside that use it.
PREFIX ?= $(CURDIR)/build/package
package: build
	cmake -S . -B $(BUILD) >/dev/null
	cmake --build $(BUILD) --target flagstone
	cmake --install $(BUILD) --prefix $(PREFIX) --component cpp >/dev/null
	cmake -S examples/cpp -B build/examples-cpp -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=$(PREFIX) >/dev/null
	cmake --build build/examples-cpp
	ctest --test-dir build/examples-cpp --output-on-failure

# CUDA=-DFLAGSTONE_CUDA_ROOT=... names a toolkit that is not where it is looked for.
gpu-bundle: .venv/.requirements
	cmake -S . -B build/gpu -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DFLAGSTONE_CUDA=ON \
	  -DFLAGSTONE_BENCHMARKS=ON -DFLAGSTONE_TESTS=ON $(CUDA) >/dev/null
	cmake --build build/gpu --target device_figures device_floors device_rates device_fetch flagstone_cuda algorithms_kernels_test
	$(BIN)/python benchmarks/devices/cuda/bundle.py build/gpu build/gpu-bundle

CPP_FILES = $(shell find src python/bindings examples benchmarks -name '*.cpp' -o -name '*.hpp')
lint: .venv/.lint-requirements layers
	@echo "clang-format --dry-run, all C++ files"; $(BIN)/clang-format --dry-run -Werror $(CPP_FILES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.lint-requirements
	$(BIN)/clang-format -i $(CPP_FILES)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

layers: .venv/bin/python
	$(BIN)/python tools/check_layers.py
	$(BIN)/python tools/check_house.py

# docs/reference/api.txt: names and signatures of all faces. A test compares it.
api: build
	$(BIN)/python tools/api.py

.venv/.docs-requirements: .venv/.requirements
	$(PIP) install -r <($(BIN)/python tools/requirements.py docs)
	@touch $@

docs: build .venv/.docs-requirements
	$(BIN)/python -m sphinx -q -W --keep-going -j auto -c docs -b html . out/docs
	@echo "out/docs/docs/index.html"

bench:
	@echo "One command for each figure; --smoke takes seconds, --help lists the options (make build first):"
	@for file in $$(grep -l '__main__' benchmarks/*/*.py tests/durability/harness/*.py); do \
	  printf '  %-46s %s\n' "$(BIN)/python $$file" "$$(sed -n '1s/^"""\([^"]*\).*/\1/p' "$$file")"; done

clean:
	rm -rf build .venv dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
