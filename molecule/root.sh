#!/usr/bin/env bash
# Make the root that hosts of a suite are laid over: root.sh SUITE [kernel|bare]. Prints its folder.
#
# With `kernel` it is that of a virtual machine, which has a kernel and starts its own network. With `bare` it has Python, secure
# shell and sudo alone; what roles install is in /srv/debian, the only source of apt.
#
# It is cached in build/fleet (or $STRONGROOM_FLEET_FOLDER), and made anew when this script changes. Hosts have no way
# out of their network, so it holds every package that a role installs.
set -euo pipefail

suite=$1
kind=$suite${2:+-$2}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${STRONGROOM_FLEET_FOLDER:-$here/../build/fleet}
packages=systemd,systemd-sysv,dbus,udev,python3,python3-apt,openssh-server,iproute2,procps,kmod,sudo,ca-certificates
packages+=,prometheus,prometheus-node-exporter,prometheus-alertmanager
packages+=,nftables,auditd,apparmor,unattended-upgrades,xfsprogs,ethtool,util-linux,e2fsprogs,openssl,tzdata,libstdc++6
hooks=()
if [ "${2:-}" = kernel ]; then
    packages+=,linux-image-cloud-amd64,initramfs-tools
    hooks=(--customize-hook='systemctl --root="$1" --quiet enable systemd-networkd.service'
        --customize-hook='systemctl --root="$1" --quiet mask systemd-networkd-wait-online.service')
fi
kept=(--dpkgopt='path-exclude=/usr/share/locale/*')
if [ "${2:-}" = bare ]; then
    mirrored="nftables auditd apparmor unattended-upgrades xfsprogs fio openssl tzdata libstdc++6"
    mirrored+=" prometheus prometheus-node-exporter prometheus-alertmanager"
    packages=systemd,systemd-sysv,dbus,udev,python3,openssh-server,sudo,locales
    kept=()
    # shellcheck disable=SC2016
    hooks=(--customize-hook='"'$here'/mirror.sh" "$1" '"$mirrored"
        --customize-hook='chroot "$1" localedef -i de_DE -f UTF-8 de_DE.UTF-8')
fi

mkdir -p "$build"
build=$(cd "$build" && pwd)
made=$(cat "${BASH_SOURCE[0]}" "$here/mirror.sh" | sha256sum | cut -c1-16)
root=$build/$kind-$made
exec 9> "$build/$kind.lock"
flock 9
if [ ! -d "$root" ]; then
    command -v mmdebstrap > /dev/null || { echo "mmdebstrap is missing: apt-get install mmdebstrap" >&2; exit 98; }
    echo "making the root of $kind" >&2
    find "$build" -maxdepth 1 -regextype posix-extended -regex ".*/$kind-[0-9a-f]{16}(\.part)?" -exec rm -rf {} +
    mmdebstrap --quiet --variant=minbase --aptopt='Acquire::Languages "none"' --include="$packages" \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        "${kept[@]}" \
        --customize-hook='rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/resolv.conf; : > "$1"/etc/machine-id' \
        --customize-hook='systemctl --root="$1" --quiet disable apt-daily.timer apt-daily-upgrade.timer' \
        "${hooks[@]}" "$suite" "$root.part" >&2
    mv "$root.part" "$root"
fi
echo "$root"
