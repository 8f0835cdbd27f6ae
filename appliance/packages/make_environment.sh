#!/usr/bin/env bash
# Make the environment that the packages contain: make_environment.sh FOLDER
#
# Runs in a root of the suite, in the source of the packages: it takes engine/, program/ and wheels/
# beside it.
# Nothing but the libraries of requirements-runtime.lock, each checked against its hash, the
# engine and the program of the appliance; no pip, and no programs but ours and python.
set -euo pipefail

folder=$1
tools=$PWD/tools

python3 -m venv "$tools"
pip=("$tools/bin/pip" --disable-pip-version-check --no-input)
install=(install --quiet --no-index --no-compile --no-warn-script-location --root-user-action ignore)

awk '/^setuptools==/ {found = 1} found {print} found && !/\\$/ {exit}' engine/requirements.lock \
    > setuptools.lock
awk '/^[a-z]/ {skip = /^setuptools==/} !skip' engine/requirements-runtime.lock > libraries.lock
"${pip[@]}" "${install[@]}" --require-hashes --find-links wheels -r setuptools.lock

rm -rf "$folder"
python3 -m venv --without-pip "$folder"
"${pip[@]}" --python "$folder/bin/python" "${install[@]}" --require-hashes --only-binary :all: \
    --find-links wheels -r libraries.lock
# The manual pages in the engine's wheel are made by its commands, which need the libraries.
PYTHONPATH=$(echo "$folder"/lib/python3*/site-packages) "${pip[@]}" wheel --quiet --no-index --no-deps \
    --no-build-isolation --wheel-dir our-wheels ./engine ./program
"${pip[@]}" --python "$folder/bin/python" "${install[@]}" --no-deps --find-links our-wheels \
    strongroom strongroom-appliance

find "$folder/bin" -mindepth 1 ! -name 'python*' ! -name 'strongroom*' -delete
find "$folder" -name direct_url.json -delete
# It brings the description of every service of Amazon, 25 MB.
find "$folder"/lib/python3*/site-packages/botocore/data -mindepth 1 -maxdepth 1 -type d \
    ! -name s3 ! -name sts ! -name sso ! -name sso-oidc -exec rm -rf {} +
# The packages have manual pages and completions where Debian looks for them.
rm -rf "$folder/include" "$folder/share" "$folder/.gitignore"
