# How the ISO starts: the initial RAM disk of the image sources this as its way to a root (boot=strongroom).
#
# The root is that of the image, read-only, and what changes is kept in memory. The image lies on the medium as
# strongroom/appliance.squashfs, which holds the whole disk as one file: root a is a part of it, and the installer copies
# all of it. strongroom.medium= names the medium by its file strongroom/id. The shell and its tools are those of klibc.
mountroot() {
    id=
    for word in $(cat /proc/cmdline); do
        case $word in strongroom.medium=*) id=${word#*=} ;; esac
    done
    modprobe -a loop squashfs isofs overlay ext4
    mkdir -p /run/live/medium /run/live/image /run/live/root /run/live/changes
    find_medium || panic "The medium that this was started from is not found."
    open_loop 0 /run/live/medium/strongroom/appliance.squashfs
    mount -r -t squashfs "$loop" /run/live/image || panic "The image on the medium is damaged."
    open_loop "$(cat /run/live/medium/strongroom/root-offset)" /run/live/image/appliance.raw
    mount -r -t ext4 "$loop" /run/live/root || panic "The root in the image is damaged."
    mount -t tmpfs -o mode=0755,size=60% tmpfs /run/live/changes
    mkdir /run/live/changes/upper /run/live/changes/work
    mount -t overlay -o lowerdir=/run/live/root,upperdir=/run/live/changes/upper,workdir=/run/live/changes/work \
        overlay "${rootmnt:?}" || panic "There is no root in memory."
}

# A stick can take half a minute until it is there.
find_medium() {
    tries=0
    while [ "$tries" -lt 300 ]; do
        for folder in /sys/class/block/*; do
            case ${folder##*/} in loop* | ram*) continue ;; esac
            mount -r -t iso9660 "/dev/${folder##*/}" /run/live/medium 2> /dev/null || continue
            [ "$(cat /run/live/medium/strongroom/id 2> /dev/null)" != "$id" ] || return 0
            umount /run/live/medium
        done
        sleep 1
        tries=$((tries + 1))
    done
    return 1
}

open_loop() {
    loop=$(losetup -f) && losetup -o "$1" "$loop" "$2" || panic "$2 cannot be opened."
}
