# No core dumps; and a shell that is left alone ends after ten minutes.
ulimit -c 0
if [ -n "${BASH_VERSION:-}" ]; then
    declare -xr TMOUT=600
fi
