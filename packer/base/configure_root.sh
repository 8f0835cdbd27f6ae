#!/bin/sh
# Runs inside the root of the base disk: makes it Strongroom's. Whatever needs no running system is done here, because a
# virtual machine that is emulated takes twenty times as long.
set -eu

echo strongroom > /etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 strongroom\n::1 localhost ip6-localhost ip6-loopback\n' > /etc/hosts
printf '# The initial RAM disk mounts the root and the state partition.\n' > /etc/fstab
printf 'tmpfs /dev/shm tmpfs nosuid,nodev,noexec 0 0\n' >> /etc/fstab
for name in issue issue.net; do
    printf 'Access to this system is restricted to authorized users. Its use is logged and audited,\n' > /etc/$name
    printf 'and unauthorized use is prohibited.\n\n' >> /etc/$name
done
sed -i 's/^PASS_MIN_DAYS.*/PASS_MIN_DAYS 1/' /etc/login.defs
printf '%s\n' 'minlen = 15' 'minclass = 4' 'dcredit = -1' 'ucredit = -1' 'lcredit = -1' 'ocredit = -1' 'retry = 3' \
    >> /etc/security/pwquality.conf
printf 'LANG=C.UTF-8\n' > /etc/default/locale
ln -sf ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf

apt-get install --quiet --quiet --yes --no-install-recommends /var/cache/strongroom-packages/*.deb > /dev/null

# Updates come as a whole, into the other root; a root is never changed while it runs.
systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service \
    unattended-upgrades.service
# Would offer secure shell to the hypervisor (AF_VSOCK) without asking.
mkdir -p /etc/systemd/system-generators
ln -sf /dev/null /etc/systemd/system-generators/systemd-ssh-generator
systemctl --quiet mask ctrl-alt-del.target kexec.target debug-shell.service systemd-pstore.service
systemctl --quiet enable systemd-networkd systemd-resolved systemd-timesyncd strongroom-state-grow \
    nftables auditd apparmor ssh
# The role monitoring sets them up, and starts them.
systemctl --quiet disable prometheus prometheus-node-exporter prometheus-alertmanager
chmod 0750 /etc/sudoers.d
chmod 0440 /etc/sudoers.d/50-strongroom-image
visudo --check --quiet
chmod 0640 /etc/audit/rules.d/70-strongroom-image.rules
chmod 0600 /etc/ssh/sshd_config
# What a user's shell reads at its start is for that user.
chmod 0600 /etc/skel/.[a-z]* /root/.[a-z]*
systemctl --quiet disable e2scrub_reap.service fstrim.timer e2scrub_all.timer 2> /dev/null || true

# Which packages are installed belongs to the root, and not to the state.
mkdir -p /usr/lib/sysimage /state /efi
mv /var/lib/dpkg /usr/lib/sysimage/dpkg
ln -s ../../usr/lib/sysimage/dpkg /var/lib/dpkg

update-initramfs -u -k all > /dev/null

# Nothing in it is any machine's own.
: > /etc/machine-id
rm -f /etc/ssh/ssh_host_* /var/lib/systemd/random-seed /var/lib/dbus/machine-id /etc/.pwd.lock
ln -s /etc/machine-id /var/lib/dbus/machine-id
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/log/*.log /var/log/apt/* /var/cache/ldconfig/aux-cache
