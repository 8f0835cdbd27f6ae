#!/usr/bin/env bash
# Runs inside the host: on_host.sh SUITE
set -euo pipefail
export HOME=/root DEBIAN_FRONTEND=noninteractive
trap 'echo "FAILED in line $LINENO: $BASH_COMMAND"' ERR

suite=$1
daemons="agent storage director"
apt=(apt-get -y -q -o Dpkg::Use-Pty=0 -o Acquire::Languages=none)
old=$(python3 - "$suite" <<'END'
import pathlib, re, sys
index = pathlib.Path(f"/srv/apt/old/dists/{sys.argv[1]}/main/binary-amd64/Packages").read_text()
print(re.search(r"^Version: (.*)$", index, re.MULTILINE)[1])
END
)
program=${old%%-*}
packages=(strongroom strongroom-agent strongroom-storage strongroom-director)

step() { printf -- '--- %s\n' "$*"; }
fail() {
    printf 'FAILED: %s\n' "$*"
    journalctl --no-pager -n 60 -u 'strongroom*'
    exit 1
}
wait_for() {
    local seconds=$1 what=$2 end
    shift 2
    end=$((SECONDS + seconds))
    until "$@" > /tmp/last 2>&1; do
        [ $SECONDS -lt $end ] || { cat /tmp/last; fail "waited $seconds s for $what"; }
        sleep 0.3
    done
}
repository() {
    ln -sfn "/srv/apt/$1" /srv/apt/served
    "${apt[@]}" update
}
main_process() { systemctl show -P MainPID "strongroom-$1"; }
# The process of a job that a daemon runs; a director has other children too.
job_of() {
    local child
    for child in $(cat "/proc/$(main_process "$1")/task/"*/children); do
        ! tr '\0' ' ' < "/proc/$child/cmdline" | grep -q 'jobs\.job' || echo "$child"
    done
}
# What a process sees as the version in /opt/strongroom, however long ago it started.
version_seen() {
    nsenter -t "$1" -m sh -c "sed -n 's/^__version__ = \"\(.*\)\"/\1/p' /opt/strongroom/lib/python3*/site-packages/strongroom/__init__.py"
}
sees() { [ "$(version_seen "$(main_process "$1")")" = "$2" ]; }
is_connected() { strongroom clients --json | grep -q '"connected": *true'; }
no_daemon() { ! pgrep -f '/opt/strongroom/bin' > /dev/null; }
none_failed() { [ -z "$(systemctl list-units --failed --quiet --no-legend 'strongroom*')" ]; }

ip link set lo up
python3 -m http.server --bind 127.0.0.1 --directory /srv/apt 8000 > /dev/null 2>&1 &

step "a repository with another key, or with another package than was signed, is refused"
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
install -D -m 0644 /srv/apt/old/strongroom.asc /etc/apt/keyrings/strongroom.asc
cat > /etc/apt/sources.list.d/strongroom.sources <<END
Types: deb
URIs: http://127.0.0.1:8000/served
Suites: $suite
Components: main
Signed-By: /etc/apt/keyrings/strongroom.asc
END
wait_for 20 "the web server" python3 -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:8000/")'
ln -sfn /srv/apt/strangers /srv/apt/served
if "${apt[@]}" update -o APT::Update::Error-Mode=any; then fail "the other key was accepted"; fi
repository damaged
if "${apt[@]}" install strongroom-agent; then fail "the damaged package was accepted"; fi
repository old

step "the agent alone"
"${apt[@]}" install strongroom-agent
strongroom self-test > /dev/null
strongroom version
if /opt/strongroom/bin/python -c 'import sqlalchemy'; then fail "an agent has the director's libraries"; fi
[ "$(find /opt/strongroom -name pip -o -name pytest -o -name mypy)" = "" ] || fail "there is more than a runtime"
zcat /usr/share/man/man1/strongroom-backup.1.gz | grep -q SYNOPSIS || fail "there is no manual page"
bash -n /usr/share/bash-completion/completions/strongroom

step "the daemons; nothing starts that is not configured"
"${apt[@]}" install "${packages[@]}"
for daemon in $daemons; do
    [ "$(systemctl is-enabled strongroom-$daemon)" = enabled ] || fail "$daemon would not start at boot"
    [ "$(systemctl is-active strongroom-$daemon)" = inactive ] || fail "$daemon was started"
done
[ "$(systemctl is-active strongroom-packages.socket)" = inactive ] || fail "packages are served, and there are none"
none_failed || fail "a unit has failed"
no_daemon || fail "something runs"
[ "$(stat -c '%U:%G %a' /etc/strongroom/director.d/client)" = "strongroom-director:strongroom 755" ] ||
    fail "the director could not write the files of clients that join"
[ -z "$(find /etc/strongroom -type f)" ] || fail "there is a configuration"
[ "$(stat -c '%U:%G %a' /var/lib/strongroom/{agent,storage,director} | paste -sd,)" = \
    "strongroom-agent:strongroom-agent 700,strongroom-storage:strongroom 750,strongroom-director:strongroom 750" ] ||
    fail "the folders are not as the guide makes them"
id strongroom-director | grep -q '(strongroom)' || fail "the director is not in the group"

step "use them: tests/systemd_host/on_host.sh"
use-units || fail "the units do not work as packages install them"
dpkg --verify "${packages[@]}" | tee /tmp/verified
[ ! -s /tmp/verified ] || fail "files of the packages were changed"

step "upgrade with a backup, and a job of the director, under way"
sed -i 's|Client { Name = host;|& Maximum Concurrent Jobs = 5; Maximum Bandwidth Per Job = 2 mb/s;|
s|Storage { Name = vault;|& Maximum Concurrent Jobs = 5;|
s|Director { Name = boss;|& Maximum Concurrent Jobs = 5;|
s|^Job { Name = back;|Job { Name = test; JobDefs = usual; Type = Verify; Level = Data; Job To Verify = data }\n&|' \
    /etc/strongroom/director.d/all/director.conf
strongroom config check /etc/strongroom
systemctl reload strongroom-director
head -c 80000000 /dev/urandom > /srv/data/large
run_of() { strongroom run "$1" --json | tail -1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])'; }
has_ended() { strongroom log "$1" | grep -q 'ended: '; }
declare -A before run job
for daemon in $daemons; do before[$daemon]=$(main_process "$daemon"); done
has_job() { [ -n "$(job_of "$1")" ]; }
run[director]=$(run_of test)
wait_for 60 "the restore test to begin" has_job director
job[director]=$(job_of director)
kill -STOP "${job[director]}"
run[agent]=$(run_of data)
wait_for 60 "the backup to begin" has_job agent
job[agent]=$(job_of agent)
repository new
"${apt[@]}" dist-upgrade
strongroom version | grep -qx 'strongroom 9.0' || fail "the command is the old one"
for daemon in agent director; do
    [ "$(main_process $daemon)" = "${before[$daemon]}" ] || fail "the $daemon did not wait for its job"
    [ -d "/proc/${job[$daemon]}" ] || fail "the job of the $daemon was cut"
    sees $daemon "$program" || fail "the $daemon sees the files of another version"
    systemctl is-active --quiet strongroom-restart@$daemon || fail "no one will restart the $daemon"
done
[ "$(main_process storage)" != "${before[storage]}" ] || fail "the storage daemon was not restarted"
sees storage 9.0 || fail "the storage daemon is the old one"
kill -CONT "${job[director]}"
for daemon in director agent; do
    wait_for 240 "the job of the $daemon to end" has_ended "${run[$daemon]}"
    # The director is restarted meanwhile.
    wait_for 120 "the job of the $daemon to have ended well" strongroom watch "${run[$daemon]}"
    wait_for 60 "its log" strongroom log "${run[$daemon]}"
    cp /tmp/last /tmp/log
    cat /tmp/log
    ! grep -q 'begun again' /tmp/log || fail "the job of the $daemon was interrupted"
done
for daemon in agent director; do
    wait_for 60 "the $daemon to be restarted" sees $daemon 9.0
done
wait_for 60 "the agent after the upgrade" is_connected
strongroom run data --watch || fail "the backup after the upgrade failed"
none_failed || fail "a unit has failed"

step "downgrade"
"${apt[@]}" install --allow-downgrades "${packages[@]/%/=$old}"
strongroom version | grep -qx "strongroom $program" || fail "the command is not the old one"
for daemon in $daemons; do
    wait_for 60 "the $daemon to be restarted" sees "$daemon" "$program"
done
wait_for 60 "the agent after the downgrade" is_connected
strongroom run data --watch || fail "the backup after the downgrade failed"

step "packages for the clients: apt gets them from the appliance"
mkdir -p /var/lib/strongroom/packages
cp -r /srv/apt/old /var/lib/strongroom/packages/apt
systemctl start strongroom-packages.socket
cp /etc/apt/sources.list.d/strongroom.sources /root/before.sources
sed -i 's|^URIs: .*|URIs: http://127.0.0.1:9105/apt|' /etc/apt/sources.list.d/strongroom.sources
"${apt[@]}" -o APT::Update::Error-Mode=any update
(cd /tmp && apt-get download strongroom-agent="$old") || fail "the appliance does not serve the package"
cmp /tmp/strongroom-agent_*.deb /srv/apt/old/pool/main/s/strongroom/strongroom-agent_*.deb
mv /root/before.sources /etc/apt/sources.list.d/strongroom.sources
"${apt[@]}" update
none_failed || fail "a unit has failed"

step "remove: daemons end; data, keys and configuration stay"
# Not an empty folder of a package: dpkg takes it away, and brings it again.
kept() { find /etc/strongroom /var/lib/strongroom -not \( -type d -empty \) -not -name '*.sqlite*' -not -path '*/cache/*' | sort; }
systemctl stop strongroom-agent strongroom-director strongroom-storage
kept > /tmp/before
systemctl start strongroom-storage strongroom-director strongroom-agent
"${apt[@]}" remove "${packages[@]}"
no_daemon || fail "something runs still"
[ ! -e /opt/strongroom ] || fail "there is something left: $(find /opt/strongroom | head -3)"
[ ! -e /usr/lib/systemd/system/strongroom-agent.service ] || fail "the units are left"
systemctl is-active --quiet strongroom-packages.socket && fail "packages are served still"
diff /tmp/before <(kept) || fail "something was removed with the packages"

step "install again: what is configured starts"
"${apt[@]}" install "${packages[@]/%/=$old}"
wait_for 60 "the agent after the installation" is_connected
strongroom run data --watch || fail "the backup after the installation failed"

step "purge: configuration and state go; repository, keys and authority stay"
cp -a /var/lib/strongroom/director/passphrase /root/passphrase
"${apt[@]}" purge "${packages[@]}"
no_daemon || fail "something runs still"
[ ! -e /opt/strongroom ] || fail "there is something left: $(find /opt/strongroom | head -3)"
find /var/lib/strongroom -path '*/repository/*' -prune -o -print
for gone in /etc/strongroom /var/lib/strongroom/agent /var/lib/strongroom/director/catalog.sqlite \
    /var/lib/strongroom/director/identity /var/lib/strongroom/packages /var/lib/strongroom/storage/identity /var/cache/strongroom-agent; do
    [ ! -e $gone ] || fail "$gone is left"
done
for kept in director/passphrase director/appliance.key ca repository/config; do
    [ -e /var/lib/strongroom/$kept ] || fail "$kept is gone"
done
cmp /root/passphrase /var/lib/strongroom/director/passphrase

step "what was backed up is there: the command alone restores it"
"${apt[@]}" install strongroom="$old"
strongroom restore latest:/srv/data --target /srv/after --repo /var/lib/strongroom/repository \
    --password-file /var/lib/strongroom/director/passphrase || fail "the restore failed"
cmp /srv/data/large /srv/after/large || fail "contents differ"
echo "all steps were right"
