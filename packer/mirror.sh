#!/usr/bin/env bash
# Print where Debian comes from: mirror.sh debian|security. $MIRROR and $SECURITY_MIRROR, otherwise what apt has here.
set -euo pipefail

case $1 in
    debian) name=MIRROR label=Debian ;;
    security) name=SECURITY_MIRROR label=Debian-Security ;;
esac
found=${!name:-}
if [ -z "$found" ] && command -v apt-get > /dev/null; then
    # shellcheck disable=SC2016  # apt fills it in
    found=$(apt-get indextargets --format '$(REPO_URI)' "Label: $label" | sort -u | sed -n 1p)
fi
[ -n "$found" ] || { echo "apt has no repository of $label here: set $name to the address of one" >&2; exit 98; }
printf '%s\n' "${found%/}"
