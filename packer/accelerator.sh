#!/usr/bin/env bash
# Print the accelerator that works here: kvm or tcg. It is tried, as /dev/kvm may be there and not work.
#
# A virtual machine with the kernel of the base disk must come as far as its first message: accelerator.sh KERNEL
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernel=$1
seconds=${PROBE_SECONDS:-20}
if [ -w /dev/kvm ]; then
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    # Without a root file system the kernel gives up, and -no-reboot ends QEMU. Or QEMU dies, which is an answer too.
    { timeout --kill-after=2 "$seconds" "$here/bin/qemu-system-x86_64" -accel kvm -cpu host -m 512 -display none \
        -no-reboot -nic none -monitor none -serial "file:$log" -kernel "$kernel" \
        -append "console=ttyS0 panic=-1" < /dev/null || true; } > /dev/null 2>&1
    if grep -aq 'Unable to mount root' "$log"; then
        echo kvm
        exit
    fi
fi
echo tcg
