#!/usr/bin/env bash
# Make the root with the tools that images are built with, and print its folder: QEMU, GRUB, file systems,
# an emulated TPM and the auditors of the tests, of Debian 13.
#
# So a disk does not depend on the Debian that builds it; and QEMU 7.2 of Debian 12 crashes guests of Debian 13. It is cached
# in build/image (or $STRONGROOM_IMAGE_FOLDER), and made anew when this script changes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${STRONGROOM_IMAGE_FOLDER:-$here/../build/image}
packages=qemu-system-x86,qemu-utils,ovmf,seabios,fdisk,dosfstools,mtools,grub-pc-bin,grub-efi-amd64-bin,grub-common
packages+=,e2fsprogs,libarchive13t64,squashfs-tools,xorriso,zstd,python3,lynis,ssh-audit,openscap-scanner,ssg-debian
packages+=,swtpm,swtpm-tools

command -v mmdebstrap > /dev/null || { echo "mmdebstrap is missing: apt-get install mmdebstrap" >&2; exit 98; }
mkdir -p "$build"
build=$(cd "$build" && pwd)
root=$build/tools-$(sha256sum < "${BASH_SOURCE[0]}" | cut -c1-16)
exec 9> "$build/tools.lock"
flock 9
if [ ! -d "$root" ]; then
    mirror=$("$here/mirror.sh" debian)
    echo "getting the tools" >&2
    rm -rf --one-file-system "$build"/tools-*
    mmdebstrap --quiet --variant=apt --aptopt='Acquire::Retries "5"' --include="$packages" trixie "$root.part" "$mirror" >&2
    mkdir -p "$root.part/work"
    mv "$root.part" "$root"
fi
echo "$root"
