#!/usr/bin/env bash
# Run scenarios on fresh hosts: run.sh [SCENARIO...], by default all. Needs root, mmdebstrap, systemd-container, iproute2.
# Or a command of another kind in such a laboratory: run.sh --command PROGRAM [ARGUMENT...]
#
# The hosts and the Ansible that works on them have their own network, which nothing leaves. All of it is removed at the
# end. COMMAND=converge leaves out the rest of the sequence, for development. ANSIBLE_VENV names another environment with
# Ansible and Molecule than .venv-ansible.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
scenarios=("$@")
[ $# -gt 0 ] || mapfile -t scenarios < <(cd molecule && find . -mindepth 2 -maxdepth 2 -name molecule.yml -printf '%h\n' | sed 's|./||' | sort)

for needed in systemd-nspawn mmdebstrap ip; do
    command -v "$needed" > /dev/null ||
        { echo "$needed is missing: apt-get install mmdebstrap systemd-container iproute2" >&2; exit 98; }
done
LABORATORY=$(mktemp -d /var/tmp/strongroom-fleet.XXXXXXXX)
LABORATORY_NETWORK=strongroom-$$
export LABORATORY LABORATORY_NETWORK
end() {
    local folder
    [ -z "${server:-}" ] || kill "$server" 2> /dev/null || true
    for folder in "$LABORATORY"/*/; do
        [ ! -e "$folder/system.disk" ] || "$here/guest.sh" down "$(basename "$folder")" || true
        [ ! -d "$folder/root" ] || "$here/host.sh" down "$(basename "$folder")" || true
    done
    ip netns del "$LABORATORY_NETWORK" 2> /dev/null || true
    rm -rf --one-file-system "$LABORATORY"
}
trap end EXIT
# Nothing can be fetched in there, so the roots are made before.
for suite in bookworm trixie; do "$here/root.sh" "$suite" > /dev/null; done
if [ "${1:-}" != --command ]; then
    suites_with() { (cd "$here" && sed -n "s/.*suite: \([a-z]*\),.*$1.*/\1/p" "${scenarios[@]/%//molecule.yml}" | sort -u); }
    for suite in $(suites_with 'kind: guest'); do
        "$here/root.sh" "$suite" kernel > /dev/null
    done
    for suite in $(suites_with 'root: '); do
        "$here/root.sh" "$suite" bare > /dev/null
    done
fi
ssh-keygen -q -t ed25519 -N '' -f "$LABORATORY/key"
ip netns add "$LABORATORY_NETWORK"
ip -n "$LABORATORY_NETWORK" link set lo up
ip -n "$LABORATORY_NETWORK" link add br0 type bridge
ip -n "$LABORATORY_NETWORK" address add 10.88.0.1/24 dev br0
ip -n "$LABORATORY_NETWORK" address add fd88::1/64 dev br0 nodad
ip -n "$LABORATORY_NETWORK" link set br0 up

# Connections are kept by address, and other laboratories have the same addresses.
export ANSIBLE_SSH_CONTROL_PATH_DIR=$LABORATORY/cp
export ANSIBLE_COLLECTIONS_PATH=$PWD/ansible/collections ANSIBLE_HOME=$LABORATORY/ansible
export PATH=${ANSIBLE_VENV:-$PWD/.venv-ansible}/bin:$PATH MOLECULE_EPHEMERAL_DIRECTORY MOLECULE_GLOB='molecule/*/molecule.yml'
served=build/packages/apt
if [ -d "$served" ]; then
    nsenter --net="/run/netns/$LABORATORY_NETWORK" \
        python3 -m http.server --bind 10.88.0.1 --directory "$served" 8000 > "$LABORATORY/served.log" 2>&1 &
    server=$!
fi
if [ "${1:-}" = --command ]; then
    nsenter --net="/run/netns/$LABORATORY_NETWORK" "${@:2}"
    exit
fi
failed=()
for scenario in "${scenarios[@]}"; do
    MOLECULE_EPHEMERAL_DIRECTORY=$LABORATORY/ansible/$scenario
    mkdir -p "$MOLECULE_EPHEMERAL_DIRECTORY"
    began=$SECONDS
    if [[ "$scenario" =~ ^(bare|engine|fleet|measure|monitoring|one_file|site|upgrade)$ ]] && [ ! -d "$served" ]; then
        echo "the scenario $scenario needs packages: run make packages first" >&2
        failed+=("$scenario")
        continue
    fi
    if [ "$scenario" = one_file ] && ! compgen -G 'build/release/*/strongroom.pyz' > /dev/null; then
        echo "the scenario $scenario needs strongroom.pyz: run make release first" >&2
        failed+=("$scenario")
        continue
    fi
    # Not `ip netns exec`, which hides the cgroups. Molecule looks for its configuration beside a folder `.git`, and in
    # a worktree that is a file.
    nsenter --net="/run/netns/$LABORATORY_NETWORK" molecule --base-config .config/molecule/config.yml \
        "${COMMAND:-test}" --scenario-name "$scenario" || failed+=("$scenario")
    echo "$scenario: $((SECONDS - began)) s"
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
