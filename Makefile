# The tasks of developers and CI. `make help` lists it; a fresh Debian 12 or 13 is enough.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

ENGINE := appliance/engine
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
# Debian's own python3, not one that happens to stand first in PATH.
PYTHON ?= /usr/bin/python3

# Ansible and what its part of the project is tested with: an environment of its own.
FLEET_VENV := $(CURDIR)/.venv-ansible
FLEET_BIN := $(FLEET_VENV)/bin
# With the collection where it is, and the engine's command for the filters.
FLEET := ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/ansible/collections" PYTHONPATH="$(CURDIR)/ansible/collections" \
    PATH="$(FLEET_BIN):$(BIN):$$PATH"

# How many processes run the tests: as many as there are processors, and two at least.
PROCESSES ?= $(shell n=$$(nproc); echo $$((n > 2 ? n : 2)))

# How long each fuzz target runs, and which of appliance/engine/fuzz/fuzz_*.py do.
SECONDS_EACH ?= 60
TARGETS ?= $(patsubst $(ENGINE)/fuzz/fuzz_%.py,%,$(wildcard $(ENGINE)/fuzz/fuzz_*.py))

# Where test-debian, test-vm and test-systemd run: Debian 13 has Python 3.13, Debian 12 has 3.11.
SUITES ?= trixie bookworm

LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
    --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links

.PHONY: help setup demo test test-slow test-debian test-vm test-systemd lint format
.PHONY: packages test-packages image test-image
.PHONY: setup-ansible test-ansible test-fleet lint-ansible sanity-ansible roles collection
.PHONY: bench bench-network bench-sharing fuzz man reference docs picture lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/ready  ## make the environment in .venv (the others call it)

$(VENV)/ready: $(ENGINE)/requirements.lock $(ENGINE)/pyproject.toml $(ENGINE)/setup_environment.sh
	$(ENGINE)/setup_environment.sh "$(PYTHON)" "$(VENV)"
	touch $@

demo: setup  ## demonstrate the daemons, then the engine, on real data: make demo [DIR=/some/folder]
	PATH="$(BIN):$$PATH" $(ENGINE)/demo_fleet.sh $(if $(DIR),"$(DIR)")
	PATH="$(BIN):$$PATH" $(ENGINE)/demo.sh $(if $(DIR),"$(DIR)")

setup-ansible: $(FLEET_VENV)/ready  ## make the environment for Ansible in .venv-ansible

$(FLEET_VENV)/ready: ansible/requirements.lock
	"$(PYTHON)" -m venv --clear "$(FLEET_VENV)"
	$(FLEET_BIN)/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
	    -r ansible/requirements.lock
	touch $@

test: setup test-ansible  ## run the tests: make test [ARGUMENTS="-k words"] [PROCESSES=2] [AGAIN=1: what failed, once more]
	cd $(ENGINE) && { $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal $(ARGUMENTS) || { \
	    [ -n "$(AGAIN)" ] && echo "FAILED ABOVE; if it passes alone, the test or the product has a race: mend it" && \
	    $(BIN)/python -m pytest --last-failed --last-failed-no-failures none --maxfail 1; }; }

test-slow: setup  ## run the tests that take minutes: make test-slow [ARGUMENTS="-k words"]
	cd $(ENGINE) && $(BIN)/python -m pytest -m slow $(ARGUMENTS)

test-debian:  ## run the tests on every Debian we support [SUITES="trixie bookworm"]
	for suite in $(SUITES); do $(ENGINE)/tests/debian/run_suite.sh $$suite '$(ARGUMENTS)' || exit 1; done

test-vm: setup  ## run the tests that need a kernel of their own, in QEMU [SUITES="trixie bookworm"]
	for suite in $(SUITES); do $(ENGINE)/tests/vm/run_in_guest.sh $$suite $(ARGUMENTS) || exit 1; done

test-systemd: setup  ## follow docs/guides/fleet.md and use units and schedule on real systemd hosts (containers)
	for suite in $(SUITES); do \
	    $(ENGINE)/tests/systemd_host/run_on_host.sh $$suite && \
	    $(ENGINE)/tests/systemd_host/run_on_host.sh $$suite single_machine.sh && \
	    $(PYTHON) $(ENGINE)/tests/systemd_host/follow_fleet.py $$suite || exit 1; done

# Their time, so that the same commit gives the same packages.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

packages:  ## build Debian packages, and an apt repository [SUITES="trixie bookworm"] [REVISION=1] [SIGNING_KEY=...]
	for suite in $(SUITES); do \
	    REVISION="$(REVISION)" SOURCE_DATE_EPOCH="$(SOURCE_DATE_EPOCH)" \
	    appliance/packages/build_packages.sh $$suite || exit 1; done
	$(PYTHON) appliance/packages/apt_repository.py build/packages/apt \
	    $(foreach suite,$(SUITES),$(suite)=build/packages/$(suite)) --time "$(SOURCE_DATE_EPOCH)" \
	    $(if $(SIGNING_KEY),--key "$(SIGNING_KEY)",--key-folder build/packages/signing-key)

test-packages:  ## install, upgrade, remove and purge the packages on fresh systemd hosts (containers)
	for suite in $(SUITES); do appliance/packages/tests/run_on_host.sh $$suite || exit 1; done

image: setup-ansible  ## build the appliance's image [FORMATS="qcow2 raw vmdk vhdx ova"] [PACKAGES=...] [MIRROR=...]
	packer/build_image.sh $(FORMATS)

test-image: setup  ## start the image in virtual machines and look at it from inside and outside [ARGUMENTS="-k words"]
	$(BIN)/python -m pytest -q -p no:cacheprovider appliance/tests $(ARGUMENTS)

test-ansible: setup setup-ansible  ## run the tests of roles and plugins that need no host
	$(FLEET) python -m pytest -q -n $(PROCESSES) --dist loadfile --import-mode=importlib -p no:cacheprovider \
	    tests/unit tests/project tests/director

test-fleet: setup-ansible  ## run the scenarios on fresh systemd hosts (containers) [SCENARIOS="ktls hardening"]
	molecule/run.sh $(SCENARIOS)

sanity-ansible: setup-ansible  ## run ansible-test sanity on the collection as it is built
	ansible/developing/run_sanity.sh $(ARGUMENTS)

lint-ansible: setup-ansible  ## check the style of playbooks, roles and plugins
	$(FLEET) yamllint --strict .
	$(FLEET) ansible-lint --offline --strict
	$(FLEET) python ansible/developing/role_documents.py --check
	$(FLEET) python ansible/developing/plugin_documents.py --check
	$(BIN)/ruff check --config ansible/developing/ruff.toml plugins tests ansible/developing packer appliance/tests
	$(BIN)/ruff format --check --config ansible/developing/ruff.toml plugins tests ansible/developing packer appliance/tests

roles: setup-ansible  ## make defaults and READMEs of the roles, and the references of inventory and plugins
	$(FLEET) python ansible/developing/role_documents.py
	$(FLEET) python ansible/developing/plugin_documents.py

collection: setup-ansible  ## build the collection into build/
	$(FLEET) ansible-galaxy collection build --force --output-path build

lint: setup lint-ansible  ## check style, types and layers
	cd $(ENGINE) && $(BIN)/ruff check . ../packages
	cd $(ENGINE) && $(BIN)/ruff format --check . ../packages
	cd $(ENGINE) && $(BIN)/mypy
	cd $(ENGINE) && $(BIN)/mypy ../packages ../../packer ../tests/machine.py ../tests/scan.py
	cd $(ENGINE) && $(BIN)/lint-imports

format: setup  ## format the code as lint requires
	$(BIN)/ruff format --config ansible/developing/ruff.toml plugins tests ansible/developing packer appliance/tests
	cd $(ENGINE) && $(BIN)/ruff format . ../packages && $(BIN)/ruff check --fix . ../packages

bench: setup  ## measure against the peers: make bench [ROWS=kernel,empty] [REPEATS=3]
	cd $(ENGINE) && PATH="$(BIN):$$PATH" $(BIN)/python -m bench \
	    $(if $(ROWS),--rows $(ROWS)) $(if $(REPEATS),--repeats $(REPEATS)) $(ARGUMENTS)

bench-network: setup  ## measure daemons, and Bacula: make bench-network [PARTS=loopback,fleet]
	cd $(ENGINE) && PATH="$(BIN):$$PATH" $(BIN)/python -m bench.network \
	    $(if $(PARTS),--parts $(PARTS)) $(ARGUMENTS)

bench-sharing: setup  ## measure sharing between clients: make bench-sharing [ARGUMENTS="/usr/share --clients 20"]
	cd $(ENGINE) && PATH="$(BIN):$$PATH" $(BIN)/python -m bench.sharing $(ARGUMENTS)

fuzz: setup  ## fuzz the decoders: make fuzz [SECONDS_EACH=60] [TARGETS=listing]
	$(BIN)/pip install --quiet --require-hashes --only-binary :all: \
	    -r $(ENGINE)/requirements-fuzz.lock
	cd $(ENGINE) && for target in $(TARGETS); do \
	    corpus="$(CURDIR)/build/fuzz/$$target"; \
	    $(BIN)/python "fuzz/fuzz_$$target.py" --seeds "$$corpus"; \
	    $(BIN)/python "fuzz/fuzz_$$target.py" "$$corpus" -max_total_time=$(SECONDS_EACH) \
	        -artifact_prefix="$(CURDIR)/build/fuzz/$$target-"; \
	done

man: setup  ## write the manual pages into build/man1
	$(BIN)/python -m strongroom.cli.manual_page build/man1

reference: setup  ## regenerate docs/reference
	$(BIN)/strongroom config docs --into docs/reference
	$(BIN)/python -m strongroom.cli.command_reference docs/reference

picture: setup  ## draw which package imports which, into docs/design/architecture.md
	cd $(ENGINE) && $(BIN)/python -m bench.import_picture after

$(VENV)/docs-ready: $(VENV)/ready $(ENGINE)/requirements-docs.lock
	$(BIN)/pip install --quiet --require-hashes -r $(ENGINE)/requirements-docs.lock
	touch $@

docs: $(VENV)/docs-ready  ## build the documentation into build/docs, every link checked
	$(BIN)/strongroom config docs --check --quiet --into docs/reference
	$(BIN)/python -m strongroom.cli.command_reference --check docs/reference
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --fresh-env \
	    --builder html docs build/docs

lock: setup  ## update the locked library versions, with hashes, for every Python we support
	$(BIN)/pip install --quiet uv
	cd $(ENGINE) && $(LOCK) --extra dev --output-file requirements.lock pyproject.toml
	cd $(ENGINE) && $(LOCK) --extra director --extra postgresql --extra build \
	    --constraint requirements.lock --output-file requirements-runtime.lock pyproject.toml
	cd $(ENGINE) && $(LOCK) --extra docs --constraint requirements.lock \
	    --output-file requirements-docs.lock pyproject.toml
	cd $(ENGINE) && $(LOCK) --extra fuzz --constraint requirements.lock \
	    --output-file requirements-fuzz.lock pyproject.toml
	$(LOCK) --fork-strategy fewest --output-file ansible/requirements.lock ansible/requirements.txt

clean:  ## remove what was built, and the environment
	rm -rf $(VENV) $(FLEET_VENV) build tests/output $(ENGINE)/build $(ENGINE)/dist $(ENGINE)/src/strongroom.egg-info
	rm -rf $(ENGINE)/.mypy_cache $(ENGINE)/.ruff_cache $(ENGINE)/.pytest_cache
	rm -rf $(ENGINE)/.import_linter_cache $(ENGINE)/.hypothesis
	find $(ENGINE) -name __pycache__ -type d -prune -exec rm -rf {} +
