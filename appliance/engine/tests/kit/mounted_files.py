"""What file systems of our own for tests have in common."""

from __future__ import annotations

import os

os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")

import mfusepy


class MountedFiles(mfusepy.Operations):  # type: ignore[misc]
    """What libfuse calls. Writes a line once it is mounted."""

    def init(self, path: str) -> None:
        """Say that the kernel may ask."""
        print("mounted", flush=True)

    def listxattr(self, path: str) -> list[str]:
        """None."""
        return []
