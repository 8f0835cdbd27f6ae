#!/usr/bin/env bash
# Hosts with systemd, each a container with its own network: host.sh up NAME NUMBER SUITE [bare|strict], or
# host.sh down NAME
#
# Called by the scenarios' playbooks, in the laboratory that run.sh makes ($LABORATORY, $LABORATORY_NETWORK). A host is an
# overlay over the root of its suite, and is reached at 10.88.0.NUMBER by secure shell with the laboratory's key. With `bare` it is
# a minimal Debian with the umask 077, and has fd88::NUMBER too. With `strict` it is one as somebody else keeps it
# (bare/strict.sh): it has that address alone, port 2222, and the user ann, whose sudo wants the password "sesam".
set -euo pipefail

name=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$LABORATORY/$name
network=$LABORATORY_NETWORK-$name
if [ -d /sys/fs/cgroup/unified ]; then cgroups=/sys/fs/cgroup/unified; else cgroups=/sys/fs/cgroup; fi
cgroup=$cgroups/$network

up() {
    local address=10.88.0.$1 port=22 kind=${3:-} root
    root=$("$here/root.sh" "$2" ${kind:+bare})
    mkdir -p "$folder"/{upper,work,root}
    mount -t overlay -o "lowerdir=$root,upperdir=$folder/upper,workdir=$folder/work" overlay "$folder/root"
    echo "$name" > "$folder/root/etc/hostname"
    install -d -m 0700 "$folder/root/root/.ssh"
    install -m 0600 "$LABORATORY/key.pub" "$folder/root/root/.ssh/authorized_keys"
    chroot "$folder/root" ssh-keygen -q -A
    if [ "$kind" = strict ]; then
        "$here/bare/strict.sh" "$folder/root" "$LABORATORY/key.pub"
        address=fd88::$1 port=2222
    fi
    if [ -n "$kind" ]; then
        # It knows those that were started before it, in both families.
        printf "%s $name.example $name\n" "$address" "fd88::$1" >> "$LABORATORY/hosts"
        { printf '127.0.0.1 localhost\n::1 localhost\n'; cat "$LABORATORY/hosts"; } > "$folder/root/etc/hosts"
        # Files that anybody makes are their owner's alone.
        echo 'session optional pam_umask.so umask=0077' | tee -a "$folder/root/etc/pam.d/common-session" \
            >> "$folder/root/etc/pam.d/common-session-noninteractive"
    fi
    ip netns add "$network"
    ip -n "$LABORATORY_NETWORK" link add "v-$name" type veth peer name host0 netns "$network"
    ip -n "$LABORATORY_NETWORK" link set "v-$name" master br0 up
    ip -n "$network" link set lo up
    ip -n "$network" link set host0 up
    if [ "$kind" != strict ]; then
        ip -n "$network" address add "$address/24" dev host0
        ip -n "$network" route add default via 10.88.0.1
    fi
    if [ -n "$kind" ]; then
        ip -n "$network" address add "fd88::$1/64" dev host0 nodad
        ip -n "$network" route add default via fd88::1
    fi
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
        if timeout 1 bash -c "head -c4 < /dev/tcp/$address/$port" 2> /dev/null | grep -q SSH; then return; fi
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
    up) up "$3" "$4" "${5:-}" ;;
    down) down ;;
esac
