"""The user of the backup tests, who has a repository in memory."""

from backup.conftest import empty_user, source, user

__all__ = ["empty_user", "source", "user"]
