#!/usr/bin/env bash
# Install Strongroom on a fresh systemd host (a container) from nothing but the release folder:
#
#     install_on_host.sh SUITE [FOLDER]      SUITE: bookworm (Python 3.11) or trixie (3.13)
#
# The host has Debian's pipx and ansible-core, the folder read-only, and no network but its loopback. In it run the steps of
# on_host.sh. It is thrown away afterwards. Needs Debian, root, mmdebstrap and systemd-container. Exit status: 0 when every
# step was right, 99 when the host never came to an end.
set -euo pipefail

suite=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../../.." && pwd)
release=$(cd "${2:-$(ls -d "$project"/build/release/[0-9]*)}" && pwd)
build=$project/build/release-hosts
host=$build/$suite
host_seconds=${HOST_SECONDS:-1200}

say() { printf '%s: %s\n' "$suite" "$*" >&2; }
command -v systemd-nspawn > /dev/null || { say "systemd-nspawn is missing: apt-get install systemd-container"; exit 98; }
[ -e "$release/SHA256SUMS.sig" ] || { say "there is no release in $release: make release"; exit 98; }
mkdir -p "$build"

made_from=$(sha256sum < "${BASH_SOURCE[0]}" | cut -c1-16)
if [ "$(cat "$host.made-from" 2> /dev/null)" != "$made_from" ]; then
    say "making the host's root"
    rm -rf "$host" "$host.made-from"
    mmdebstrap --quiet --variant=apt \
        --include=systemd-sysv,dbus,iproute2,procps,python3,python3-venv,tzdata,libstdc++6,libgcc-s1,zlib1g,openssh-client,pipx,ansible-core,sudo \
        "$suite" "$host"
    printf '%s\n' "$made_from" > "$host.made-from"
fi

work=$(mktemp -d "${TMPDIR:-/var/tmp}/strongroom-release.XXXXXXXX")
end() {
    umount "$work/root" 2> /dev/null || true
    umount "$work" 2> /dev/null || true
    rmdir "$work" 2> /dev/null || true
}
trap end EXIT
mount -t tmpfs -o size=3g tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay -o "lowerdir=$host,upperdir=$work/upper,workdir=$work/work" overlay "$work/root"
root=$work/root
mkdir -p "$root/root/release"
install -m 0755 "$here/on_host.sh" "$root/usr/local/bin/install-on-host"
printf '127.0.0.1 localhost vault.example.org host\n' > "$root/etc/hosts"
cat > "$root/etc/systemd/system/on-host.service" << END
[Unit]
Description=Steps of the test
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/usr/local/bin/install-on-host $suite > /result.log 2>&1; echo "HOST END \$?" >> /result.log; systemctl poweroff --force'
[Install]
WantedBy=multi-user.target
END
systemctl --root="$root" enable --quiet on-host.service

say "starting the host"
timeout --kill-after=5 "$host_seconds" systemd-nspawn --quiet -D "$root" -b --register=no --keep-unit \
    --private-network --bind-ro="$release:/root/release" --console=pipe > "$work/console.log" 2>&1 < /dev/null || true
cat "$root/result.log" 2> /dev/null || tail -40 "$work/console.log"
result=$(sed -n 's/^HOST END \([0-9]*\)$/\1/p' "$root/result.log" 2> /dev/null | tail -1)
exit "${result:-99}"
