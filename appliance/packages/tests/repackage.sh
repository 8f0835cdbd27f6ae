#!/usr/bin/env bash
# Make packages of another version out of those that were built: repackage.sh FOLDER INTO VERSION [broken]
#
# VERSION is that of the program, such as 9.0; in a package's version it takes the place of what is before the
# revision. `broken`: the agent of these does not start.
set -euo pipefail

folder=$1
into=$2
program=$3
broken=${4:-}
tree=$(mktemp -d "${TMPDIR:-/var/tmp}/strongroom-repackage.XXXXXXXX")
trap 'rm -rf "$tree"' EXIT

mkdir -p "$into"
for package in "$folder"/*.deb; do
    rm -rf "$tree"
    dpkg-deb --raw-extract "$package" "$tree"
    version=$(dpkg-deb --field "$package" Version)
    other=$program-${version##*-}
    sed -i "s/$version/$other/" "$tree/DEBIAN/control"
    if [ -e "$tree/opt/strongroom/VERSION" ]; then
        echo "$other" > "$tree/opt/strongroom/VERSION"
        # Another version of the program, and a module in place of one that was loaded late.
        library=$(echo "$tree"/opt/strongroom/lib/python3*/site-packages/strongroom)
        sed -i "s/^__version__.*/__version__ = \"$program\"/" "$library/__init__.py"
        rm -f "$library"/__pycache__/__init__.*
    fi
    if [ -n "$broken" ] && [[ "$(basename "$package")" == strongroom-agent_* ]]; then
        printf '[Service]\nExecStartPre=/bin/false\n' > \
            "$tree/usr/lib/systemd/system/strongroom-agent.service.d/90-broken.conf"
    fi
    name=$(basename "$package")
    dpkg-deb -Zgzip -z1 --root-owner-group --build "$tree" "$into/${name/_${version}_/_${other}_}" > /dev/null
done
