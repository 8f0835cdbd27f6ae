#!/usr/bin/env bash
# Make a disk of a Debian that has first boot and console of the appliance: make_disk.sh FOLDER
#
# FOLDER gets system.disk, kernel and initrd. Needs Debian, root and mmdebstrap; the root of the guest
# stays in build/vm and is used again. It is not an appliance image: nothing is hardened, it has one slot.
set -euo pipefail

folder=$1
suite=trixie
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../../../.." && pwd)
engine=$project/appliance/engine
program=$project/appliance/program
build=${STRONGROOM_VM_FOLDER:-$project/build/vm}
base=$build/$suite-root
root=$build/console-root

say() { printf '%s\n' "$*" >&2; }
"$engine/tests/vm/run_in_guest.sh" "$suite" --only-root

# What strongroom-appliance depends on, beside the project's own packages.
packages=$(sed -n '/^Package: strongroom-appliance$/,$ {/^Depends:/,/^Recommends:/p}' \
    "$project/appliance/packages/debian/control" | grep -v '^Recommends' | sed 's/^Depends://' |
    tr ',' '\n' | sed 's/(.*)//; s/ //g; /strongroom/d; /\${/d; /^$/d' | paste -sd,)
made_from=$(cat "$base.made-from" - "${BASH_SOURCE[0]}" <<< "$packages" | sha256sum | cut -c1-16)
if [ "$(cat "$root.made-from" 2>/dev/null)" != "$made_from" ]; then
    say "making the root with $packages"
    rm -rf "$root" "$root.made-from"
    mmdebstrap --quiet --variant=apt \
        --include="linux-image-cloud-amd64,initramfs-tools,systemd-sysv,systemd-cryptsetup,dbus,kmod,python3-venv,procps,$packages" \
        "$suite" "$root"
    cp -a "$base/opt/strongroom" "$root/opt/strongroom"
    : > "$root/etc/machine-id"
    rm -f "$root"/etc/ssh/ssh_host_*
    systemctl --root="$root" --quiet disable ssh.service
    systemctl --root="$root" --quiet enable systemd-networkd.service systemd-resolved.service
    systemctl --root="$root" --quiet mask apt-daily.timer apt-daily-upgrade.timer \
        systemd-networkd-wait-online.service
    printf '%s\n' "$made_from" > "$root.made-from"
fi

say "installing the project"
rm -rf "$root/engine" "$root/program"
mkdir -p "$root/engine" "$root/program"
cp -r "$engine/src" "$engine/build_backend" "$engine/pyproject.toml" "$root/engine/"
cp -r "$program/src" "$program/pyproject.toml" "$root/program/"
chroot "$root" /opt/strongroom/bin/pip install --quiet --disable-pip-version-check --no-index \
    --no-deps --no-build-isolation --force-reinstall /engine /program
units=$root/usr/lib/systemd/system
install -m 0644 "$project"/appliance/systemd/*.service "$project"/appliance/systemd/*.socket "$units/"
install -D -m 0644 "$project/appliance/systemd/sysusers.d/strongroom.conf" "$root/usr/lib/sysusers.d/strongroom.conf"
# As the package puts them.
while read -r source target; do
    mkdir -p "$root/$target"
    cp -r "$project/appliance/$source" "$root/$target/"
done < "$project/appliance/packages/debian/strongroom-appliance.install"
while read -r target link; do ln -sfn "$target" "$root/$link"; done \
    < "$project/appliance/packages/debian/strongroom-appliance.links"
ln -sfn /opt/strongroom/bin/strongroom "$root/usr/bin/strongroom"
systemctl --root="$root" --quiet enable strongroom-firstboot.service strongroom-console.service \
    strongroom-installation.service

say "making the disk"
rm -f "$folder/system.disk"
truncate -s 4G "$folder/system.disk"
mkfs.ext4 -q -F -d "$root" "$folder/system.disk"
cp "$(find "$root/boot" -name 'vmlinuz-*' | sort -V | tail -1)" "$folder/kernel"
cp "$(find "$root/boot" -name 'initrd.img-*' | sort -V | tail -1)" "$folder/initrd"
