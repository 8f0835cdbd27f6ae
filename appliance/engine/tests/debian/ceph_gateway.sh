#!/usr/bin/env bash
# An object store of Ceph 18.2, of one disk, on loopback: ceph_gateway.sh ROOT FOLDER PORT PORT PORT
#
# ROOT is a folder with Debian 13 and Ceph, which is made where there is none; FOLDER, empty, gets
# all that is stored. The gateway listens on the first port, the monitor on the others. It runs until it is killed, in a PID namespace of its
# own, so nothing of it is left. Needs Debian, root, mmdebstrap, and 2 GB of memory.
set -euo pipefail

root=$1
folder=$2

if [ "${6:-}" = "" ]; then
    command -v mmdebstrap >/dev/null || { echo "mmdebstrap is missing: apt-get install mmdebstrap" >&2; exit 98; }
    [ "$(id -u)" -eq 0 ] || { echo "making a root needs root" >&2; exit 98; }
    if [ ! -e "$root.made" ]; then
        rm -rf "$root"
        mmdebstrap --quiet --variant=minbase --include=ceph-mon,ceph-mgr,ceph-osd,radosgw trixie "$root"
        touch "$root.made"
    fi
    exec unshare --mount --pid --fork --kill-child "$0" "$@" inside
fi

mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/ceph" "$folder"/{mon,mgr,osd}
mount --bind "$folder" "$root/ceph"
fsid=$(cat /proc/sys/kernel/random/uuid)
# Without `ms mon client mode` the gateway asks for a mode that needs keys, for as long as it runs.
cat > "$root/ceph/ceph.conf" <<EOF
[global]
fsid = $fsid
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc secure
keyring = /ceph/keyring
mon host = [v2:127.0.0.1:$4,v1:127.0.0.1:$5]
public addr = 127.0.0.1
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd class dir = /usr/lib/$(uname -m)-linux-gnu/rados-classes
osd objectstore = bluestore
osd memory target = 939524096
bluestore block size = 10737418240
mon allow pool size one = true
mon data = /ceph/mon
mgr data = /ceph/mgr
osd data = /ceph/osd
admin socket =
log file = /ceph/\$name.log
EOF
exec chroot "$root" bash -euc '
export CEPH_CONF=/ceph/ceph.conf
cd /ceph
ceph-authtool --create-keyring keyring >/dev/null
for name in client.admin mon. osd.0 mgr.x; do
    ceph-authtool keyring --gen-key -n $name --cap mon "allow *" --cap osd "allow *" --cap mgr "allow *" >/dev/null
done
monmaptool --create --addv a "[v2:127.0.0.1:$3,v1:127.0.0.1:$4]" --fsid "$1" monmap >/dev/null
ceph-mon --mkfs -i a --monmap monmap --keyring keyring
ceph-mon -i a
ceph-mgr -i x
uuid=$(cat /proc/sys/kernel/random/uuid)
timeout 120 ceph osd new "$uuid" >/dev/null
ceph-osd -i 0 --mkfs --osd-uuid "$uuid" 2>/dev/null
ceph-osd -i 0 2>/dev/null
until timeout 30 ceph osd stat | grep -q "1 up"; do sleep 0.5; done
# It makes the pools, and the user is in one of them.
timeout 300 radosgw-admin user create --uid=tests --display-name=tests --access-key=test \
    --secret-key=a-secret-of-tests >/dev/null 2>&1
exec radosgw -f -n client.admin --keyring keyring --rgw-frontends "beast endpoint=127.0.0.1:$2"
' bash "$fsid" "$3" "$4" "$5"
