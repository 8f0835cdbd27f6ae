#!/usr/bin/env bash
# Install the package on a real systemd host (a container) and use it as an operator does:
#
#     run_on_host.sh [SUITE [STEPS]]      SUITE: bookworm (Python 3.11) or trixie (3.13)
#
# STEPS: on_host.sh (the units of the daemons) or single_machine.sh (the schedule of one machine).
#
# Needs Debian, root, mmdebstrap and systemd-container. The host has no network but its loopback. It
# is an overlay over the root that tests/vm makes, thrown away afterwards. Exit status: 0 when every
# step was right, 99 when the host never came to an end.
set -euo pipefail

suite=${1:-bookworm}
steps=${2:-on_host.sh}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
engine=$(cd "$here/../.." && pwd)
project=$(cd "$engine/../.." && pwd)
build=${STRONGROOM_VM_FOLDER:-$project/build/vm}
host_seconds=${HOST_SECONDS:-300}

say() { printf '%s: %s\n' "$suite" "$*" >&2; }
command -v systemd-nspawn >/dev/null || { say "systemd-nspawn is missing: apt-get install systemd-container"; exit 98; }

"$engine/tests/vm/run_in_guest.sh" "$suite" --only-root
work=$(mktemp -d "${TMPDIR:-/var/tmp}/strongroom-host.XXXXXXXX")
end() {
    umount "$work/root" 2>/dev/null || true
    umount "$work" 2>/dev/null || true
    rmdir "$work" 2>/dev/null || true
}
trap end EXIT
mount -t tmpfs -o size=2g tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay -o "lowerdir=$build/$suite-root,upperdir=$work/upper,workdir=$work/work" overlay "$work/root"

root=$work/root
mkdir -p "$root/engine" "$root/units"
cp -r "$engine/src" "$engine/build_backend" "$engine/pyproject.toml" "$root/engine/"
cp -r "$project/appliance/systemd/." "$root/units/"
chroot "$root" /opt/strongroom/bin/pip install --quiet --disable-pip-version-check --no-index \
    --no-deps --no-build-isolation /engine
install -m 0755 "$here/$steps" "$root/usr/local/bin/on-host"
rm -f "$root/etc/systemd/system/multi-user.target.wants/guest-tests.service"
cat > "$root/etc/systemd/system/on-host.service" <<'EOF'
[Unit]
Description=Steps of the test
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/usr/local/bin/on-host > /result.log 2>&1; echo "HOST END $?" >> /result.log; systemctl poweroff --force'
[Install]
WantedBy=multi-user.target
EOF
chroot "$root" systemctl enable --quiet on-host.service

say "starting the host"
timeout --kill-after=5 "$host_seconds" systemd-nspawn --quiet -D "$root" -b --register=no --keep-unit \
    --private-network --console=pipe > "$work/console.log" 2>&1 < /dev/null || true
cat "$root/result.log" 2>/dev/null || tail -40 "$work/console.log"
result=$(sed -n 's/^HOST END \([0-9]*\)$/\1/p' "$root/result.log" 2>/dev/null | tail -1)
exit "${result:-99}"
