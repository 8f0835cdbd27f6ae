#!/usr/bin/env bash
# Make a host of a root that was kept by somebody else, strictly: strict.sh ROOT PUBLIC_KEY. Called by host.sh.
#
# Secure shell is on port 2222 and for ann alone, whose sudo wants a password and keeps to the umask; all speak German; nothing in
# /var/tmp can be executed.
set -euo pipefail

root=$1
chroot "$root" useradd --create-home --shell /bin/bash --groups sudo ann
echo 'ann:sesam' | chroot "$root" chpasswd
install -d -m 0700 "$root/home/ann/.ssh"
install -m 0600 "$2" "$root/home/ann/.ssh/authorized_keys"
chroot "$root" chown -R ann:ann /home/ann/.ssh
rm -rf "$root/root/.ssh"
printf 'Port 2222\nPermitRootLogin no\n' > "$root/etc/ssh/sshd_config.d/00-own.conf"

echo 'LANG=de_DE.UTF-8' > "$root/etc/default/locale"
echo 'LANG=de_DE.UTF-8' > "$root/etc/locale.conf"

sed -i 's/^#\? *UMASK.*/UMASK 077/' "$root/etc/login.defs"
printf 'Defaults umask=0077, umask_override\n' > "$root/etc/sudoers.d/umask"

echo 'tmpfs /var/tmp tmpfs noexec,nosuid,nodev,mode=1777 0 0' > "$root/etc/fstab"
