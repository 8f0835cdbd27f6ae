#!/usr/bin/env bash
# Make the Python environment: setup_environment.sh PYTHON VENV
#
# Every library comes from requirements.lock and is checked against the hash written there. What
# Debian must give (python3-venv) is installed if it is missing and we may; else we say what to do.
set -euo pipefail

python=$1
venv=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
    printf 'setup: %s\n' "$1" >&2
    exit 1
}

install_from_debian() {
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            as_root=(sudo -n)
        else
            fail "$* missing; run as root: apt-get install $*; then try again"
        fi
    fi
    command -v apt-get >/dev/null || fail "$* missing, and this is not Debian; install it, then try again"
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "$@"
}

command -v "$python" >/dev/null || install_from_debian python3 python3-venv
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is older than 3.11; say which to use: make setup PYTHON=/path/to/python3"
"$python" -c 'import venv, ensurepip' 2>/dev/null || install_from_debian python3-venv

# An environment of another Python, or an incomplete one, is recreated.
wanted=$("$python" -c 'import sys; print(sys.version_info[:2])')
present=$("$venv/bin/python" -c 'import pip, sys; print(sys.version_info[:2])' 2>/dev/null || true)
if [ "$wanted" != "$present" ]; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

"$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
    -r "$here/requirements.lock"
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    -e "$here" -e "$here/bench" -e "$here/../program"
"$venv/bin/strongroom" --version
