import sys

from kit.project import RELEASE

# Programs of their own, which are in no package.
sys.path.append(str(RELEASE))
sys.path.append(str(RELEASE.parents[1] / "packer"))
