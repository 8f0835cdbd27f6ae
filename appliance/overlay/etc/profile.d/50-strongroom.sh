# A shell that is left alone ends after ten minutes.
TMOUT=600
readonly TMOUT
export TMOUT
