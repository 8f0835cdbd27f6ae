#!/usr/bin/env bash
# Hosts with systemd, each a container with a network of its own: host.sh up NAME NUMBER SUITE, or host.sh down NAME
#
# Called by the scenarios' playbooks, in the laboratory that run.sh makes ($LABORATORY, $LABORATORY_NETWORK). A host is an
# overlay over the root of its suite, and is reached at 10.88.0.NUMBER by secure shell with the laboratory's key.
set -euo pipefail

name=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$LABORATORY/$name
network=$LABORATORY_NETWORK-$name
if [ -d /sys/fs/cgroup/unified ]; then cgroups=/sys/fs/cgroup/unified; else cgroups=/sys/fs/cgroup; fi
cgroup=$cgroups/$network

up() {
    local address=10.88.0.$1 root
    root=$("$here/root.sh" "$2")
    mkdir -p "$folder"/{upper,work,root}
    mount -t overlay -o "lowerdir=$root,upperdir=$folder/upper,workdir=$folder/work" overlay "$folder/root"
    echo "$name" > "$folder/root/etc/hostname"
    install -d -m 0700 "$folder/root/root/.ssh"
    install -m 0600 "$LABORATORY/key.pub" "$folder/root/root/.ssh/authorized_keys"
    chroot "$folder/root" ssh-keygen -q -A
    ip netns add "$network"
    ip -n "$LABORATORY_NETWORK" link add "v-$name" type veth peer name host0 netns "$network"
    ip -n "$LABORATORY_NETWORK" link set "v-$name" master br0 up
    ip -n "$network" address add "$address/24" dev host0
    ip -n "$network" link set lo up
    ip -n "$network" link set host0 up
    ip -n "$network" route add default via 10.88.0.1
    mkdir "$cgroup"
    # A cgroup of its own, and no systemd of the machine that it would ask. Exit code 133 is a restart.
    CGROUP=$cgroup FOLDER=$folder NAME=$name NETWORK=$network setsid unshare --mount --propagation slave bash -c '
        echo $$ > "$CGROUP/cgroup.procs"
        echo $$ > "$FOLDER/pid"
        umount --recursive /sys/fs/cgroup
        mount -t tmpfs -o mode=755 tmpfs /run/systemd
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network
        code=133
        while [ $code = 133 ]; do
            systemd-nspawn --quiet --boot --keep-unit --register=no --machine="$NAME" --directory="$FOLDER/root" \
                --network-namespace-path="/run/netns/$NETWORK" --console=read-only --capability=CAP_NET_ADMIN \
                --link-journal=no --resolv-conf=off --timezone=off
            code=$?
        done' < /dev/null > "$folder/console" 2>&1 &
    for _ in $(seq 300); do
        if timeout 1 bash -c "head -c4 < /dev/tcp/$address/22" 2> /dev/null | grep -q SSH; then return; fi
        sleep 0.2
    done
    echo "$name did not start; its console:" >&2
    tail -20 "$folder/console" >&2
    exit 1
}

down() {
    if [ -d "$cgroup" ]; then
        for _ in $(seq 50); do
            [ ! -e "$cgroup/cgroup.kill" ] || echo 1 > "$cgroup/cgroup.kill"
            find "$cgroup" -depth -type d -exec rmdir {} + 2> /dev/null && break
            sleep 0.1
        done
    fi
    for _ in $(seq 50); do
        mountpoint -q "$folder/root" || break
        umount "$folder/root" 2> /dev/null || sleep 0.1
    done
    # The kernel removes what is in a network a moment after it; the next host of this name would meet it.
    ip -n "$LABORATORY_NETWORK" link del "v-$name" 2> /dev/null || true
    if [ -e "/run/netns/$network" ]; then ip netns del "$network"; fi
    rm -rf --one-file-system "$folder"
}

case $1 in
    up) up "$3" "$4" ;;
    down) down ;;
esac
