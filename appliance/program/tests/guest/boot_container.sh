#!/usr/bin/env bash
# Boot the units on a real systemd (a container) and look at what they did: boot_container.sh
#
# Answers come as a system credential. Needs what make_disk.sh needs, and systemd-container. The data
# disk and the screen are matters of boot_appliance.py. Exit status: 0 when every step was right.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../../../.." && pwd)
engine=$project/appliance/engine
program=$project/appliance/program
lower=${STRONGROOM_VM_FOLDER:-$project/build/vm}/console-root
work=$(mktemp -d "${TMPDIR:-/var/tmp}/strongroom-console.XXXXXXXX")
end() {
    umount "$work/root" 2>/dev/null || true
    umount "$work" 2>/dev/null || true
    rmdir "$work" 2>/dev/null || true
}
trap end EXIT
mount -t tmpfs -o size=2g tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
root=$work/root
mount -t overlay -o "lowerdir=$lower,upperdir=$work/upper,workdir=$work/work" overlay "$root"
rm -rf "$root/engine" "$root/program"
mkdir -p "$root/engine" "$root/program"
cp -r "$engine/src" "$engine/build_backend" "$engine/pyproject.toml" "$root/engine/"
cp -r "$program/src" "$program/pyproject.toml" "$root/program/"
chroot "$root" /opt/strongroom/bin/pip install --quiet --disable-pip-version-check --no-index \
    --no-deps --no-build-isolation --force-reinstall /engine /program
cp "$project"/appliance/systemd/*.service "$root/usr/lib/systemd/system/"

cat > "$root/usr/local/bin/look" <<'EOF'
#!/bin/bash
set -u
failed=0
right() { local what=$1; shift; if "$@" > /tmp/said 2>&1; then echo "right: $what"; else echo "WRONG: $what"; cat /tmp/said; failed=1; fi; }
right "set up" grep -q '"is_ready": true' /var/lib/strongroom/appliance/state.json
right "machine id" grep -Eq '^[0-9a-f]{32}$' /etc/machine-id
right "host name" test "$(hostname)" = vault
right "host key" ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub
right "user" id ann
right "time zone" test "$(readlink /etc/localtime)" = ../usr/share/zoneinfo/Europe/Berlin
right "director" systemctl is-active strongroom-director
right "storage daemon" systemctl is-active strongroom-storage
right "ssh server" systemctl is-active ssh
right "ssh keys" sh -c 'sshd -T | grep -q /etc/ssh/strongroom-keys/%u'
right "address" sh -c 'ip address show dev host0 | grep -q 192.0.2.10/24'
right "token" test -s /var/lib/strongroom/appliance/tokens/servers-1
right "nothing left to apply" sh -c 'strongroom-appliance first-boot | grep -q "set up before"'
right "applied again" sh -c 'strongroom-appliance apply /answers.yml | grep -q "nothing was changed"'
export HOME=/root
right "daemons answer" strongroom status
right "bundle" strongroom-appliance bundle /root/support.tar.gz
right "listening" sh -c '! ss -Hltn | grep -Ev ":(22|9101|9103|53) "'
right "no failed unit of ours" sh -c '! systemctl --failed --no-legend | grep -E "strongroom|ssh|networkd"'
systemctl --failed --no-legend
ss -Hltun
echo "LOOK END $failed"
EOF
chmod 0755 "$root/usr/local/bin/look"
cat > "$root/etc/systemd/system/look.service" <<'EOF'
[Unit]
After=multi-user.target strongroom-firstboot.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/usr/local/bin/look > /result.log 2>&1; journalctl -u strongroom-firstboot -u strongroom-storage -u strongroom-director --no-pager >> /result.log; systemctl poweroff --force'
[Install]
WantedBy=graphical.target multi-user.target
EOF
systemctl --root="$root" --quiet enable look.service
systemctl --root="$root" --quiet mask strongroom-console.service
cat > "$root/answers.yml" <<'EOF'
version: 1
hostname: vault.example.org
time: {zone: Europe/Berlin}
network:
  interfaces: [{name: host0, addresses: [192.0.2.10/24]}]
admin:
  name: ann
  ssh_keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJXZ2hB6Q1n0ZrZt0Wc5H0c1vD0s2m8b7L0n3q9J4k5X ann]
appliance: {groups: [servers]}
agents: {tokens: [{group: servers}]}
updates: {reboot: "03:30"}
EOF
# A card without its other end has no address.
machine=console$$
(until ip link set "ve-$machine" up 2>/dev/null; do sleep 1; done) &
waits=$!
timeout --kill-after=5 "${HOST_SECONDS:-600}" systemd-nspawn --quiet -D "$root" -b --register=no --keep-unit \
    --machine="$machine" --network-veth --console=pipe "--load-credential=strongroom.answers:$root/answers.yml" \
    > "$work/console.log" 2>&1 < /dev/null || true
kill "$waits" 2>/dev/null || true
cat "$root/result.log" 2>/dev/null || tail -40 "$work/console.log"
result=$(sed -n 's/^LOOK END \([0-9]*\)$/\1/p' "$root/result.log" 2>/dev/null | tail -1)
exit "${result:-99}"
