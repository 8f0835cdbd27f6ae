#!/usr/bin/env bash
# Run a command of the tools' root: in_tools.sh COMMAND [ARGUMENT...]
#
# The project is at /project there (read-only), the folder of images at /work; the command starts in /work.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${STRONGROOM_IMAGE_FOLDER:-$here/../build/image}
TOOLS=$("$here/tools.sh")
PROJECT=$(cd "$here/.." && pwd)
BUILD=$(cd "$build" && pwd)
export TOOLS PROJECT BUILD
# shellcheck disable=SC2016  # the inner shell expands them
exec unshare --mount --propagation private bash -ec '
    mkdir -p "$TOOLS/project" "$TOOLS/work"
    mount --bind "$PROJECT" "$TOOLS/project"
    mount -o remount,bind,ro "$TOOLS/project"
    mount --bind "$BUILD" "$TOOLS/work"
    mount -t proc proc "$TOOLS/proc"
    mount --rbind /dev "$TOOLS/dev"
    root=$TOOLS
    unset TOOLS PROJECT BUILD
    exec chroot "$root" env --chdir=/work PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"
' in_tools "$@"
