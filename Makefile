# Cairn: `make help` lists what there is. Everything lands in build/.
SHELL := /bin/bash
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
VENV := build/venv
CAIRN := build/bin/cairn
BUILT := deps configured build venv static python wheel

# What scripts/install-deps.sh installs before a target compiles: all that the target needs.
PURPOSE := build
demo wheel: PURPOSE := python
deb: PURPOSE := package

.PHONY: help deps deps-build cli build python wheel wheel-arm64 static deb dist demo test check bench bench-stores format lint install clean venv \
        docs configured test-long test-matrix test-unit test-asan test-asan-py test-tsan test-fuzz test-layering test-consumer test-interop test-other-processors

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*  ## ' $(MAKEFILE_LIST) | awk -F ':.*  ## ' '{printf "  make %-21s %s\n", $$1, $$2}'

deps:  ## install the system packages (apt) that are missing
	@scripts/install-deps.sh

deps-build:
	@scripts/install-deps.sh $(PURPOSE)

venv: deps  ## the tests' Python packages, in build/venv
	@scripts/test-env.sh $(VENV) tests/interop/requirements.txt

cli: deps-build  ## build/bin/cairn alone, optimised
	@scripts/configure.sh release
	@cmake --build --preset release --target cairn_cli -j $(JOBS)
	@mkdir -p build/bin && ln -sf ../release/bin/cairn $(CAIRN)

build: deps cli  ## the command, the library, and all that tests them
	@scripts/configure.sh test
	@cmake --build --preset test -j $(JOBS)

python: build venv  ## the Python package, in build/venv (pip install . installs it anywhere)
	@scripts/python-package.sh $(VENV)

wheel: cli  ## self-contained wheels for the CPythons of this machine, and the sdist, in build/dist
	@scripts/install-deps.sh python
	@cmake --build --preset release -j $(JOBS)
	@scripts/wheel.sh

wheel-arm64:  ## the wheel for arm64, cross-built, in build/dist-arm64
	@scripts/install-deps.sh processors
	@scripts/wheel-arm64.sh $(JOBS)

static: deps-build  ## build/static/bin/cairn, a static program that runs on any Linux
	@scripts/configure.sh static
	@cmake --build --preset static -j $(JOBS)
	@cmake --install build/release --component static --prefix build/static >/dev/null

demo: cli  ## open, verify and convert a checkpoint that Orbax wrote; try the Python package
	@scripts/install-deps.sh python
	@cmake --build --preset release -j $(JOBS)
	@scripts/test-env.sh build/demo-venv scripts/demo-requirements.txt
	@scripts/python-package.sh build/demo-venv
	@scripts/demo.sh $(CAIRN) build/demo-venv/bin/python

# Tests often wait, and compilers never: two rows of checks use the processors better than one. Both
# use what is built before, and do not build it again.
test: export CAIRN_WHEELS ?= 3.11
test: $(BUILT)  ## everything, from nothing
	@scripts/side-by-side.sh \
	  '$(MAKE) $(BUILT:%=-o %) lint test-asan test-asan-py test-tsan test-fuzz' \
	  '$(MAKE) $(BUILT:%=-o %) docs test-layering test-unit test-consumer test-interop'
	@echo "All tests passed."

test-long:  ## before a release: make test with a new seed, ten minutes of fuzzing, all wheels, other versions and processors
	@scripts/install-deps.sh processors  # not after hours of tests
	@seed=$$(python3 -c 'import secrets; print(secrets.randbelow(2**31))') && echo "CAIRN_SEED=$$seed repeats this run" && \
	CAIRN_SEED=$$seed CAIRN_LONG=1 $(MAKE) test FUZZ_SECONDS=600 CAIRN_WHEELS=
	@$(MAKE) test-matrix
	@$(MAKE) test-other-processors

test-matrix: venv wheel  ## the package with older and newer versions of Python, NumPy, JAX, flax, Orbax, PyTorch, TensorFlow; needs the Python index
	@$(VENV)/bin/python scripts/matrix/run.py

check: python  ## the edit loop: build, unit tests without fault injection, CLI and quick interop
	@scripts/check.sh $(VENV) $(JOBS)

test-unit: build  ## unit tests and examples
	@ctest --test-dir build/release --output-on-failure --timeout 1200 -j $$((3 * $(JOBS)))  # many of them wait

test-asan: deps  ## unit tests and fuzz replays under AddressSanitizer and UBSan
	@scripts/sanitized.sh asan $(JOBS)

test-asan-py: python  ## the Python package with its native part under AddressSanitizer
	@scripts/sanitized-python.sh $(VENV) $(JOBS)

test-tsan: deps  ## unit tests under ThreadSanitizer
	@scripts/sanitized.sh tsan $(JOBS)

test-fuzz: deps  ## FUZZ_SECONDS (60) of real fuzzing, shared by all targets
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(JOBS)

test-layering: deps  ## includes and imports point down; every public header compiles alone
	@python3 tests/layering_test.py

test-consumer: build  ## install, then build and run a program that uses find_package(cairn)
	@tests/consumer/run.sh

test-interop: build static python wheel  ## against the real Orbax, TensorStore, flax, safetensors, zarr; what is installed; Python
	@CAIRN_BIN=$(abspath $(CAIRN)) scripts/store-servers.sh run $(VENV)/bin/python -m pytest -q -n $$(( (3 * $(JOBS) + 1) / 2 )) --dist worksteal tests/interop tests/cli tests/install tests/python

test-other-processors: python  ## arm64, the oldest and the newest x86-64, and s390x, under QEMU
	@scripts/install-deps.sh processors
	@for name in x86-64 s390x arm64; do scripts/other-processor.sh $$name $(VENV) $(JOBS) || exit 1; done

docs: deps  ## the documentation site with the C++ API, in build/site
	@scripts/test-env.sh build/docs-venv docs/requirements.txt
	@scripts/docs.sh build/docs-venv

bench: build python  ## side by side with the real packages; writes build/bench*.json, .md and .svg
	@scripts/test-env.sh $(VENV) tests/interop/requirements.txt
	@CAIRN_BIN=$(abspath $(CAIRN)) $(VENV)/bin/python bench/compare.py
	@$(VENV)/bin/python bench/python.py --markdown build/bench_python.md --json build/bench_python.json
	@for name in bench bench_python; do $(VENV)/bin/python bench/plot.py build/$$name.json -o build/$$name.svg; done

bench-stores: build python  ## reading from and saving to object stores, beside TensorStore and Orbax; writes build/bench_stores.md
	@scripts/test-env.sh $(VENV) tests/interop/requirements.txt
	@scripts/store-servers.sh run $(VENV)/bin/python bench/stores.py --markdown build/bench_stores.md

format: deps  ## rewrite the sources in the project's style
	@git ls-files '*.cc' '*.h' | grep -v golden/ | xargs clang-format -i

configured: deps
	@scripts/configure.sh test
	@scripts/configure.sh static  # in the same folder: its sources are checked, too

lint: configured  ## clang-format and clang-tidy, as make test enforces them
	@scripts/lint.sh $(JOBS)

install: cli  ## the command and the library, into PREFIX (/usr/local); needs no test tools
	@cmake --build --preset release -j $(JOBS)
	@cmake --install build/release --prefix $(PREFIX)

deb: cli  ## Debian packages, in build/deb
	@scripts/install-deps.sh package
	@cmake --build --preset release -j $(JOBS)
	@scripts/deb.sh build/release build/deb

dist:  ## all files of a release of the last commit, in build/release-files
	@scripts/install-deps.sh dist
	@JOBS=$(JOBS) scripts/dist.sh

clean:  ## remove build/
	@[ ! -x $(VENV)/bin/python ] || scripts/store-servers.sh stop --all
	@rm -rf build
