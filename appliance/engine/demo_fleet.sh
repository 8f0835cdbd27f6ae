#!/usr/bin/env bash
# Demonstration of the fleet service on loopback: demo_fleet.sh [FOLDER]
#
# Makes a certificate authority, starts a storage daemon, a director and an agent, runs a scheduled
# job and one by hand, shows status and metrics, restores, compares, and removes all of it. FOLDER is
# only read. Everything made goes into a temporary folder (under $TMPDIR). Needs `strongroom` in
# PATH; no root.
set -euo pipefail

fail() {
    printf '\ndemo: %s\n' "$1" >&2
    for log in ${work:+"$work"/*.log}; do
        [ -s "$log" ] && { printf '\n%s:\n' "${log##*/}" >&2; tail -20 "$log" >&2; }
    done
    exit 1
}

. "$(dirname "${BASH_SOURCE[0]}")/demo_data.sh"
work=''
folder=$(realpath -- "${1:-$(pick_folder /usr/lib/python3 /usr/share/doc /usr/share)}")
require_files "$folder"
work=$(mktemp -d "${TMPDIR:-/tmp}/strongroom-fleet.XXXXXXXX")
daemons=()
end() {
    local daemon
    for daemon in "${daemons[@]}"; do kill "$daemon" 2>/dev/null || true; done
    for daemon in "${daemons[@]}"; do wait "$daemon" 2>/dev/null || true; done
    chmod -R u+rwX "$work" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM

bold=''; plain=''
if [ -t 1 ]; then
    bold=$(printf '\033[1m')
    plain=$(printf '\033[0m')
fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# Only root can change owners; a restore as another user reports each failure.
shorten() {
    awk '{ line[NR] = $0 }
        END {
            for (i = 1; i <= NR; i++)
                if (NR <= 30 || i <= 12 || i > NR - 6) print line[i]
                else if (i == 13) printf "    ... %d more lines\n", NR - 18
        }'
}

# Show a command and run it. A code of 3 (done, but some files could not be read) is no failure here.
show() {
    local status=0
    printf '\n  $ %s\n' "${*//$work/…}"
    "$@" 2>&1 | sed "s|$work|…|g; s/^/    /" | shorten || status=${PIPESTATUS[0]}
    case $status in 0 | 3) ;; *) fail "it ended with $status" ;; esac
}

# Unused ports.
read -r director_port storage_port < <(python3 - <<'EOF'
import socket
sockets = [socket.socket() for _ in range(2)]
for one in sockets:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in sockets))
EOF
)

start() {
    local name=$1
    shift
    strongroom "$@" > "$work/$name.log" 2>&1 &
    daemons+=($!)
}

# Wait until a command succeeds: wait_for SECONDS WHAT COMMAND...
wait_for() {
    local seconds=$1 what=$2 end
    shift 2
    end=$((SECONDS + seconds))
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "waited $seconds s for $what"
        sleep 0.2
    done
}

export STRONGROOM_PASSWORD='only for this demonstration'
export XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config
printf '%s\n' "$STRONGROOM_PASSWORD" > "$work/passphrase"
chmod 600 "$work/passphrase"
# A Run for each minute of the hour: none passes while a busy machine is still at the steps before.
runs=$(printf '  Run = Incremental hourly at 0:%02d\n' {0..59})

say "1. Certificates of our own: an authority, one for each daemon, one for the operator"
show strongroom ca init --ca "$work/ca" --name "demonstration" --json | tee "$work/authority.text"
fingerprint=$(grep -oE '[0-9a-f]{64}' "$work/authority.text")
show strongroom ca issue vault --ca "$work/ca" --role storage --host 127.0.0.1 \
    --folder "$work/storage/identity"
show strongroom ca issue boss --ca "$work/ca" --role director --host 127.0.0.1 \
    --folder "$work/director/identity"
show strongroom ca issue admin --ca "$work/ca" --role operator --folder "$work/admin"
show strongroom ca token laptop --ca "$work/ca" --out "$work/laptop.token"

say "2. The storage daemon, and a repository in it"
mkdir -p "$work/disk" "$work/etc-storage" "$work/etc-director" "$work/etc-agent" "$work/agent"
cat > "$work/etc-storage/storage.conf" <<EOF
Storage {
  Name = vault
  Addresses = { ip = { addr = 127.0.0.1; port = $storage_port } }
  Working Directory = "$work/storage"
  Identity Directory = "$work/storage/identity"
  Maintenance Socket = "$work/storage.sock"
  Clients = "*all*"
}
Director { Name = boss; Password = unused }
Device { Name = disk; Media Type = File; Archive Device = "$work/disk" }
EOF
start storage storage --config "$work/etc-storage" --foreground
wait_for 30 "the storage daemon" test -S "$work/storage.sock"
show strongroom init --repo "unix:$work/storage.sock"
show strongroom key export-appliance "$work/director/appliance.key" --repo "unix:$work/storage.sock"

say "3. The director, in the Bareos language"
cat > "$work/etc-director/director.conf" <<EOF
Director {
  Name = boss
  Address = 127.0.0.1
  Port = $director_port
  Password = unused
  Messages = Standard
  Working Directory = "$work/director"
  Identity Directory = "$work/director/identity"
  Authority Directory = "$work/ca"
  Appliance Key File = "$work/director/appliance.key"
}
Messages { Name = Standard; Console = all }
Catalog { Name = Main; Db Name = catalog; Db User = unused; Db Password = unused }
Storage {
  Name = vault
  Address = 127.0.0.1
  Port = $storage_port
  Password = unused
  Device = disk
  Media Type = File
  Repository = "unix:$work/storage.sock"
  Passphrase File = "$work/passphrase"
}
Pool { Name = Default; Pool Type = Backup; Keep Daily = 7; Keep Weekly = 4 }
FileSet {
  Name = documents
  Include { File = "$folder"; Options { Signature = XXH128; OneFS = no } }
}
Schedule {
  Name = "every minute"
$runs
}
Client { Name = laptop; Address = laptop; Password = unused }
JobDefs {
  Name = usual; Type = Backup; Level = Incremental; FileSet = documents; Client = laptop
  Storage = vault; Pool = Default; Messages = Standard
}
Job { Name = by-hand; JobDefs = usual }
Job { Name = scheduled; JobDefs = usual; Schedule = "every minute" }
Job {
  Name = bring-back; Type = Restore; FileSet = documents; Client = laptop; Storage = vault
  Pool = Default; Messages = Standard; Where = /
}
Profile {
  Name = operator; Command ACL = *all*; Job ACL = *all*; Client ACL = *all*; Storage ACL = *all*
  Schedule ACL = *all*; Pool ACL = *all*; FileSet ACL = *all*; Where ACL = *all*
}
Console { Name = admin; Password = unused; Profile = operator }
EOF
show strongroom config check "$work/etc-director/director.conf"
start director director --config "$work/etc-director" --foreground
mkdir -p "$XDG_CONFIG_HOME/strongroom"
cat > "$XDG_CONFIG_HOME/strongroom/console.toml" <<EOF
director = "https://127.0.0.1:$director_port"
identity = "$work/admin"
EOF
wait_for 30 "the director" strongroom status

say "4. The agent: enrolled by a single-use token, and connected"
cat > "$work/etc-agent/agent.conf" <<EOF
Client {
  Name = laptop
  Working Directory = "$work/agent"
  Identity Directory = "$work/agent/identity"
}
Director { Name = boss; Password = unused; Address = 127.0.0.1; Port = $director_port }
EOF
show strongroom agent enrol --config "$work/etc-agent" --director "https://127.0.0.1:$director_port" \
    --token-file "$work/laptop.token" --fingerprint "$fingerprint"
start agent agent --config "$work/etc-agent" --foreground
wait_for 30 "the agent" sh -c 'strongroom clients --json | grep -q "\"connected\": *true"'
show strongroom clients

say "5. A job by hand, of $folder"
show strongroom run by-hand --watch

say "6. The scheduled job starts with the next minute"
wait_for 120 "the scheduled job" sh -c \
    'strongroom runs --job scheduled --json | grep -qE "\"state\": *\"(done|incomplete)\""'
show strongroom runs
show strongroom status

say "7. Metrics, as Prometheus fetches them"
curl=$(python3 - "$work/admin" "https://127.0.0.1:$director_port" <<'EOF'
import ssl, sys, urllib.request
identity, director = sys.argv[1:]
context = ssl.create_default_context(cafile=f"{identity}/authority.pem")
context.load_cert_chain(f"{identity}/certificate.pem", f"{identity}/key.pem")
text = urllib.request.urlopen(f"{director}/metrics", context=context).read().decode()
print("\n".join(line for line in text.splitlines() if line.startswith("strongroom_backup_")))
EOF
)
printf '%s\n' "$curl" | head -20 | sed 's/^/    /'

say "8. Restore through the director, and compare"
show strongroom restore latest --client laptop --target "$work/restored"
compare_bytes "$folder" "$work/restored$folder" "$work/differences"

say "9. Every stored byte is what was written"
show strongroom check --read-data --repo "unix:$work/storage.sock"

say "Done. The daemons are stopped and everything they made is removed; $folder was only read."
