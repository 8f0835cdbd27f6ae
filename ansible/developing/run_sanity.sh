#!/usr/bin/env bash
# Run `ansible-test sanity` on the collection as it is built: run_sanity.sh [OPTIONS OF ansible-test]
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PATH=$project/.venv-ansible/bin:$PATH
# Outside of the clone: ansible-test leaves out what git ignores there.
folder=$(mktemp -d /var/tmp/strongroom-sanity.XXXXXXXX)
trap 'rm -rf "$folder"' EXIT
content=$folder/ansible_collections/strongroom/backup
mkdir -p "$content"
tar --create --directory "$project" --exclude=__pycache__ \
    galaxy.yml README.md CHANGELOG.md LICENSE meta plugins roles tests/unit tests/sanity | tar --extract --directory "$content"
# ansible-test loads pip from its own host; here pip comes from the package index, as all the rest does.
export HOME=$folder/home
mkdir -p "$HOME/.ansible/test/cache"
cat > "$HOME/.ansible/test/cache/get_pip_24_2.py" << 'EOS'
import subprocess, sys
wanted = [one for one in sys.argv[1:] if one not in ("--no-setuptools", "--no-wheel")]
subprocess.run([sys.executable, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *wanted], check=True)
EOS
cd "$content"
ansible-test sanity --venv --requirements --color no --python "$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" "$@"
