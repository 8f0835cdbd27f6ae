#!/usr/bin/env bash
# Make the environment that the packages contain: make_environment.sh FOLDER
#
# Runs in a root of the suite, in the source of the packages: it takes engine/ and wheels/ beside it.
# Nothing but the libraries of requirements-runtime.lock, each checked against its hash, and the
# engine; no pip, and no program but strongroom and python.
set -euo pipefail

folder=$1
tools=$PWD/tools

python3 -m venv "$tools"
pip=("$tools/bin/pip" --disable-pip-version-check --no-input)
install=(install --quiet --no-index --no-compile --no-warn-script-location --root-user-action ignore)

awk '/^setuptools==/ {found = 1} found {print} found && !/\\$/ {exit}' engine/requirements.lock \
    > setuptools.lock
"${pip[@]}" "${install[@]}" --require-hashes --find-links wheels -r setuptools.lock
"${pip[@]}" wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir engine-wheel ./engine

rm -rf "$folder"
python3 -m venv --without-pip "$folder"
"${pip[@]}" --python "$folder/bin/python" "${install[@]}" --require-hashes --only-binary :all: \
    --find-links wheels -r engine/requirements-runtime.lock
"${pip[@]}" --python "$folder/bin/python" "${install[@]}" --no-deps --find-links engine-wheel strongroom

find "$folder/bin" -mindepth 1 ! -name 'python*' ! -name strongroom -delete
find "$folder" -name direct_url.json -delete
rm -rf "$folder/include" "$folder/.gitignore"
