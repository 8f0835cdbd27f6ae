"""A line of progress fits into any terminal, and says first how far the job is."""

import pytest

from strongroom.cli.live_progress import progress_text

COUNTS = {
    "message": "backup",
    "files": 123_456,
    "bytes": 3 << 30,
    "stored_bytes": 1 << 30,
    "errors": 2,
    "total_files": 1_234_567,
    "total_bytes": 12 << 30,
    "total_is_estimate": True,
    "percent": 25,
    "bytes_per_second": 100 << 20,
    "remaining_seconds": 245.0,
}


@pytest.mark.parametrize("columns", range(10, 140))
def test_it_fits(columns):
    assert len(progress_text(COUNTS, columns)) <= columns


def test_what_matters_stays_at_forty_columns():
    assert progress_text(COUNTS, 39) == "backup 25%, 2 errors, 4:05 left"
    text = progress_text({**COUNTS, "errors": 0}, 39)
    assert text == "backup 25%, 3.0 GiB, 4:05 left"


def test_a_log_gets_everything():
    assert progress_text(COUNTS) == (
        "backup 25%, 123,456 of about 1,234,567 files, 3.0 GiB of about 12.0 GiB, 100.0 MiB/s, "
        "1.0 GiB stored, 2 errors, 4:05 left"
    )
