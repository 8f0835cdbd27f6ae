#!/usr/bin/env bash
# Install, upgrade, downgrade, remove and purge the packages on a fresh systemd host (a container):
#
#     run_on_host.sh [SUITE]      SUITE: bookworm (Python 3.11) or trixie (3.13)
#
# Needs Debian, root, mmdebstrap and systemd-container, and the packages that `make packages` built.
# The host has no network but its loopback, and Debian's packages that ours depend on. It is thrown
# away afterwards. Exit status: 0 when every step was right, 99 when the host never came to an end.
set -euo pipefail

suite=${1:-bookworm}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../../.." && pwd)
build=${STRONGROOM_PACKAGES_FOLDER:-$project/build/packages}
host_seconds=${HOST_SECONDS:-1200}
host=$build/$suite-host

say() { printf '%s: %s\n' "$suite" "$*" >&2; }
command -v systemd-nspawn >/dev/null || { say "systemd-nspawn is missing: apt-get install systemd-container"; exit 98; }
[ -d "$build/$suite" ] || { say "there are no packages: make packages SUITES=$suite"; exit 98; }

made_from=$(sha256sum < "${BASH_SOURCE[0]}" | cut -c1-16)
if [ "$(cat "$host.made-from" 2>/dev/null)" != "$made_from" ]; then
    say "making the host's root"
    rm -rf "$host" "$host.made-from"
    mmdebstrap --quiet --variant=apt \
        --include=systemd-sysv,dbus,iproute2,procps,python3,tzdata,libstdc++6,libgcc-s1,zlib1g \
        "$suite" "$host"
    printf '%s\n' "$made_from" > "$host.made-from"
fi

work=$(mktemp -d "${TMPDIR:-/var/tmp}/strongroom-packages.XXXXXXXX")
end() {
    umount "$work/root" 2>/dev/null || true
    umount "$work" 2>/dev/null || true
    rmdir "$work" 2>/dev/null || true
}
trap end EXIT
mount -t tmpfs -o size=3g tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay -o "lowerdir=$host,upperdir=$work/upper,workdir=$work/work" overlay "$work/root"
root=$work/root

say "making newer packages, and the repositories"
newer=$work/newer
mkdir -p "$root/srv/apt"
TMPDIR=$work "$here/repackage.sh" "$build/$suite" "$newer" 9.0
repository() {
    "$project/appliance/packages/apt_repository.py" "$root/srv/apt/$1" "$suite=$2" \
        --time "$(date +%s)" --key-folder "$work/$3"
}
repository strangers "$build/$suite" another-key
repository old "$build/$suite" key
# One package does not match the index of it.
cp -a "$root/srv/apt/old" "$root/srv/apt/damaged"
printf 'x' | dd of="$(find "$root/srv/apt/damaged" -name 'strongroom-agent_*.deb')" \
    bs=1 seek=1000 conv=notrunc status=none
# Web servers know changes by the second.
sleep 1.1
cp "$build/$suite"/*.deb "$newer/"
repository new "$newer" key

install -m 0755 "$here/on_host.sh" "$root/usr/local/bin/packages-on-host"
install -m 0755 "$project/appliance/engine/tests/systemd_host/on_host.sh" "$root/usr/local/bin/use-units"
printf '127.0.0.1 localhost host\n' > "$root/etc/hosts"
cat > "$root/etc/systemd/system/on-host.service" <<END
[Unit]
Description=Steps of the test
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/usr/local/bin/packages-on-host $suite > /result.log 2>&1; echo "HOST END \$?" >> /result.log; systemctl poweroff --force'
[Install]
WantedBy=multi-user.target
END
systemctl --root="$root" enable --quiet on-host.service

say "starting the host"
timeout --kill-after=5 "$host_seconds" systemd-nspawn --quiet -D "$root" -b --register=no --keep-unit \
    --private-network --console=pipe > "$work/console.log" 2>&1 < /dev/null || true
cat "$root/result.log" 2>/dev/null || tail -40 "$work/console.log"
result=$(sed -n 's/^HOST END \([0-9]*\)$/\1/p' "$root/result.log" 2>/dev/null | tail -1)
exit "${result:-99}"
