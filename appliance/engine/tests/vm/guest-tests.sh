#!/bin/sh
# Runs as the only work of a guest; the last line tells the host how it ended.
ip link set lo up
cd /engine || exit 1
echo "GUEST TESTS BEGIN kernel $(uname -r), $(/opt/strongroom/bin/python --version)"
[ ! -e arguments ] || eval "set -- $(cat arguments)"
export PYTHONPATH=/engine/src:/engine/bench/src
if [ "${1:-}" = --bench ]; then
    shift
    modprobe tls
    [ "$1" != bacula-nfs ] || systemctl start nfs-server
    /opt/strongroom/bin/python -m strongroom_bench suites "$@" --quiet --markdown /tmp/page.md && cat /tmp/page.md
else
    /opt/strongroom/bin/python -m pytest -p no:cacheprovider -q -m vm tests/vm/guest "$@"
fi
echo "GUEST TESTS END $?"
sync
poweroff -f -f
