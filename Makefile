# The tasks of developers and CI. `make help` lists it; a fresh Debian 12 or 13 is enough.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

ENGINE := appliance/engine
PROGRAM := appliance/program
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
# Debian's own python3, not one that happens to be first in PATH.
PYTHON ?= /usr/bin/python3

# Ansible and what its part of the project is tested with: its own environment.
FLEET_VENV := $(CURDIR)/.venv-ansible
FLEET_BIN := $(FLEET_VENV)/bin
# What the dashboards are generated with.
DASHBOARDS_VENV := $(CURDIR)/.venv-dashboards
DASHBOARDS := cd appliance/monitoring && $(DASHBOARDS_VENV)/bin/python -m dashboards
# With the collection where it is, and the engine's command for the filters.
FLEET := ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/ansible/collections" PYTHONPATH="$(CURDIR)/ansible/collections" \
    PATH="$(FLEET_BIN):$(BIN):$$PATH"

# How many processes run the tests: half as many again as there are processors, as tests of daemons
# mostly wait.
PROCESSES ?= $(shell n=$$(nproc); echo $$((n + (n + 1) / 2)))

# How long each fuzz target runs, and which of appliance/engine/fuzz/fuzz_*.py do.
SECONDS_EACH ?= 60
TARGETS ?= $(patsubst $(ENGINE)/fuzz/fuzz_%.py,%,$(wildcard $(ENGINE)/fuzz/fuzz_*.py))

# Where test-debian, test-vm and test-systemd run: Debian 13 has Python 3.13, Debian 12 has 3.11.
SUITES ?= trixie bookworm

# The oldest ansible-core that meta/runtime.yml allows, and the newest for the Python of Debian 12.
CORES ?= 2.17 2.19

LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
    --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links

.PHONY: help setup demo test test-engine nightly test-console test-slow test-ceph test-browser test-debian test-vm test-systemd lint format
.PHONY: packages test-packages release release-check test-release image iso test-image test-image-long
.PHONY: setup-ansible test-ansible test-ansible-versions test-fleet lint-ansible sanity-ansible roles collection
.PHONY: dashboards dashboard-pictures lint-dashboards bench bench-fleet bench-network bench-sharing bench-growth fuzz fuzz-nightly man reference docs picture lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/ready  ## make the environment in .venv (the others call it)

$(VENV)/ready: $(ENGINE)/requirements.lock $(ENGINE)/pyproject.toml $(ENGINE)/bench/pyproject.toml $(PROGRAM)/pyproject.toml $(ENGINE)/setup_environment.sh
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

test: test-ansible test-engine  ## run the tests: make test [ARGUMENTS="-k words"] [PROCESSES=2]

test-engine: setup  ## run those of the engine and of the appliance's program [ARGUMENTS="tests/engine/restore"]
	cd $(ENGINE) && $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal $(ARGUMENTS)

# What takes hours, or hosts and its own machines; the rest continues when a part fails.
NIGHTLY := test-slow test-ceph test-ansible-versions test-debian test-systemd test-packages release-check test-release test-fleet test-vm test-console \
    image iso test-image test-image-long fuzz-nightly

nightly: setup  ## run everything that `make test` leaves out, part by part, and name what failed
	failed=""; for part in $(NIGHTLY); do $(MAKE) $$part || failed="$$failed $$part"; done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

test-slow: setup  ## run the tests that take minutes: make test-slow [ARGUMENTS="-k words"]
	cd $(ENGINE) && $(BIN)/python -m pytest -m slow $(ARGUMENTS)

# Of object lock only that it is refused: see test_ceph.py.
CEPH_TESTS := tests/engine/stores/test_ceph.py tests/engine/stores/test_s3.py tests/engine/stores/test_store_contract.py tests/storage/test_bucket.py
test-ceph: setup  ## run the suites of object stores on Ceph 18.2, in a Debian of its own (root, mmdebstrap) [ARGUMENTS="-k words"]
	mkdir -p build
	cd $(ENGINE) && STRONGROOM_TEST_CEPH="$(CURDIR)/build/ceph-root" timeout 5400 $(BIN)/python -m pytest \
	    -k "(ceph or s3 or bucket) and not locked" $(CEPH_TESTS) $(ARGUMENTS)

test-browser: setup  ## run the tests of the web page in headless Chromium, where there is one [CHROMIUM=/usr/bin/chromium] [AXE_CORE=axe.min.js]
	$(BIN)/pip install --quiet --require-hashes --only-binary :all: \
	    -r $(ENGINE)/requirements-browser.lock
	cd $(ENGINE) && $(if $(AXE_CORE),AXE_CORE="$(abspath $(AXE_CORE))") $(BIN)/python -m pytest -m browser tests/browser $(ARGUMENTS)

test-debian:  ## run the tests on every Debian we support [SUITES="trixie bookworm"]
	for suite in $(SUITES); do $(ENGINE)/tests/debian/run_suite.sh $$suite '$(ARGUMENTS)' || exit 1; done

test-vm: setup  ## run the tests that need their own kernel, in QEMU [SUITES="trixie bookworm"]
	for suite in $(SUITES); do $(ENGINE)/tests/vm/run_in_guest.sh $$suite $(ARGUMENTS) || exit 1; done

test-console: setup  ## boot an appliance (container, QEMU), set it up by an answer file, use its menu
	mkdir -p build/console
	$(PROGRAM)/tests/guest/make_disk.sh build/console
	$(PROGRAM)/tests/guest/boot_container.sh
	$(BIN)/python -u $(PROGRAM)/tests/guest/boot_appliance.py build/console

test-systemd: setup  ## follow docs/guides/fleet.md, install.md and fleet-in-ten-minutes.md, use units and schedule on real systemd hosts
	for suite in $(SUITES); do \
	    $(ENGINE)/tests/systemd_host/run_on_host.sh $$suite && \
	    $(ENGINE)/tests/systemd_host/run_on_host.sh $$suite single_machine.sh && \
	    $(PYTHON) $(ENGINE)/tests/systemd_host/follow_fleet.py $$suite && \
	    $(PYTHON) $(ENGINE)/tests/systemd_host/follow_install.py $$suite || exit 1; done

# Their time, so that the same commit gives the same packages.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

# How many versions the apt repository has at most: those of before are for a downgrade.
KEEP ?= 3

packages:  ## build Debian packages, and an apt repository [SUITES="trixie bookworm"] [REVISION=1] [KEEP=3] [SIGNING_KEY=...] [MAINTAINER=...]
	for suite in $(SUITES); do \
	    REVISION="$(REVISION)" MAINTAINER="$(MAINTAINER)" SOURCE_DATE_EPOCH="$(SOURCE_DATE_EPOCH)" \
	    appliance/packages/build_packages.sh $$suite || exit 1; done
	$(PYTHON) appliance/packages/apt_repository.py build/packages/apt \
	    $(foreach suite,$(SUITES),$(suite)=build/packages/$(suite)) --time "$(SOURCE_DATE_EPOCH)" --keep $(KEEP) \
	    $(APT_SIGNING)

test-packages:  ## build the packages twice; install, upgrade, remove and purge them on fresh systemd hosts (containers)
	for suite in $(SUITES); do \
	    appliance/packages/tests/compare_builds.sh $$suite && \
	    appliance/packages/tests/run_on_host.sh $$suite || exit 1; done

# For which Pythons and machines a release has libraries.
PYTHONS ?= 3.11 3.12 3.13 3.14
MACHINES ?= x86_64
VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' $(ENGINE)/pyproject.toml)
RELEASES ?= build/release
APT_SIGNING := $(if $(SIGNING_KEY),--key "$(SIGNING_KEY)",--key-folder build/packages/signing-key)

# Without RELEASE_KEY it is signed by a key that is made for it: for tests.
build/release-key:
	mkdir -p build
	ssh-keygen -q -t ed25519 -N '' -C '' -f $@

release: setup setup-ansible $(if $(RELEASE_KEY),,build/release-key) $(if $(SUITES),packages)  ## make build/release/VERSION: wheels, one-file program, packages, collection, sums [RELEASE_KEY=...] [SIGNING_KEY=...] [IMAGES=build/image/results] [SUITES="trixie bookworm"]
	test -z "$(RELEASE_KEY)" || test -z "$$(git status --porcelain)" || { echo "commit first: a release is what a commit has" >&2; exit 1; }
	mkdir -p $(RELEASES)
	rm -rf $(RELEASES)/apt
	$(if $(SUITES),$(PYTHON) appliance/packages/apt_repository.py $(RELEASES)/apt \
	    $(foreach suite,$(SUITES),$(suite)=build/packages/$(suite)) --time "$(SOURCE_DATE_EPOCH)" $(APT_SIGNING))
	SOURCE_DATE_EPOCH="$(SOURCE_DATE_EPOCH)" $(BIN)/python appliance/release/make_release.py $(RELEASES)/$(VERSION) \
	    --pythons "$(PYTHONS)" --machines "$(MACHINES)" --libraries build/release-libraries \
	    $(if $(SUITES),--apt $(RELEASES)/apt --suites "$(SUITES)") $(if $(IMAGES),--images "$(IMAGES)") \
	    --key "$(or $(RELEASE_KEY),build/release-key)"
	rm -rf $(RELEASES)/apt

release-check:  ## make the release twice, and compare the two byte by byte
	for number in 1 2; do $(MAKE) release RELEASES=build/release-check/$$number || exit 1; done
	diff --recursive build/release-check/1 build/release-check/2
	echo "two releases of $(VERSION) are the same, byte for byte"

test-release:  ## install from nothing but the release folder on fresh systemd hosts (containers), back up and restore [SUITES="trixie bookworm"]
	for suite in $(SUITES); do \
	    appliance/release/tests/install_on_host.sh $$suite $(RELEASES)/$(VERSION) || exit 1; done

image: setup-ansible  ## build the appliance's image [FORMATS="qcow2 raw vmdk vhdx ova"] [PACKAGES=...] [MIRROR=...]
	packer/build_image.sh $(FORMATS)

iso: setup-ansible  ## make the ISO (live, installer) of the image in build/image/results; builds that first if there is none
	packer/build_iso.sh

# Audits, updates and TPM.
LONG_IMAGE_TESTS := $(addprefix appliance/tests/test_,hardening.py openscap.py tpm.py updates.py)
test-image: IMAGE_TESTS = $(filter-out $(LONG_IMAGE_TESTS),$(wildcard appliance/tests/test_*.py))
test-image: setup setup-ansible  ## start the image in virtual machines and look at it from inside and outside [PROCESSES=2] [ARGUMENTS="-k words"]
test-image-long: IMAGE_TESTS = $(LONG_IMAGE_TESTS)
test-image-long: setup setup-ansible  ## have it audited (Lynis, OpenSCAP), updated by good and broken updates, and unlocked by a TPM
test-image test-image-long:
	$(BIN)/python -m pytest -q -n $(PROCESSES) --no-loadscope-reorder -p no:cacheprovider \
	    --durations 12 $(IMAGE_TESTS) $(ARGUMENTS)

test-ansible: setup setup-ansible  ## run the tests of roles and plugins that need no host
	$(FLEET) python -m pytest -q -n $(PROCESSES) --dist loadfile --import-mode=importlib -p no:cacheprovider \
	    -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true \
	    tests/unit tests/project tests/director

build/ansible-core-%/ready:
	"$(PYTHON)" -m venv --clear "$(@D)"
	"$(@D)/bin/pip" install --quiet --disable-pip-version-check "ansible-core==$*.*" molecule pytest pyyaml
	touch $@

test-ansible-versions: setup $(CORES:%=build/ansible-core-%/ready)  ## run the tests of the plugins on the oldest and the newest ansible-core [CORES="2.17 2.19"] [PYTHON=python3.11]
	for core in $(CORES); do \
	    echo "ansible-core $$core"; \
	    ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/ansible/collections" PYTHONPATH="$(CURDIR)/ansible/collections" \
	        PATH="$(CURDIR)/build/ansible-core-$$core/bin:$(BIN):$$PATH" python -m pytest -q --import-mode=importlib -p no:cacheprovider \
	        tests/unit tests/project/test_validate.py tests/director/test_inventory.py tests/director/test_info_module.py $(ARGUMENTS) || exit 1; done

# With another ansible-core than the one that we develop with: CORE=2.17.
test-fleet: $(if $(CORE),build/ansible-core-$(CORE)/ready,setup-ansible)  ## run the scenarios on fresh systemd hosts (containers) [SCENARIOS="ktls hardening"] [CORE=2.17]
	ANSIBLE_VENV="$(if $(CORE),$(CURDIR)/build/ansible-core-$(CORE),$(FLEET_VENV))" molecule/run.sh $(SCENARIOS)

bench-fleet: setup-ansible  ## measure what Ansible costs a host, over 1 to 16 (containers): make bench-fleet [ARGUMENTS="--hosts 4"]
	molecule/run.sh --command $(FLEET_BIN)/python molecule/speed.py --into appliance/engine/bench/results/fleet.md $(ARGUMENTS)

sanity-ansible: setup-ansible  ## run ansible-test sanity on the collection as it is built
	ansible/developing/run_sanity.sh $(ARGUMENTS)

lint-ansible: setup-ansible  ## check the style of playbooks, roles and plugins
	$(FLEET) yamllint --strict .
	$(FLEET) ansible-lint --offline --strict
	$(FLEET) python ansible/developing/role_documents.py --check
	$(FLEET) python ansible/developing/plugin_documents.py --check
	$(BIN)/ruff check --config ansible/developing/ruff.toml plugins tests molecule ansible/developing packer appliance/tests
	$(BIN)/ruff format --check --config ansible/developing/ruff.toml plugins tests molecule ansible/developing packer appliance/tests

roles: setup-ansible  ## make defaults and READMEs of the roles, and the references of inventory and plugins
	$(FLEET) python ansible/developing/role_documents.py
	$(FLEET) python ansible/developing/plugin_documents.py

collection: setup-ansible  ## build the collection into build/
	$(FLEET) ansible-galaxy collection build --force --output-path build

$(DASHBOARDS_VENV)/ready: appliance/monitoring/requirements.lock
	"$(PYTHON)" -m venv --clear "$(DASHBOARDS_VENV)"
	$(DASHBOARDS_VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
	    -r appliance/monitoring/requirements.lock
	touch $@

dashboards: $(DASHBOARDS_VENV)/ready  ## generate the Grafana dashboards
	$(DASHBOARDS) $(CURDIR)/roles/monitoring/files/dashboards

dashboard-pictures: setup  ## draw the dashboards from ten minutes of real backups, into docs/images
	cd $(ENGINE) && $(BIN)/python tests/monitoring/draw_dashboards.py $(CURDIR)/docs/images

lint-dashboards: setup $(DASHBOARDS_VENV)/ready  ## check that the dashboards are those that would be generated
	$(DASHBOARDS) --check $(CURDIR)/roles/monitoring/files/dashboards
	$(BIN)/ruff check --config ansible/developing/ruff.toml appliance/monitoring
	$(BIN)/ruff format --check --config ansible/developing/ruff.toml appliance/monitoring

lint: setup lint-ansible lint-dashboards  ## check style, words, types and layers
	$(BIN)/python $(ENGINE)/tools/words.py
	cd $(ENGINE) && $(BIN)/ruff check . ../program ../packages ../release
	cd $(ENGINE) && $(BIN)/ruff format --check . ../program ../packages ../release
	cd $(ENGINE) && $(BIN)/mypy
	cd $(ENGINE) && $(BIN)/mypy ../packages ../release ../../packer ../tests/machine.py ../tests/scan.py
	cd $(ENGINE) && $(BIN)/lint-imports
	cd $(PROGRAM) && $(BIN)/lint-imports
	cd $(ENGINE)/bench && $(BIN)/lint-imports

format: setup  ## format the code as lint requires
	$(BIN)/ruff format --config ansible/developing/ruff.toml plugins tests molecule ansible/developing packer appliance/tests appliance/monitoring
	cd $(ENGINE) && $(BIN)/ruff format . ../program ../packages ../release && $(BIN)/ruff check --fix . ../program ../packages ../release

RUN_BENCH := PATH="$(BIN):$$PATH" $(BIN)/python -m strongroom_bench

bench: setup  ## measure against the peers: make bench [ROWS=kernel,empty] [REPEATS=3]; a published text: make bench SUITE=hashbackup [ARGUMENTS=--help]
	$(RUN_BENCH) $(if $(SUITE),suites $(SUITE),rows \
	    $(if $(ROWS),--rows $(ROWS)) $(if $(REPEATS),--repeats $(REPEATS))) $(ARGUMENTS)

bench-network: setup  ## measure daemons, and Bacula: make bench-network [PARTS=loopback,fleet]
	$(RUN_BENCH) network $(if $(PARTS),--parts $(PARTS)) $(ARGUMENTS)

bench-sharing: setup  ## measure sharing between clients: make bench-sharing [ARGUMENTS="/usr/share --clients 20"]
	$(RUN_BENCH).sharing $(ARGUMENTS)

bench-growth: setup  ## measure how cost grows with the repository: make bench-growth [ARGUMENTS="--sizes 1e3 1e5 1e6"]
	$(RUN_BENCH).growth $(ARGUMENTS)

fuzz: setup  ## fuzz the decoders: make fuzz [SECONDS_EACH=60] [TARGETS=listing]
	$(BIN)/pip install --quiet --require-hashes --only-binary :all: \
	    -r $(ENGINE)/requirements-fuzz.lock
	cd $(ENGINE) && failed=""; for target in $(TARGETS); do \
	    corpus="$(CURDIR)/build/fuzz/$$target"; \
	    mkdir -p "$$corpus.new"; \
	    $(BIN)/python "fuzz/fuzz_$$target.py" --seeds "$$corpus"; \
	    $(BIN)/python "fuzz/fuzz_$$target.py" "$$corpus.new" "$$corpus" $$(ls -d "fuzz/corpus/$$target" 2>/dev/null) \
	        -max_total_time=$(SECONDS_EACH) -timeout=60 \
	        -artifact_prefix="$(CURDIR)/build/fuzz/$$target-" || failed="$$failed $$target"; \
	done; \
	test -z "$$failed" || { echo "failed:$$failed; inputs are in build/fuzz" >&2; exit 1; }

fuzz-nightly: setup  ## fuzz for an hour in all, from the inputs of appliance/engine/fuzz/corpus
	$(MAKE) fuzz SECONDS_EACH=$$((3600 / $(words $(TARGETS))))

man: setup  ## write the manual pages into build/man1
	$(BIN)/python -m strongroom.cli.manual_page build/man1

reference: setup  ## regenerate docs/reference
	$(BIN)/strongroom config docs --into docs/reference
	$(BIN)/python -m strongroom.cli.command_reference docs/reference
	$(BIN)/python -m strongroom_appliance.answers docs/reference

picture: setup  ## draw which package imports which, and count lines and modules (bench/results/imports.md)
	$(BIN)/python -m strongroom_bench.import_picture after

$(VENV)/docs-ready: $(VENV)/ready $(ENGINE)/requirements-docs.lock
	$(BIN)/pip install --quiet --require-hashes -r $(ENGINE)/requirements-docs.lock
	touch $@

docs: $(VENV)/docs-ready  ## build the documentation into build/docs, every link checked
	$(BIN)/strongroom config docs --check --quiet --into docs/reference
	$(BIN)/python -m strongroom.cli.command_reference --check docs/reference
	$(BIN)/python -m strongroom_appliance.answers --check docs/reference
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --fresh-env \
	    --builder html docs build/docs

lock: setup  ## update the locked library versions, with hashes, for every Python we support
	$(BIN)/pip install --quiet uv
	cd $(ENGINE) && $(LOCK) --extra dev --no-emit-package strongroom \
	    --output-file requirements.lock pyproject.toml ../program/pyproject.toml
	cd $(ENGINE) && $(LOCK) --extra director --extra postgresql --extra s3 --extra build --no-emit-package strongroom \
	    --constraint requirements.lock --output-file requirements-runtime.lock pyproject.toml ../program/pyproject.toml
	cd $(ENGINE) && $(LOCK) --extra docs --constraint requirements.lock \
	    --output-file requirements-docs.lock pyproject.toml
	cd $(ENGINE) && $(LOCK) --extra fuzz --constraint requirements.lock \
	    --output-file requirements-fuzz.lock pyproject.toml
	cd $(ENGINE) && $(LOCK) --extra browser --constraint requirements.lock \
	    --output-file requirements-browser.lock pyproject.toml
	$(LOCK) --output-file appliance/release/requirements.lock appliance/release/requirements.txt
	$(LOCK) --output-file appliance/monitoring/requirements.lock appliance/monitoring/requirements.txt
	$(LOCK) --fork-strategy fewest --output-file ansible/requirements.lock ansible/requirements.txt

clean:  ## remove what was built, and the environment
	rm -rf $(VENV) $(FLEET_VENV) $(DASHBOARDS_VENV) build tests/output $(ENGINE)/build $(ENGINE)/dist $(ENGINE)/src/strongroom.egg-info $(ENGINE)/bench/build $(ENGINE)/bench/src/strongroom_bench.egg-info
	rm -rf $(PROGRAM)/build $(PROGRAM)/.{ruff,pytest,import_linter}_cache $(PROGRAM)/.hypothesis $(PROGRAM)/src/strongroom_appliance.egg-info
	rm -rf $(ENGINE)/.mypy_cache $(ENGINE)/.ruff_cache $(ENGINE)/.pytest_cache
	rm -rf $(ENGINE)/.import_linter_cache $(ENGINE)/.hypothesis
	find $(ENGINE) $(PROGRAM) -name __pycache__ -type d -prune -exec rm -rf {} +
