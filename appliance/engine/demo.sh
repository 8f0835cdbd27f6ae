#!/usr/bin/env bash
# Demonstration of the engine on real data: demo.sh [FOLDER]
#
# Backs a folder up twice, checks, restores and compares, then damages a copy of the repository and
# lets the engine find and repair it, and copies the snapshots to an object store. FOLDER is only
# read. Everything made goes into a temporary folder (under $TMPDIR) that is removed in the end.
# Needs `strongroom` in PATH; no root.
set -euo pipefail

fail() {
    printf '\ndemo: %s\n' "$1" >&2
    exit 1
}

. "$(dirname "${BASH_SOURCE[0]}")/demo_data.sh"

folder=$(realpath -- "${1:-$(pick_folder /usr/share /usr/lib/python3 /usr/lib)}")
require_files "$folder"
work=$(mktemp -d "${TMPDIR:-/tmp}/strongroom-demo.XXXXXXXX")
trap 'chmod -R u+rwX "$work" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

export STRONGROOM_REPOSITORY=$work/repository
export STRONGROOM_PASSWORD='only for this demonstration'
export XDG_CACHE_HOME=$work/cache

bold=''; plain=''
if [ -t 1 ]; then
    bold=$(printf '\033[1m')
    plain=$(printf '\033[0m')
fi

say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# Show the command, run it, say how long it took. A code of 3 (done, but some files could not be
# read) is reported and is not a failure here.
show() {
    local started ended status=0
    printf '\n  $ %s\n' "${*//$work/…}"
    started=$(date +%s.%N)
    "$@" 2>&1 | sed "s|$work|…|g; s/^/    /" || status=${PIPESTATUS[0]}
    ended=$(date +%s.%N)
    printf '    [%s s]\n' "$(printf '%.2f' "$(echo "$ended $started" | awk '{print $1 - $2}')")"
    last_status=$status
    case $status in 0 | 3) ;; *) return "$status" ;; esac
}

size_of() { du -sh --apparent-size -- "$1" 2>/dev/null | cut -f1 || true; }

# Names, kinds, modes, owners, sizes, times and link targets of everything below a folder. Only root
# can change owners, so they are compared only for root.
attributes_of() {
    local owners='%U:%G '
    [ "$(id -u)" -eq 0 ] || owners=''
    (cd "$1" && find . -xdev \( -type d -printf "%p d %m $owners%T@\n" -o \
        -printf "%p %y %m $owners%s %T@ %l\n" \) 2>/dev/null | LC_ALL=C sort)
}

compare() {
    echo
    compare_bytes "$1" "$2" "$work/differences"
    attributes_of "$1" > "$work/before"
    attributes_of "$2" > "$work/after"
    if ! diff "$work/before" "$work/after" > "$work/differences"; then
        head -5 "$work/differences"
        fail "attributes of the restored files differ"
    fi
    echo "    find -printf: every name, mode, owner, time and link of $(wc -l < "$work/after") entries too"
}

say "1. A repository"
show strongroom init

say "2. Back up $folder ($(size_of "$folder"), $(find "$folder" -xdev 2>/dev/null | wc -l) entries)"
show strongroom backup --one-file-system "$folder"
echo "    the repository now takes $(size_of "$STRONGROOM_REPOSITORY")"

say "3. Back up again: nothing changed, so nothing is read or stored twice"
show strongroom backup --one-file-system "$folder"
show strongroom snapshots

say "4. Is every stored byte what was written?"
show strongroom check --read-data

say "5. Restore, and compare with the original"
mkdir "$work/restored"
show strongroom restore latest --target "$work/restored" --keep-privileges
compare "$folder" "$work/restored$folder"
rm -rf "$work/restored"

say "6. Damage: 4 bytes in the middle of one pack of a copy of the repository"
cp -a "$STRONGROOM_REPOSITORY" "$work/damaged"
pack=$(find "$work/damaged/packs" -type f -printf '%s %p\n' | sort -rn | sed -n '1s/^[0-9]* //p')
chmod u+w "$pack"
printf 'oops' | dd of="$pack" bs=1 seek=$(($(stat -c %s "$pack") / 2)) conv=notrunc status=none
if show strongroom check --read-data --repo "$work/damaged"; then
    fail "check did not find the damage"
fi
echo "    found (exit code $last_status)"

say "7. Repair: drop what is lost, name the files, keep the rest"
show strongroom repair --repo "$work/damaged"
show strongroom check --read-data --repo "$work/damaged"

say "8. The next backup puts back what was lost, and nothing differs from the live files"
show strongroom backup --one-file-system --repo "$work/damaged" "$folder"

show strongroom verify latest --read-data --repo "$work/damaged"

# SeaweedFS comes with the environment of developers, and no key of it is worth anything.
python=$(dirname "$(command -v strongroom)")/python
if [ -x "$(dirname "$python")/weed" ]; then
    # Another cache: the damaged copy of the repository had one snapshot more.
    export XDG_CACHE_HOME=$work/cache-of-bucket
    export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=a-secret-of-tests
    coproc bucket { exec "$python" -m strongroom_bench.testbed.object_server "$work/bucket" 2> "$work/bucket.log"; }
    bucket_process=$!
    read -r -u "${bucket[0]}" place || fail "the object store does not start: $(tail -n 3 "$work/bucket.log")"

    say "9. A second copy in an object store, read back from there"
    show strongroom init --repo "$place"
    show strongroom copy --from-repo "$STRONGROOM_REPOSITORY" --repo "$place"
    file=$(cd "$folder" && find . -xdev -type f -size +0 -readable -printf '%P\n' | LC_ALL=C sort | sed -n 1p)
    show strongroom restore "latest:$folder/$file" --repo "$place" --target "$work/one"
    cmp "$folder/$file" "$work/one/$(basename "$file")"
    echo "    cmp: the same bytes"
    eval "exec ${bucket[1]}>&-"
    wait "$bucket_process" || true
fi

say "Done. The demonstration is removed; $folder was only read."
