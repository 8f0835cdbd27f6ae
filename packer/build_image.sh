#!/usr/bin/env bash
# Build the appliance's image: build_image.sh [FORMAT...]     FORMAT: qcow2 raw vmdk vhdx ova, by default qcow2 and raw
#
# Base disk by mmdebstrap, one boot with ansible/image.yml by Packer, then the results in build/image/results. Needs Debian,
# root, mmdebstrap and packer (1.6.6, or 1.11 and newer with its plugins). Variables: PACKAGES (folder with Strongroom's
# Debian packages), MIRROR, SECURITY_MIRROR, ACCELERATOR (kvm or tcg, otherwise tried), PACKER, SIGNING_KEY (GnuPG),
# UPDATE_KEY (Ed25519, PEM: signs the update; appliances that are made with it take only updates that it signed).
# PROVISION=container runs image.yml in a container instead, and needs no Packer.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/.." && pwd)
build=${STRONGROOM_IMAGE_FOLDER:-$project/build/image}
packages=${PACKAGES:-$project/build/packages/trixie}
packer=${PACKER:-packer}
formats=("$@")
[ $# -gt 0 ] || formats=(qcow2 raw)

say() { printf 'image: %s (%s s)\n' "$*" "$SECONDS" >&2; }
fail() { printf 'image: %s\n' "$*" >&2; exit 98; }

[ "$(id -u)" -eq 0 ] || fail "making roots needs root"
command -v mmdebstrap > /dev/null || fail "mmdebstrap is missing: apt-get install mmdebstrap"
command -v zstd > /dev/null || fail "zstd is missing: apt-get install zstd"
command -v curl > /dev/null || fail "curl is missing: apt-get install curl"
[ "${PROVISION:-packer}" = container ] || command -v "$packer" > /dev/null || fail "packer is missing: apt-get install packer on Debian 12, or https://developer.hashicorp.com/packer"
compgen -G "$packages/strongroom-director_*~deb13_*.deb" > /dev/null ||
    fail "$packages has no packages for Debian 13: make packages SUITES=trixie, or set PACKAGES"
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git -C "$project" log -1 --format=%ct) || fail "this is not a clone; set SOURCE_DATE_EPOCH"
fi
export SOURCE_DATE_EPOCH STRONGROOM_IMAGE_FOLDER=$build
mkdir -p "$build"
build=$(cd "$build" && pwd)
packages=$(cd "$packages" && pwd)
exec 8> "$build/image.lock"
flock --nonblock 8 || fail "an image is being built already"

provision_by_packer() {
    local disk boot
    disk=$base-$(cat "$here/base/make_disk.py" "$here/base/grub.cfg" | sha256sum | cut -c1-8).raw
    if [ ! -e "$disk" ]; then
        say "making the base disk"
        rm -f "$base"-*.raw
        "$here/in_tools.sh" env "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" \
            python3 /project/packer/base/make_disk.py "$(basename "$base").tar" "$(basename "$base").part"
        mv "$base.part" "$disk"
    fi
    accelerator=${ACCELERATOR:-$("$here/accelerator.sh" "$base.kernel")}
    say "starting it with the accelerator $accelerator"
    boot=$(mktemp -d "$build/boot.XXXXXX")
    # shellcheck disable=SC2064  # this folder
    trap "rm -rf '$boot'" EXIT
    ssh-keygen -q -t ed25519 -N '' -C 'the making of an image' -f "$boot/key"
    PATH=$here/bin:$project/.venv-ansible/bin:$PATH CHECKPOINT_DISABLE=1 PACKER_CACHE_DIR=$boot/cache \
        ANSIBLE_SSH_CONTROL_PATH_DIR=$boot/cp "$packer" build -color=false \
        -var "base=$disk" -var "output=$boot/disk" -var "key=$boot/key" -var "packages=$packages" \
        -var "kernel=$base.kernel" -var "accelerator=$accelerator" \
        -var "disk_mib=$(($(stat -c %s "$disk") / 1048576))" "$here" >&2 ||
        { [ ! -e "$boot/disk.console" ] || tail -n 20 "$boot/disk.console" >&2; exit 1; }
    mv "$boot/disk/appliance.qcow2" "$build/results.part/disk"
}

# Without its own key it is made, and kept beside the results. Anyone who loses it can update no appliance.
key=${UPDATE_KEY:-$build/update-key.pem}
if [ ! -e "$key" ] && [ -z "${UPDATE_KEY:-}" ]; then
    say "making a key that signs updates: $key"
    (umask 0077 && openssl genpkey -algorithm ed25519 -out "$key.part" && mv "$key.part" "$key")
fi
export UPDATE_PUBLIC_KEY=$build/update-key.pub.pem
openssl pkey -in "$key" -pubout -out "$UPDATE_PUBLIC_KEY" || fail "$key is not a private key"
grep -q 'ED25519' <<< "$(openssl pkey -in "$key" -noout -text)" || fail "$key is not an Ed25519 key: openssl genpkey -algorithm ed25519"

base=$("$here/base/base_root.sh" "$packages")
rm -rf "$build/results.part"
mkdir "$build/results.part"
if [ "${PROVISION:-packer}" = container ]; then
    accelerator=container format=raw
    say "running ansible/image.yml in a container"
    "$here/provision_container.sh" "$base.tar" "$base.finished.tar" "$packages"
    "$here/in_tools.sh" env "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" python3 /project/packer/base/make_disk.py \
        "$(basename "$base").finished.tar" results.part/disk
else
    provision_by_packer
    format=qcow2
fi

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$project/appliance/engine/pyproject.toml")
say "writing the update"
# Root a, see base/make_disk.py.
opened="driver=raw,offset=$((66 << 20)),size=$((2048 << 20)),file.driver=$format,file.file.driver=file,file.file.filename=disk"
[ "$format" != raw ] || opened=${opened/file.driver=raw,file.file.driver=file,file.file.filename/file.driver=file,file.filename}
"$here/in_tools.sh" env --chdir=/work/results.part qemu-img convert --image-opts "$opened" -O raw root
# All of it is sent, written and read again, so it is no larger than its content with 128 MiB to spare (blocks of 4 KiB).
# shellcheck disable=SC2016  # the inner shell expands them
"$here/in_tools.sh" env --chdir=/work/results.part "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" bash -eo pipefail -c '
    e2fsck -fp root || [ $? -eq 1 ]
    blocks=$(($(resize2fs -P root 2> /dev/null | sed "s/.*: //") + 32768))
    [ $((blocks * 4096)) -ge "$(stat -c %s root)" ] || resize2fs root "$blocks"
    [ $((blocks * 4096)) -ge "$(stat -c %s root)" ] || truncate --size=$((blocks * 4096)) root' >&2
python3 "$here/update_file.py" "$build/results.part/root" "$key" "$build/results.part/strongroom-$version-amd64.update" \
    --image "$(cat "$base.id")" --version "$version"
rm "$build/results.part/root"

say "writing the results"
"$here/in_tools.sh" python3 /project/packer/results.py results.part --base "$(basename "$base")" \
    --version "$version" \
    --time "$SOURCE_DATE_EPOCH" --commit "$(git -C "$project" rev-parse HEAD 2> /dev/null || echo unknown)" \
    --accelerator "$accelerator" "${formats[@]}"
if [ -n "${SIGNING_KEY:-}" ]; then
    gpg --batch --local-user "$SIGNING_KEY" --armor --detach-sign "$build/results.part/SHA256SUMS"
fi
rm -rf "$build/results"
mv "$build/results.part" "$build/results"
say "the image is in $build/results"
