#!/usr/bin/env bash
# Run tests/vm/guest inside a virtual machine whose kernel can do TLS:
#
#     run_in_guest.sh [SUITE] [PYTEST ARGUMENT...]      SUITE: trixie (Python 3.13) or bookworm (3.11)
#     run_in_guest.sh SUITE --bench SUITE-OF-BENCH [OPTION...]
#
# The second form runs a suite of the benchmark there instead, and prints its page of Markdown; for NFS:
#
#     GUEST_SECONDS=3600 run_in_guest.sh trixie --bench bacula-nfs --scale 0.2 --rounds 1 --delays 20,100
#
# Needs Debian, root and mmdebstrap; what it builds stays in build/vm and is used again. It works
# without KVM: a guest boots in 15 to 30 s in software. QEMU is Debian 13's also on Debian 12, whose
# own crashes guests of Debian 13. Exit status: that of pytest in the guest, 99 when it never ended.
set -euo pipefail

suite=${1:-trixie}
shift || true
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
engine=$(cd "$here/../.." && pwd)
project=$(cd "$engine/../.." && pwd)
build=${STRONGROOM_VM_FOLDER:-$project/build/vm}
guest_seconds=${GUEST_SECONDS:-600}
qemu_root=$build/qemu
root=$build/$suite-root
mkdir -p "$build"

say() { printf '%s: %s\n' "$suite" "$*" >&2; }

command -v mmdebstrap >/dev/null || { say "mmdebstrap is missing: apt-get install mmdebstrap"; exit 98; }
[ "$(id -u)" -eq 0 ] || { say "making a guest needs root"; exit 98; }

qemu() {
    "$qemu_root/lib64/ld-linux-x86-64.so.2" --library-path "$qemu_root/usr/lib/x86_64-linux-gnu" \
        "$qemu_root/usr/bin/qemu-system-x86_64" -L "$qemu_root/usr/share/qemu" \
        -L "$qemu_root/usr/share/seabios" "$@"
}

# A guest is made anew when the libraries change.
made_from=$(cat "$engine/requirements.lock" "${BASH_SOURCE[0]}" | sha256sum | cut -c1-16)
if [ "$(cat "$root.made-from" 2>/dev/null)" != "$made_from" ]; then
    say "making the guest's root"
    rm -rf "$root" "$root.made-from"
    mmdebstrap --quiet --variant=apt \
        --include=linux-image-cloud-amd64,initramfs-tools,systemd-sysv,udev,kmod,iproute2,python3-venv,openssl,procps,tzdata,nfs-kernel-server,nfs-common \
        "$suite" "$root"
    version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "installing the libraries for Python $version"
    mkdir -p "$build/wheels-$suite"
    "$project/.venv/bin/pip" download --quiet --disable-pip-version-check --only-binary :all: \
        --python-version "$version" --dest "$build/wheels-$suite" -r "$engine/requirements.lock"
    rm -rf "$root/wheels"
    cp -r "$build/wheels-$suite" "$root/wheels"
    chroot "$root" python3 -m venv /opt/strongroom
    chroot "$root" /opt/strongroom/bin/pip install --quiet --disable-pip-version-check --no-index \
        --find-links /wheels $(cd "$build/wheels-$suite" && ls | sed 's/.*/\/wheels\/&/')
    rm -rf "$root/wheels"
    install -m 0644 "$here/guest-tests.service" "$root/etc/systemd/system/"
    chroot "$root" systemctl enable --quiet guest-tests.service
    chroot "$root" systemctl mask --quiet getty@tty1.service serial-getty@ttyS0.service \
        systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer
    printf '%s\n' "$made_from" > "$root.made-from"
fi

[ "${1:-}" != --only-root ] || exit 0

if [ ! -e "$qemu_root/ready" ]; then
    say "getting QEMU"
    rm -rf "$qemu_root"
    mmdebstrap --quiet --variant=apt --include=qemu-system-x86,seabios trixie "$qemu_root"
    touch "$qemu_root/ready"
fi

say "making the disk"
rm -rf "$root/engine"
mkdir -p "$root/engine"
cp -r "$engine/src" "$engine/tests" "$engine/bench" "$engine/build_backend" "$engine/pyproject.toml" "$root/engine/"
install -m 0755 "$here/guest-tests.sh" "$root/usr/local/bin/guest-tests"
[ $# -eq 0 ] || printf '%q ' "$@" > "$root/engine/arguments"
disk=$build/$suite.disk
rm -f "$disk"
truncate -s 3G "$disk"
mkfs.ext4 -q -F -d "$root" "$disk"
log=$build/$suite.log
kernel=$(find "$root/boot" -name 'vmlinuz-*' | sort -V | tail -1)
initrd=$(find "$root/boot" -name 'initrd.img-*' | sort -V | tail -1)

say "booting; the guest's console goes to $log"
set +e
timeout --kill-after=5 "$guest_seconds" bash -c "$(declare -f qemu); qemu_root='$qemu_root'; qemu \"\$@\"" qemu \
    -accel tcg,thread=multi -cpu max -smp 2 -m 2048 -display none -no-reboot -nic none \
    -monitor none -serial "file:$log" -kernel "$kernel" -initrd "$initrd" \
    -append "root=/dev/vda rw console=ttyS0 panic=-1 quiet systemd.show_status=0" \
    -drive "file=$disk,format=raw,if=virtio,cache=unsafe" < /dev/null
set -e
rm -f "$disk"
sed -n '/GUEST TESTS BEGIN/,/GUEST TESTS END/p' "$log" | tr -d '\r'
result=$(tr -d '\r' < "$log" | sed -n 's/^GUEST TESTS END \([0-9]*\)$/\1/p' | tail -1)
if [ -z "$result" ]; then
    say "the guest did not come to an end; its console was:"
    tail -40 "$log" >&2
    exit 99
fi
exit "$result"
