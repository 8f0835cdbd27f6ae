#!/usr/bin/env bash
# Install the package on a real systemd host (a container) and use it as an operator does:
#
#     run_on_host.sh [SUITE [STEPS]]      SUITE: bookworm (Python 3.11), trixie (3.13) or here
#
# STEPS: on_host.sh (the units of the daemons) or single_machine.sh (the schedule of one machine).
#
# Needs Debian, root and systemd-container, and mmdebstrap except with `here`. The host has no network
# but its loopback. It is an overlay over the root that tests/vm makes; with `here` it has this
# machine's /usr, read-only, the libraries of .venv, and nothing else of this machine, so that it is
# there in seconds. It is thrown away afterwards. Exit status: 0 when every step was right, 98 when
# there can be no host here, 99 when the host never came to an end.
set -euo pipefail

suite=${1:-bookworm}
steps=${2:-on_host.sh}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
engine=$(cd "$here/../.." && pwd)
project=$(cd "$engine/../.." && pwd)
build=${STRONGROOM_VM_FOLDER:-$project/build/vm}
host_seconds=${HOST_SECONDS:-300}

say() { printf '%s: %s\n' "$suite" "$*" >&2; }
cannot() { say "$*"; exit 98; }
command -v systemd-nspawn >/dev/null || cannot "systemd-nspawn is missing: apt-get install systemd-container"
[ "$(id -u)" -eq 0 ] || cannot "starting a host needs root"

[ "$suite" = here ] || "$engine/tests/vm/run_in_guest.sh" "$suite" --only-root
work=$(mktemp -d "${TMPDIR:-/var/tmp}/strongroom-host.XXXXXXXX")
end() {
    umount --recursive "$work" 2>/dev/null || true
    rmdir "$work" 2>/dev/null || true
}
trap end EXIT
mount -t tmpfs -o size=2g tmpfs "$work" || cannot "nothing can be mounted here"
root=$work/root

overlay_of_suite() {
    mkdir "$work/upper" "$work/work" "$root"
    mount -t overlay -o "lowerdir=$build/$suite-root,upperdir=$work/upper,workdir=$work/work" overlay "$root"
}

root_of_this_machine() {
    local python folder
    python=$(readlink -f "$project/.venv/bin/python")
    [[ "$python" = /usr/* ]] || cannot "$python is not in /usr, which is all that the host has"
    mkdir -p "$root"/{usr,etc/systemd/system,libraries,proc,sys,dev,run,tmp,var/tmp,root,home,srv,opt}
    chmod 1777 "$root/tmp" "$root/var/tmp"
    for folder in bin sbin lib lib32 lib64 libx32; do
        [ ! -L "/$folder" ] || cp -P "/$folder" "$root/"
    done
    cp -L /etc/os-release "$root/etc/"
    cp -a /etc/alternatives "$root/etc/"
    # With an id it is no first boot, on which systemd would enable every unit of /usr.
    tr -d - < /proc/sys/kernel/random/uuid > "$root/etc/machine-id"
    mount --bind /usr "$root/usr"
    mount -o remount,bind,ro "$root/usr"
    mount --bind "$project"/.venv/lib/python3.*/site-packages "$root/libraries"
    mount -o remount,bind,ro "$root/libraries"
    chroot "$root" "$python" -m venv --without-pip /opt/strongroom
    echo /libraries > "$(echo "$root"/opt/strongroom/lib/python3.*/site-packages)/libraries.pth"
}

# Ends the host with what the command prints and its exit code in /result.log.
unit() {
    cat > "$root/etc/systemd/system/$1.service" <<END
[Unit]
Description=Steps of the test
Requires=basic.target
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c '$2 > /result.log 2>&1; echo "HOST END \$\$?" >> /result.log; systemctl poweroff --force'
END
}

start() {
    rm -f "$root/result.log"
    timeout --kill-after=5 "$2" systemd-nspawn --quiet -D "$root" -b --register=no --keep-unit \
        --private-network --console=pipe "systemd.unit=$1.service" > "$work/console.log" 2>&1 < /dev/null || true
    result=$(sed -n 's/^HOST END \([0-9]*\)$/\1/p' "$root/result.log" 2>/dev/null | tail -1) || true
}

if [ "$suite" = here ]; then root_of_this_machine; else overlay_of_suite; fi
# One of the steps backs up a device.
unit trial "mknod /trial c 1 3"
start trial 60
[ "$result" = 0 ] || cannot "systemd-nspawn cannot start a host here: $(tail -5 "$work/console.log")"

mkdir -p "$root/engine" "$root/units"
cp -r "$engine/src" "$engine/build_backend" "$engine/pyproject.toml" "$root/engine/"
cp -r "$project/appliance/systemd/." "$root/units/"
chroot "$root" /opt/strongroom/bin/python -m pip install --quiet --disable-pip-version-check --no-index \
    --no-deps --no-build-isolation /engine
install -D -m 0755 "$here/$steps" "$root/steps"
unit on-host /steps
say "starting the host"
start on-host "$host_seconds"
cat "$root/result.log" 2>/dev/null || tail -40 "$work/console.log"
exit "${result:-99}"
