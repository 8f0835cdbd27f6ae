#!/usr/bin/env bash
# Make the ISO of the image in build/image/results, and put it there; an image is built first if there is none.
#
# Live system and installer: make_iso.py in iso/. Manifest and SHA256SUMS cover it. Variables: SIGNING_KEY (GnuPG) signs
# SHA256SUMS; those of build_image.sh where that is called.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/.." && pwd)
build=${STRONGROOM_IMAGE_FOLDER:-$project/build/image}
results=$build/results

say() { printf 'iso: %s (%s s)\n' "$*" "$SECONDS" >&2; }
fail() { printf 'iso: %s\n' "$*" >&2; exit 98; }

[ "$(id -u)" -eq 0 ] || fail "making roots needs root"
compgen -G "$results/*.manifest.json" > /dev/null || "$here/build_image.sh"
mkdir -p "$build"
exec 8> "$build/image.lock"
flock --nonblock 8 || fail "an image is being built already"

manifest=$(ls "$results"/*.manifest.json)
name=$(basename "$manifest" .manifest.json)
# The time of the image, so that the same image gives the same ISO.
made=$(date --date="$(sed -n 's/^ "time": "\(.*\)",$/\1/p' "$manifest")" +%s)
disk=$name.raw format=raw
[ -e "$results/$disk" ] || { disk=$name.qcow2 format=qcow2; }
[ -e "$results/$disk" ] || fail "$results has neither $name.raw nor $name.qcow2: make image"

work=$build/iso.part
rm -rf "$work"
mkdir "$work"
trap 'rm -rf "$work"' EXIT
say "reading $disk"
"$here/in_tools.sh" qemu-img convert -f "$format" -O raw -S 64k "results/$disk" iso.part/disk
say "making the ISO"
"$here/in_tools.sh" python3 /project/packer/iso/make_iso.py iso.part/disk iso.part/iso --time "$made"
mv "$work/iso" "$results/$name.iso"
python3 "$here/checksums.py" "$results"
if [ -n "${SIGNING_KEY:-}" ]; then
    gpg --batch --local-user "$SIGNING_KEY" --armor --detach-sign "$results/SHA256SUMS"
fi
say "the ISO is $results/$name.iso"
