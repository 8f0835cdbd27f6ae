#!/bin/sh
# Runs inside the appliance, once it has started; what it prints, a heading and lines each, goes to the second serial port.
export SYSTEMD_COLORS=0 TERM=dumb
systemctl is-system-running --wait > /dev/null
# Not to the port itself: programs draw on what looks like a terminal.
{
# The firmware may have left the line unfinished.
echo
heading() { printf '=== %s\n' "$1"; }
heading failed
systemctl --failed --no-legend --plain
heading machine-id
cat /etc/machine-id
heading host-keys
for key in /etc/ssh/ssh_host_*_key.pub; do [ ! -e "$key" ] || ssh-keygen -lf "$key"; done
heading sockets
ss --no-header --listening --tcp --udp --numeric
heading vsock
ss --no-header --listening --vsock --numeric 2> /dev/null
heading mounts
findmnt --noheadings --raw --output TARGET,SOURCE,FSTYPE,OPTIONS
heading started
systemd-analyze time
heading slowest
systemd-analyze blame --no-pager | head -n 12
heading memory
awk '/^Mem(Total|Available):/ { print $1, $2 }' /proc/meminfo
heading setuid
find / -xdev -perm /6000 -type f -printf '%m %p\n'
heading marked
cat /var/lib/boot-test /etc/boot-test 2> /dev/null
date +%s > /var/lib/boot-test
echo changed > /etc/boot-test
heading state
df --output=size,target -B1 /state | tail -n 1
heading units
systemctl list-units --no-legend --plain --no-pager --type=service --state=running | awk '{ print $1 }'
heading passwords
awk -F: '$2 !~ /^[!*]/ { print $1 }' /etc/shadow
heading apparmor
cat /sys/module/apparmor/parameters/enabled
heading firewall
nft list ruleset | grep -c 'policy drop'
heading root-write
touch /usr/boot-test 2>&1 && echo writable
heading seconds
cut -d' ' -f1 /proc/uptime
heading end
} | cat
