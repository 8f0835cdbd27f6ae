#!/usr/bin/env bash
# Build the packages of a suite twice, and compare them byte by byte: compare_builds.sh SUITE
#
# Names each file in a package that differs. Needs the same as ../build_packages.sh, whose root it uses.
set -euo pipefail

suite=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../../.." && pwd)
build=${STRONGROOM_PACKAGES_FOLDER:-$project/build/packages}

mkdir -p "$build"
work=$(mktemp -d "$build/compare.XXXXXXXX")
trap 'rm -rf "$work"' EXIT
for shared in "$suite-root" "$suite-root.made-from" "$suite.lock"; do
    ln -s "$build/$shared" "$work/$shared"
done
for number in 1 2; do
    STRONGROOM_PACKAGES_FOLDER=$work LINT=no "$here/../build_packages.sh" "$suite" >&2
    mv "$work/$suite" "$work/$number"
done

differs=0
for package in "$work"/1/*.deb; do
    name=$(basename "$package")
    cmp --silent "$package" "$work/2/$name" && continue
    differs=1
    for number in 1 2; do
        rm -rf "$work/tree$number"
        dpkg-deb --raw-extract "$work/$number/$name" "$work/tree$number"
    done
    echo "$name differs between two builds:"
    diff --recursive --brief --no-dereference "$work/tree1" "$work/tree2" | sed "s,$work/tree[12],,g" ||
        true
done
[ "$differs" = 0 ] && echo "$suite: two builds are the same, byte for byte"
exit "$differs"
