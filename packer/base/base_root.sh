#!/usr/bin/env bash
# Make the root folder that an image begins with, and print its path: base_root.sh PACKAGES_FOLDER
#
# Two layers, each kept under the hash of what goes into it: Debian (packages.list, what the mirror has today), and over it
# ours (appliance/overlay and the Debian packages of Strongroom in PACKAGES_FOLDER). Variables: MIRROR, SECURITY_MIRROR,
# SOURCE_DATE_EPOCH, STRONGROOM_IMAGE_FOLDER, UPDATE_PUBLIC_KEY (whose updates the appliance takes). Beside the root lies
# PATH.packages, name and version of every package, and PATH.id, the id of the image.
#
# An image is known by its id, TIME-HASH. The time is that of SOURCE_DATE_EPOCH or of the newest release file of the mirror,
# whichever is later: the image with a newer Debian is the newer one.
set -euo pipefail

packages=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../.." && pwd)
build=${STRONGROOM_IMAGE_FOLDER:-$project/build/image}
mirror=$("$here/../mirror.sh" debian)
security=$("$here/../mirror.sh" security)
: "${SOURCE_DATE_EPOCH:?the time of the image in seconds}" "${UPDATE_PUBLIC_KEY:?the public key of updates}"
export SOURCE_DATE_EPOCH
suite=trixie
overlay=$project/appliance/overlay

say() { printf 'base disk: %s\n' "$*" >&2; }
short_hash() { sha256sum | cut -c1-16; }
# Names, modes and content of a folder.
list_folder() { (cd "$1" && find . -printf '%P %m %l\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

mkdir -p "$build"
build=$(cd "$build" && pwd)
listed=$(sed '/^#/d; /^$/d' "$here/packages.list" | paste -sd,)
sources="deb $mirror $suite main
deb $mirror $suite-updates main
deb $security $suite-security main"
answer=$(while read -r _ site name _; do
    curl --fail --silent --show-error --retry 2 "$site/dists/$name/InRelease"
done <<< "$sources")
released=$(sed -n '/^ [0-9a-f]\{64\} /p' <<< "$answer")
[ -n "$released" ] || { say "the mirror has no release files: $mirror, $security"; exit 1; }
made=$SOURCE_DATE_EPOCH
while read -r date; do
    seconds=$(date --date="$date" +%s)
    [ "$seconds" -le "$made" ] || made=$seconds
done < <(sed -n 's/^Date: //p' <<< "$answer")

make_debian() {
    mmdebstrap --quiet --variant=apt --include="$listed" \
        --aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "3"' --aptopt='APT::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        "$suite" "$1" - <<< "$sources" >&2
}

make_ours() {
    local merged=$1
    cp -r "$overlay/." "$merged/"
    chown -R --no-dereference root:root "$merged"/usr/lib/strongroom
    mkdir -p "$merged/var/cache/strongroom-packages"
    cp "$packages"/strongroom_*.deb "$packages"/strongroom-{storage,director,appliance}_*.deb \
        "$merged/var/cache/strongroom-packages/"
    printf '%s\n' "$made-$ours" > "$merged/usr/lib/strongroom/image/id"
    cp "$UPDATE_PUBLIC_KEY" "$merged/usr/lib/strongroom/image/update-key.pem"
    unshare --mount --net --pid --fork --kill-child env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" bash -ec '
            mount -t proc proc "$1/proc"
            mount --rbind /dev "$1/dev"
            printf "#!/bin/sh\nexit 101\n" > "$1/usr/sbin/policy-rc.d"
            chmod 0755 "$1/usr/sbin/policy-rc.d"
            chroot "$1" sh -e < "$2"
            rm "$1/usr/sbin/policy-rc.d"
        ' bash "$merged" "$here/configure_root.sh" >&2
}

debian=debian-$(printf '%s\n' "$listed" "$sources" "$released" "$(declare -f make_debian)" | short_hash)
if [ ! -d "$build/$debian" ]; then
    say "getting Debian ($debian)"
    rm -rf --one-file-system "$build"/debian-*
    make_debian "$build/$debian.part"
    mv "$build/$debian.part" "$build/$debian"
fi
ours=$({ echo "$debian $SOURCE_DATE_EPOCH"; list_folder "$overlay"; list_folder "$packages"; list_folder "$project/roles"
    cat "$here"/*.sh "$project"/ansible/{image,baseline}.yml "$UPDATE_PUBLIC_KEY"; } | short_hash)
root=$build/base-$ours
if [ ! -e "$root.tar" ]; then
    say "configuring it ($ours)"
    rm -rf --one-file-system "$build"/base-*
    mkdir -p "$root.work/"{upper,work,merged}
    # shellcheck disable=SC2064  # these values
    trap "umount '$root.work/merged' 2> /dev/null || true; rm -rf --one-file-system '$root.work'" EXIT
    mount -t overlay -o "lowerdir=$build/$debian,upperdir=$root.work/upper,workdir=$root.work/work" overlay \
        "$root.work/merged"
    make_ours "$root.work/merged"
    # shellcheck disable=SC2016  # dpkg-query expands them
    chroot "$root.work/merged" dpkg-query -W -f '${Package} ${Version} ${Architecture}\n' > "$root.packages"
    cp "$root.work/merged/usr/lib/strongroom/image/id" "$root.id"
    cp "$root.work/merged"/boot/vmlinuz-* "$root.kernel"
    cp "$root.work/merged"/boot/initrd.img-* "$root.kernel.initrd"
    tar -C "$root.work/merged" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --clamp-mtime --numeric-owner --xattrs \
        --xattrs-include='*' --one-file-system -cf "$root.tar.part" .
    mv "$root.tar.part" "$root.tar"
fi
echo "$root"
