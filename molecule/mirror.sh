#!/usr/bin/env bash
# Make packages, with what they need and recommend, the only source of apt in a root: mirror.sh ROOT PACKAGE...
#
# A hook of mmdebstrap, called by root.sh. They are in /srv/debian; nothing of them is installed.
set -euo pipefail

root=$1
mirror=$root/srv/debian
mkdir -p "$mirror/partial"
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get --yes --quiet --quiet --download-only --option=APT::Install-Recommends=true \
    --option=Dir::Cache::Archives="$mirror" --option=APT::Keep-Downloaded-Packages=true install "${@:2}"
rm -rf "$mirror/partial" "$mirror/lock"
cd "$mirror"
for file in *.deb; do
    dpkg-deb --field "$file"
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$file" "$(stat -c %s "$file")" "$(sha256sum "$file" | cut -d' ' -f1)"
done > Packages
chmod -R u=rwX,go=rX "$mirror"
rm -f "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/debian ./' > "$root/etc/apt/sources.list"
rm -rf "$root"/var/lib/apt/lists/*
