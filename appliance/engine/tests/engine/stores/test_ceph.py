"""What differs with Ceph's gateway; `make test-ceph` runs it and the suites of object stores."""

import os

import pytest

from strongroom.base.errors import StoreError
from strongroom.engine.stores.object_lock import LockRule
from strongroom.engine.stores.s3_store import S3Store

pytestmark = pytest.mark.skipif(
    "STRONGROOM_TEST_CEPH" not in os.environ, reason="make test-ceph runs these"
)


def test_a_bucket_with_versions_is_refused_as_it_ignores_conditions(object_store):
    """Ceph 18.2 overwrites there in spite of If-None-Match."""
    store = S3Store(object_store.place("repository", "ceph-locked"))
    store.lock_by(LockRule(86400, "governance"))
    with pytest.raises(StoreError, match="If-None-Match"):
        store.prepare()
