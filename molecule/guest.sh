#!/usr/bin/env bash
# Virtual machines with their own kernel: guest.sh up NAME NUMBER SUITE, or guest.sh down NAME
#
# For scenarios about the kernel and disks, beside host.sh and in the same laboratory: a guest is reached at 10.88.0.NUMBER.
# Besides the disk of the system (virtio) it has an empty one of each kind: rotating, solid-state (SCSI) and NVMe. It works
# without KVM; a guest starts in some 30 s in software. QEMU is Debian 13's, in build/vm as for `make test-vm`.
set -euo pipefail

name=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$LABORATORY/$name
build=${STRONGROOM_VM_FOLDER:-$here/../build/vm}
qemu_root=$build/qemu
# After so long it is ended, whatever it does.
guest_seconds=${GUEST_SECONDS:-7200}
# On a busy machine a start in software takes longer than systemd and udev would wait.
patience="systemd.default_timeout_start_sec=1200 systemd.default_device_timeout_sec=1200 udev.event_timeout=1200"

up() {
    local address=10.88.0.$1 suite=$2 root kernel initrd disk
    if [ ! -e "$qemu_root/ready" ]; then
        echo "getting QEMU" >&2
        rm -rf "$qemu_root"
        mkdir -p "$build"
        mmdebstrap --quiet --variant=apt --include=qemu-system-x86,seabios trixie "$qemu_root" >&2
        touch "$qemu_root/ready"
    fi
    root=$("$here/root.sh" "$suite" kernel)
    mkdir -p "$folder"/{upper,work,root}
    mount -t overlay -o "lowerdir=$root,upperdir=$folder/upper,workdir=$folder/work" overlay "$folder/root"
    echo "$name" > "$folder/root/etc/hostname"
    install -d -m 0700 "$folder/root/root/.ssh"
    install -m 0600 "$LABORATORY/key.pub" "$folder/root/root/.ssh/authorized_keys"
    chroot "$folder/root" ssh-keygen -q -A
    printf '[Match]\nType=ether\n[Network]\nAddress=%s/24\nGateway=10.88.0.1\n' "$address" \
        > "$folder/root/etc/systemd/network/10-laboratory.network"
    printf '/dev/vda / ext4 defaults 0 1\n' > "$folder/root/etc/fstab"
    kernel=$(find "$root/boot" -name 'vmlinuz-*' | sort -V | tail -1)
    initrd=$(find "$root/boot" -name 'initrd.img-*' | sort -V | tail -1)
    truncate -s 4G "$folder/system.disk"
    mkfs.ext4 -q -F -d "$folder/root" "$folder/system.disk"
    umount "$folder/root"
    rm -rf "$folder/upper" "$folder/work"
    for disk in rotating solid nvme; do truncate -s 1G "$folder/$disk.disk"; done
    ip -n "$LABORATORY_NETWORK" tuntap add "t-$name" mode tap
    ip -n "$LABORATORY_NETWORK" link set "t-$name" master br0 up
    setsid timeout --kill-after=5 "$guest_seconds" nsenter --net="/run/netns/$LABORATORY_NETWORK" \
        "$qemu_root/lib64/ld-linux-x86-64.so.2" --library-path "$qemu_root/usr/lib/x86_64-linux-gnu" \
        "$qemu_root/usr/bin/qemu-system-x86_64" -L "$qemu_root/usr/share/qemu" -L "$qemu_root/usr/share/seabios" \
        -accel tcg,thread=multi -cpu max -smp 2 -m 2048 -display none -monitor none -serial "file:$folder/console" \
        -pidfile "$folder/pid" -kernel "$kernel" -initrd "$initrd" \
        -append "root=/dev/vda rw console=ttyS0 panic=-1 quiet systemd.show_status=0 $patience" \
        -netdev "tap,id=net,ifname=t-$name,script=no,downscript=no" -device virtio-net-pci,netdev=net \
        -drive "file=$folder/system.disk,format=raw,if=virtio,cache=unsafe" \
        -device virtio-scsi-pci \
        -drive "id=rotating,file=$folder/rotating.disk,format=raw,if=none,cache=unsafe" \
        -device scsi-hd,drive=rotating,rotation_rate=7200,serial=rotating \
        -drive "id=solid,file=$folder/solid.disk,format=raw,if=none,cache=unsafe" \
        -device scsi-hd,drive=solid,rotation_rate=1,serial=solid \
        -drive "id=nvme,file=$folder/nvme.disk,format=raw,if=none,cache=unsafe" \
        -device nvme,drive=nvme,serial=nvme \
        < /dev/null > "$folder/qemu.log" 2>&1 &
    for _ in $(seq 600); do
        if timeout 1 bash -c "head -c4 < /dev/tcp/$address/22" 2> /dev/null | grep -q SSH; then return; fi
        if grep -qs 'Kernel panic' "$folder/console"; then break; fi
        sleep 0.5
    done
    echo "$name did not start; QEMU said, and its console:" >&2
    tail -5 "$folder/qemu.log" >&2
    tail -20 "$folder/console" >&2
    exit 1
}

down() {
    local process
    if [ -s "$folder/pid" ]; then
        process=$(cat "$folder/pid")
        kill "$process" 2> /dev/null || true
        for _ in $(seq 50); do
            kill -0 "$process" 2> /dev/null || break
            sleep 0.1
        done
    fi
    if mountpoint -q "$folder/root"; then umount "$folder/root"; fi
    ip -n "$LABORATORY_NETWORK" link del "t-$name" 2> /dev/null || true
    rm -rf --one-file-system "$folder"
}

case $1 in
    up) up "$3" "$4" ;;
    down) down ;;
esac
