#!/usr/bin/env bash
# Build the Debian packages of a suite: build_packages.sh SUITE
#
# SUITE is bookworm (Python 3.11) or trixie (3.13). Needs Debian, root and mmdebstrap. The packages go
# to build/packages/SUITE; the root they are built in, and the libraries, stay in build/packages and
# are used again. The same commit gives the same bytes: times are those of SOURCE_DATE_EPOCH, or of
# the commit. REVISION (1) is the part of the version that tells two builds of one version apart.
# MAINTAINER (that of debian/control) is who users of the packages can write to: `Name <address>`.
# LINT=no leaves lintian out, for a build that is only compared with another.
set -euo pipefail

suite=$1
revision=${REVISION:-1}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../.." && pwd)
engine=$project/appliance/engine
build=${STRONGROOM_PACKAGES_FOLDER:-$project/build/packages}
root=$build/$suite-root

say() { printf '%s: %s\n' "$suite" "$*" >&2; }
fail() { say "$2"; exit "$1"; }

case $suite in
    bookworm) release=deb12 ;;
    trixie) release=deb13 ;;
    *) fail 98 "no such suite; there are bookworm and trixie" ;;
esac
command -v mmdebstrap >/dev/null || fail 98 "mmdebstrap is missing: apt-get install mmdebstrap"
[ "$(id -u)" -eq 0 ] || fail 98 "making a root needs root"
mkdir -p "$build"
exec 9> "$build/$suite.lock"
flock --nonblock 9 || fail 98 "the packages of $suite are being built already"

if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git -C "$project" log -1 --format=%ct) ||
        fail 98 "this is not a clone; set SOURCE_DATE_EPOCH to the time of the packages"
fi
export SOURCE_DATE_EPOCH
[ -z "${MAINTAINER:-}" ] || [[ "$MAINTAINER" =~ ^[^\<\>,@]+\ \<[^\<\>,@\ ]+@[^\<\>,@\ ]+\>$ ]] ||
    fail 98 "MAINTAINER is not a name with an address: write it as 'Jo Doe <jo@example.org>'"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$engine/pyproject.toml")-$revision~$release

make_root() {
    local packages=debhelper,python3,python3-venv,lintian
    say "making the root"
    rm -rf "$root" "$root.made-from"
    mmdebstrap --quiet --variant=apt --include="$packages" "$suite" "$root"
    say "getting the libraries"
    # With this machine's name servers and certificates, as a proxy may have one of its own.
    mkdir -p "$root/etc/ssl/certs" "$root/wheels"
    cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
    cp "$engine/requirements-runtime.lock" "$root/wheels/"
    awk '/^setuptools==/ {found = 1} found {print} found && !/\\$/ {exit}' "$engine/requirements.lock" \
        > "$root/wheels/setuptools.lock"
    unshare --mount bash -e -c '
        mount --bind /etc/ssl/certs "$1/etc/ssl/certs"
        chroot "$1" python3 -m venv /download
        unset PIP_FIND_LINKS
        for lock in requirements-runtime setuptools; do
            chroot "$1" /download/bin/pip download --quiet --disable-pip-version-check \
                --require-hashes --only-binary :all: --dest /wheels -r "/wheels/$lock.lock"
        done
    ' bash "$root"
    rm -rf "$root/download"
}

# It is made anew when it or the libraries would be others.
made_from=$(cat "$engine/requirements.lock" "$engine/requirements-runtime.lock" - <<< "$(declare -f make_root)" |
    sha256sum | cut -c1-16)
if [ "$(cat "$root.made-from" 2>/dev/null)" != "$made_from" ]; then
    make_root
    printf '%s\n' "$made_from" > "$root.made-from"
fi

say "building $version"
source=$root/build/strongroom
rm -rf "$root/build"
mkdir -p "$source/engine" "$source/packages"
git -C "$project" ls-files -z --cached --others --exclude-standard \
    CHANGELOG.md appliance/packages appliance/systemd appliance/apparmor appliance/engine/src \
    appliance/engine/build_backend appliance/engine/pyproject.toml 'appliance/engine/*.lock' \
    appliance/program/src appliance/program/pyproject.toml |
    tar -C "$project" --null --files-from=- --ignore-failed-read -cf - |
    tar -C "$source" --no-same-owner --transform='s,^appliance/,,' -xf -
mv "$source/packages/debian" "$source/debian"
ln -s /wheels "$source/wheels"
if [ -n "${MAINTAINER:-}" ]; then
    MAINTAINER=$MAINTAINER perl -pi -e 's/^Maintainer: .*/Maintainer: $ENV{MAINTAINER}/' "$source/debian/control"
fi
cat > "$source/debian/changelog" <<END
strongroom ($version) $suite; urgency=medium

  * Build of this version. What changed is in changelog.gz of strongroom.

 -- $(sed -n 's/^Maintainer: //p' "$source/debian/control")  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
END

# Without a network: whatever is not in the lock file is not found.
unshare --mount --net --pid --fork --kill-child env -i HOME=/root LANG=C.UTF-8 \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" LINT="${LINT:-yes}" \
    bash -e -c '
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        chroot "$1" sh -e -c "
            cd /build/strongroom
            umask 0022
            dpkg-buildpackage --build=binary --unsigned-changes --no-check-builddeps > ../log 2>&1 ||
                { tail -n 60 ../log; exit 1; }
            cd ..
            [ \$LINT = yes ] || exit 0
            lintian --allow-root --fail-on error --tag-display-limit 0 strongroom_*.changes
        "
    ' bash "$root" < /dev/null

rm -rf "${build:?}/$suite"
mkdir "$build/$suite"
mv "$root"/build/*.deb "$build/$suite/"
rm -rf "$root/build" "$root/opt/strongroom"
say "the packages are in $build/$suite"
