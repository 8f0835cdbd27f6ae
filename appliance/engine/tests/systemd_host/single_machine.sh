#!/usr/bin/env bash
# Runs inside the host: the schedule of one machine, as docs/guides/single-machine.md installs it.
set -euo pipefail
export PATH=/opt/strongroom/bin:$PATH HOME=/root

step() { printf -- '--- %s\n' "$*"; }
fail() {
    printf 'FAILED: %s\n' "$*"
    journalctl --no-pager -n 80 -u 'strongroom-backup*'
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
snapshots() { strongroom snapshots --repo /mnt/backup/repository --password-file /etc/strongroom/passphrase "$@"; }
count() { snapshots --json | grep -c '"type":"snapshot"' || true; }

step "configuration"
mkdir -p /etc/strongroom /mnt/backup /srv/data /home/ann /var/lib/elsewhere
(umask 077 && echo "a long passphrase" > /etc/strongroom/passphrase)
strongroom init --repo /mnt/backup/repository --password-file /etc/strongroom/passphrase
cat > /etc/strongroom/machine.conf <<'EOF'
Machine {
  Name = web1
  Repository = /mnt/backup/repository
  Passphrase File = /etc/strongroom/passphrase
  FileSet = everything
  Run = daily at 2:00
  Randomized Delay = 0
  Keep Daily = 14
  Keep Last = 10
  Check Parts = 2
  Notify Command = "tee /root/heard"
  Success Command = "touch /var/lib/elsewhere/written"
}
FileSet { Name = everything; Include { File = /srv/data; File = /home; File = /tmp/kept } }
EOF
echo secret > /srv/data/secret && chmod 0000 /srv/data/secret && chown 1234:4321 /srv/data/secret
echo home > /home/ann/file && chmod 0600 /home/ann/file && chown 1234 /home/ann /home/ann/file
mkdir /tmp/kept && echo temporary > /tmp/kept/file
mknod /srv/data/device c 1 3

step "install"
strongroom schedule install || fail "the schedule could not be installed"
[ "$(systemctl is-active strongroom-backup.timer)" = active ] || fail "the timer is not active"
[ "$(systemctl is-enabled strongroom-backup.timer)" = enabled ] || fail "the timer is not enabled"
strongroom schedule show | grep -q 'next run .*02:00' || fail "the next run is not shown"

step "a run reads every file and writes only the repository"
systemctl start strongroom-backup.service || fail "the run failed"
[ "$(count)" = 1 ] || fail "there is no snapshot"
strongroom restore latest --target /srv/back --keep-privileges --repo /mnt/backup/repository --password-file /etc/strongroom/passphrase
list() { (cd "$1" && find "${@:2}" -printf '%p %y %m %U %G %s %T@ %l\n' | LC_ALL=C sort); }
diff <(list / srv/data home tmp/kept) <(list /srv/back srv/data home tmp/kept) || fail "attributes differ"
diff -r /srv/data/secret /srv/back/srv/data/secret || fail "contents differ"
[ ! -e /var/lib/elsewhere/written ] || fail "a run writes elsewhere"
journalctl --no-pager -q -u strongroom-backup.service | grep -q 'no damage found' || fail "nothing was checked"
systemd-analyze security --no-pager strongroom-backup.service | tail -1
[ ! -e /root/heard ] || fail "somebody was notified of a failure that there was not"

step "a run that was missed is made up for"
systemctl stop strongroom-backup.timer
touch -d '3 days ago' /var/lib/systemd/timers/stamp-strongroom-backup.timer
systemctl start strongroom-backup.timer
wait_for 60 "the missed run" sh -c '[ "$(systemctl show -P ActiveState strongroom-backup.service)" = inactive ] &&
    [ "$(journalctl -q -o cat -u strongroom-backup.service | grep -c "^no damage found")" = 2 ]'
[ "$(count)" = 2 ] || fail "the timer started nothing"

step "a run that fails is reported"
mv /mnt/backup/repository /mnt/backup/away
systemctl start strongroom-backup.service && fail "a run without a repository did not fail"
wait_for 30 "the notice" grep -q 'web1 has failed: exit code 10' /root/heard
grep -q 'repository-not-found' /root/heard || fail "the notice has no journal"
strongroom schedule show | grep -q 'last run .*exit code 10' || fail "the exit code is not shown"
mv /mnt/backup/away /mnt/backup/repository
systemctl start strongroom-backup.service || fail "the next run failed"

step "a path that is not there is reported"
sed -i 's|File = /home;|& File = /disk;|' /etc/strongroom/machine.conf
grep -q 'File = /disk;' /etc/strongroom/machine.conf || fail "the test could not name a path"
rm /root/heard
systemctl start strongroom-backup.service && fail "a path that is not there counts as success"
wait_for 30 "the notice" grep -q 'web1 lacks a path .*exit code 17' /root/heard
grep -q '/disk: named by FileSet' /root/heard || fail "the notice does not name the path"
sed -i 's| File = /disk;||' /etc/strongroom/machine.conf
# systemd starts a unit five times in ten seconds, and these runs are short.
systemctl reset-failed strongroom-backup.service
systemctl start strongroom-backup.service || fail "the next run failed"

step "a changed configuration is taken up"
sed -i 's/daily at 2:00/daily at 3:30/' /etc/strongroom/machine.conf
strongroom schedule show | grep -q 'run `strongroom schedule install`' || fail "no one says that the units are old"
strongroom schedule install | grep -q 'next run .*03:30' || fail "the new time is not in force"

step "remove"
strongroom schedule remove
[ "$(systemctl show -P LoadState strongroom-backup.timer)" = not-found ] || fail "the timer is still there"
[ ! -e /etc/systemd/system/timers.target.wants/strongroom-backup.timer ] || fail "the timer is still enabled"
[ "$(count)" -ge 3 ] || fail "backups are gone"
echo "all steps were right"
