# Shell functions of both demonstrations: which folder they take, and how they compare trees.
# shellcheck shell=bash

# How many regular files a folder holds that we may read, and their bytes: "FILES BYTES".
files_and_bytes() {
    find "$1" -xdev -type f -readable -printf '%s\n' 2>/dev/null |
        awk '{ files++; bytes += $1 } END { printf "%d %d\n", files, bytes }'
}

# The first of these folders with real data: a hundred files, a megabyte. Many a minimal machine has
# the usual folders without a file in them. What Python itself is made of is there in any case.
pick_folder() {
    local candidate files bytes
    for candidate in "$@" "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"; do
        [ -d "$candidate" ] || continue
        read -r files bytes < <(files_and_bytes "$candidate")
        if [ "$files" -ge 100 ] && [ "$bytes" -ge 1000000 ]; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    fail "found no folder with files to back up; name one: make demo DIR=/some/folder"
}

# Where there is nothing to compare, nothing would be shown.
require_files() {
    local files bytes
    [ -d "$1" ] || fail "$1 is not a folder"
    read -r files bytes < <(files_and_bytes "$1")
    [ "$files" -gt 0 ] || fail "$1 has no files that can be read, so there is nothing to show; choose another folder"
}

# Compare every byte of two trees, and say how many that were. A user who may not read some files
# cannot compare these; DIFFERENCES is a file for what is found.
compare_bytes() {
    local original=$1 restored=$2 differences=$3 files bytes
    if ! diff -r --no-dereference "$original" "$restored" > "$differences" 2>&1 &&
        { [ "$(id -u)" -eq 0 ] || grep -qv 'Permission denied' "$differences"; }; then
        head -5 "$differences"
        fail "the restored files differ"
    fi
    read -r files bytes < <(files_and_bytes "$restored")
    [ "$files" -gt 0 ] || fail "nothing was compared: there is no file in $restored"
    printf "    diff -r: compared %'d files of %'d bytes, every byte is the same\n" "$files" "$bytes"
}
