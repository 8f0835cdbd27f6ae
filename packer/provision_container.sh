#!/usr/bin/env bash
# Run ansible/image.yml on the root of a base disk in a container: provision_container.sh BASE.tar RESULT.tar PACKAGES_FOLDER
#
# What Packer does in a virtual machine, at the speed of this host: where KVM does not work an emulated machine takes a
# hundred times as long for it. Called by build_image.sh with PROVISION=container. Needs root and systemd-container.
set -euo pipefail

base=$1 result=$2 packages=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "$(dirname "$result")/container.XXXXXX")
name=strongroom-build-$$
if [ -d /sys/fs/cgroup/unified ]; then cgroup=/sys/fs/cgroup/unified/$name; else cgroup=/sys/fs/cgroup/$name; fi
# A network of two addresses between the container and a namespace that Ansible runs in; nothing leaves it.
inside=10.88.1.2

end() {
    for _ in $(seq 50); do
        [ ! -e "$cgroup/cgroup.kill" ] || echo 1 > "$cgroup/cgroup.kill"
        [ ! -d "$cgroup" ] || find "$cgroup" -depth -type d -exec rmdir {} + 2> /dev/null || { sleep 0.2; continue; }
        break
    done
    ip netns del "$name" 2> /dev/null || true
    ip netns del "$name-inside" 2> /dev/null || true
    rm -rf --one-file-system "$work"
}
trap end EXIT

command -v systemd-nspawn > /dev/null || { echo "systemd-nspawn is missing: apt-get install systemd-container" >&2; exit 98; }
mkdir "$work/root" "$cgroup"
tar -C "$work/root" -xpf "$base" --xattrs --xattrs-include='*' --numeric-owner
ssh-keygen -q -t ed25519 -N '' -C 'the making of an image' -f "$work/key"
for space in "$name" "$name-inside"; do
    ip netns add "$space"
    ip -n "$space" link set lo up
done
ip -n "$name" link add outside type veth peer name host0 netns "$name-inside"
ip -n "$name" address add 10.88.1.1/30 dev outside
ip -n "$name" link set outside up

# As in the virtual machine, systemd's credentials give the key, and say that this is an image that is being built.
# shellcheck disable=SC2016  # the inner shell expands them
CGROUP=$cgroup WORK=$work NAME=$name KEY=$(cat "$work/key.pub") NETWORK="[Match]
Name=host0
[Network]
Address=$inside/30" setsid unshare --mount --propagation slave bash -c '
    echo $$ > "$CGROUP/cgroup.procs"
    umount --recursive /sys/fs/cgroup
    mount -t tmpfs -o mode=755 tmpfs /run/systemd
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network
    exec systemd-nspawn --quiet --boot --keep-unit --register=no --machine="$NAME" --directory="$WORK/root" \
        --network-namespace-path="/run/netns/$NAME-inside" --console=read-only --capability=CAP_NET_ADMIN \
        --link-journal=no --resolv-conf=off --timezone=off --set-credential=strongroom.image-build:yes \
        --set-credential="ssh.authorized_keys.root:$KEY" --set-credential="network.network.10-build:$NETWORK"
    ' < /dev/null > "$work/console" 2>&1 &
container=$!

printf '[appliance]\nimage ansible_host=%s ansible_user=root ansible_ssh_private_key_file=%s\n' \
    "$inside" "$work/key" > "$work/inventory"
export ANSIBLE_CONFIG=$here/../ansible/ansible.cfg ANSIBLE_CACHE_PLUGIN=memory ANSIBLE_SSH_CONTROL_PATH_DIR=$work/cp \
    ANSIBLE_SSH_COMMON_ARGS='-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no' ANSIBLE_NOCOLOR=1 \
    PATH=$here/../.venv-ansible/bin:$PATH
outside() { nsenter --net="/run/netns/$name" "$@"; }
for _ in $(seq 300); do
    ! outside timeout 2 bash -c "head -c4 < /dev/tcp/$inside/22" 2> /dev/null | grep -q SSH || break
    sleep 1
done
outside ansible-playbook --inventory "$work/inventory" --extra-vars "image_packages=$packages" \
    "$here/../ansible/image.yml" >&2 || { tail -n 20 "$work/console" >&2; exit 1; }

# SIGRTMIN+4 asks the container's systemd to power off; it is the one child of systemd-nspawn.
kill -s RTMIN+4 "$(pgrep -P "$container")"
wait "$container"
rm -rf "$work"/root/{run,tmp}/*
tar -C "$work/root" --sort=name --mtime="@${SOURCE_DATE_EPOCH:?}" --clamp-mtime --numeric-owner --xattrs \
    --xattrs-include='*' --one-file-system -cf "$result.part" .
mv "$result.part" "$result"
