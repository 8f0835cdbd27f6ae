"""The start of strongroom.pyz. Older Pythons read it too, so that they can say what is missing."""

import sys

if sys.version_info < (3, 11):
    sys.stderr.write(
        "strongroom: this file needs Python 3.11 or newer, and %s is %d.%d. Start it with a newer "
        "one: python3.11 strongroom.pyz\n" % (sys.executable, *sys.version_info[:2])
    )
    sys.exit(51)

import unpacking

sys.exit(unpacking.main(sys.argv[1:]))
