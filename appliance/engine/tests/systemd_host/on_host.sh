#!/usr/bin/env bash
# Runs inside the host: install, enrol, back up, restore, and look whether the sandboxes hold.
set -euo pipefail
export PATH=/opt/strongroom/bin:$PATH HOME=/root

step() { printf -- '--- %s\n' "$*"; }
fail() {
    printf 'FAILED: %s\n' "$*"
    journalctl --no-pager -n 60 -u 'strongroom-*'
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

ip link set lo up 2>/dev/null || true

# With the packages installed there is nothing left to do here.
if [ -d /units ]; then
    step "users and units"
    install -m 0644 /units/*.service /units/*.socket /etc/systemd/system/
    install -D -m 0644 /units/sysusers.d/strongroom.conf /etc/sysusers.d/strongroom.conf
    systemd-sysusers
    systemctl daemon-reload
    install -d -m 0755 /etc/strongroom
    install -d -m 0755 /var/lib/strongroom
    install -d -m 0700 -o strongroom-director -g strongroom /var/lib/strongroom/director
    install -d -m 0750 -o strongroom-storage -g strongroom /var/lib/strongroom/storage
    install -d -m 0700 -o strongroom-agent -g strongroom-agent /var/lib/strongroom/agent
fi

step "certificates"
strongroom ca init --name host --owner strongroom-director
strongroom ca issue vault --role storage --host 127.0.0.1 --folder /var/lib/strongroom/storage/identity --owner strongroom-storage
strongroom ca issue boss --role director --host 127.0.0.1 --folder /var/lib/strongroom/director/identity --owner strongroom-director
strongroom ca issue root-console --role operator --folder /root/console

step "storage daemon"
mkdir -p /etc/strongroom/{storage,director,agent}.d/all
cat > /etc/strongroom/storage.d/all/storage.conf <<'EOF'
Storage { Name = vault; Working Directory = /var/lib/strongroom/storage
  Maintenance Users = strongroom-director; Clients = "*all*" }
Director { Name = boss; Password = unused }
Device { Name = disk; Media Type = File; Archive Device = /var/lib/strongroom/repository }
EOF
systemctl start strongroom-storage || fail "storage did not start"
wait_for 30 "the storage daemon's socket" test -S /run/strongroom-storage/storage.sock
install -m 0400 -o strongroom-director /dev/null /var/lib/strongroom/director/passphrase
echo "a long passphrase" > /var/lib/strongroom/director/passphrase
strongroom init --repo unix:/run/strongroom-storage/storage.sock --password-file /var/lib/strongroom/director/passphrase
strongroom key export-appliance /var/lib/strongroom/director/appliance.key --repo unix:/run/strongroom-storage/storage.sock --password-file /var/lib/strongroom/director/passphrase
chown strongroom-director /var/lib/strongroom/director/appliance.key

step "director"
cat > /etc/strongroom/director.d/all/director.conf <<'EOF'
Director { Name = boss; Password = unused; Messages = Standard
  Working Directory = /var/lib/strongroom/director
  Authority Directory = /var/lib/strongroom/ca
  Appliance Key File = /var/lib/strongroom/director/appliance.key }
Messages { Name = Standard; Console = all }
Catalog { Name = Main; Db Name = catalog; Db User = unused; Db Password = unused }
Storage { Name = vault; Address = 127.0.0.1; Password = unused; Device = disk; Media Type = File
  Repository = "unix:/run/strongroom-storage/storage.sock"
  Passphrase File = /var/lib/strongroom/director/passphrase }
Pool { Name = Default; Pool Type = Backup; Keep Last = 3; Minimum Retention = 0 }
FileSet { Name = data; Include { File = /srv/data } }
Client { Name = host; Address = host; Password = unused }
JobDefs { Name = usual; FileSet = data; Client = host; Storage = vault; Pool = Default; Messages = Standard }
Job { Name = data; JobDefs = usual; Type = Backup; Level = Incremental }
Job { Name = back; JobDefs = usual; Type = Restore; Where = / }
Profile { Name = all; Command ACL = *all*; Job ACL = *all*; Client ACL = *all*; Storage ACL = *all*
  Schedule ACL = *all*; Pool ACL = *all*; FileSet ACL = *all*; Where ACL = *all* }
Console { Name = root-console; Password = unused; Profile = all }
EOF
# The director rewrites the authority's folder (issued certificates, tokens): it owns it.
systemctl start strongroom-director || fail "director did not start"
mkdir -p /root/.config/strongroom
printf 'director = "https://127.0.0.1:9101"\nidentity = "/root/console"\n' > /root/.config/strongroom/console.toml
wait_for 60 "the director" strongroom status

step "agent"
cat > /etc/strongroom/agent.d/all/agent.conf <<'EOF'
Client { Name = host; Working Directory = /var/lib/strongroom/agent }
Director { Name = boss; Password = unused; Address = 127.0.0.1 }
EOF
fingerprint=$(strongroom ca token host --out /root/host.token --json | grep -oE '"fingerprint": *"[0-9a-f]{64}"' | grep -oE '[0-9a-f]{64}')
strongroom agent enrol --config /etc/strongroom --director https://127.0.0.1:9101 --token-file /root/host.token --fingerprint "$fingerprint" || fail "the agent could not enrol"
chown -R strongroom-agent: /var/lib/strongroom/agent
systemctl start strongroom-agent-restore.socket strongroom-agent || fail "agent did not start"
wait_for 60 "the agent" sh -c 'strongroom clients --json | grep -q "\"connected\": *true"'

step "back up what only root may read"
mkdir -p /srv/data/deep
echo secret > /srv/data/secret
chmod 0600 /srv/data/secret
cp -a /usr/share/doc /srv/data/deep/
chown 1234:4321 /srv/data/deep
chmod 2750 /srv/data/deep
cp /bin/true /srv/data/setuid
chmod 4755 /srv/data/setuid
strongroom run data --watch || fail "the backup failed"
strongroom run data --watch || fail "the second backup failed"

step "restore with owners and modes, by its own process"
strongroom restore latest --client host --target /srv/restored --keep-privileges || fail "the restore failed"
diff -r --no-dereference /srv/data /srv/restored/srv/data || fail "contents differ"
list() { (cd "$1" && find . -printf '%p %y %m %U %G %s %T@ %l\n' | LC_ALL=C sort); }
diff <(list /srv/data) <(list /srv/restored/srv/data) || fail "attributes differ"
journalctl --no-pager -q -u 'strongroom-agent-restore@*' | grep -q . || fail "the agent restored by itself"
strongroom restore latest --client host --target /srv/bare || fail "the second restore failed"
[ -x /srv/bare/srv/data/setuid ] && [ ! -u /srv/bare/srv/data/setuid ] || fail "a set-id bit came back unasked"

step "the daemons run as their own users, without capabilities"
for daemon in director storage agent; do
    pid=$(systemctl show -P MainPID strongroom-$daemon)
    user=$(stat -c %U "/proc/$pid")
    [ "$user" = "strongroom-$daemon" ] || fail "$daemon runs as $user"
    effective=$(sed -n 's/^CapEff:[[:space:]]*//p' "/proc/$pid/status")
    wanted=0000000000000000
    [ $daemon = agent ] && wanted=0000000000000004
    [ "$effective" = "$wanted" ] || fail "$daemon has capabilities $effective"
    systemd-analyze security --no-pager strongroom-$daemon | tail -1
done

step "reload, and the rules of the pool are kept through the local socket"
systemctl reload strongroom-storage strongroom-director strongroom-agent
strongroom run data --watch || fail "the backup after a reload failed"
strongroom status
strongroom check --read-data --repo unix:/run/strongroom-storage/storage.sock --password-file /var/lib/strongroom/director/passphrase || fail "check found damage"

step "restart all, and continue"
systemctl restart strongroom-storage strongroom-director strongroom-agent
wait_for 60 "the agent after a restart" sh -c 'strongroom clients --json | grep -q "\"connected\": *true"'
strongroom run data --watch || fail "the backup after a restart failed"
journalctl --no-pager -q -p warning -u 'strongroom-*' | head -20
journalctl --no-pager -q -u 'strongroom-*' | grep 'Failed with result' && fail "a unit has failed"
echo "all steps were right"
