#!/usr/bin/env bash
# Run the whole suite on a Debian that need not be this machine's, with its Python and its tools:
#
#     run_suite.sh [SUITE [PYTEST ARGUMENTS]]      SUITE: trixie (Python 3.13) or bookworm (3.11)
#
# Needs Debian, root and mmdebstrap. The Debian is a folder under build/debian that is used again;
# the project is copied into it as it is here. It has mounts, processes and a network (loopback
# only) of its own, but this machine's kernel and devices: what needs another kernel is in tests/vm.
# Exit status: that of make test, 98 when it could not begin.
set -euo pipefail

suite=${1:-trixie}
arguments=${2:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
engine=$(cd "$here/../.." && pwd)
project=$(cd "$engine/../.." && pwd)
build=${STRONGROOM_DEBIAN_FOLDER:-$project/build/debian}
root=$build/$suite-root
mkdir -p "$build"

say() { printf '%s: %s\n' "$suite" "$*" >&2; }

command -v mmdebstrap >/dev/null || { say "mmdebstrap is missing: apt-get install mmdebstrap"; exit 98; }
[ "$(id -u)" -eq 0 ] || { say "making a root needs root"; exit 98; }
exec 9> "$build/$suite.lock"
flock --nonblock 9 || { say "the suite runs there already"; exit 98; }

# A root is made anew when packages or libraries change.
made_from=$(cat "$project/.ci/packages" "$engine/requirements.lock" "${BASH_SOURCE[0]}" |
    sha256sum | cut -c1-16)
if [ "$(cat "$root.made-from" 2>/dev/null)" != "$made_from" ]; then
    say "making the root"
    rm -rf "$root" "$root.made-from"
    packages=$(sed '/^#/d' "$project/.ci/packages" | paste -sd,)
    mmdebstrap --quiet --variant=apt --include="$packages" "$suite" "$root"
    say "getting the libraries"
    # By the root's own pip, as the lock names other versions for other Pythons; with this machine's
    # name servers and certificates, as a proxy may have one of its own, but not its folders.
    mkdir -p "$root/etc/ssl/certs" "$root/wheels"
    cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
    cp "$engine/requirements.lock" "$root/wheels/"
    unshare --mount bash -e -c '
        mount --bind /etc/ssl/certs "$1/etc/ssl/certs"
        chroot "$1" python3 -m venv /download
        unset PIP_FIND_LINKS
        chroot "$1" /download/bin/pip download --quiet --disable-pip-version-check --require-hashes \
            --only-binary :all: --dest /wheels -r /wheels/requirements.lock
    ' bash "$root"
    rm -rf "$root/download"
    printf '%s\n' "$made_from" > "$root.made-from"
fi

find "$root/tmp" "$root/var/tmp" -mindepth 1 -delete
rm -rf "$root/strongroom"
mkdir "$root/strongroom"
git -C "$project" ls-files -z --cached --others --exclude-standard |
    tar -C "$project" --null --files-from=- --ignore-failed-read -cf - |
    tar -C "$root/strongroom" --no-same-owner -xf -

# The root becomes "/" by pivot_root: user namespaces are refused to what lives in a chroot.
in_root='
    ip link set lo up
    mount --bind "$1" "$1"
    cd "$1"
    mount -t proc proc proc
    mount --rbind /sys sys
    mount --rbind /dev dev
    mount -t tmpfs tmpfs dev/shm
    pivot_root . .
    umount -l .
    cd /strongroom
    exec make test ARGUMENTS="$2"
'
say "running the suite"
unshare --mount --pid --net --uts --ipc --fork --kill-child \
    env -i HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    bash -e -c "$in_root" bash "$root" "$arguments" 9>&- < /dev/null
