"""What a baseline predicted beside what a backup took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from strongroom.cli.measure.profile import Profile
from strongroom.cli.measure.verdict import Prediction, backup_prediction

_MEGA = 1e6
# Within this factor the model is good enough.
_NEAR = 1.5


class Measured(NamedTuple):
    """A backup: what it holds, what of it was read, and how long it took."""

    entries: int
    files_read: int
    bytes_read: int
    seconds: float

    @property
    def files_per_second(self) -> float:
        """Entries a second, read or unchanged."""
        return self.entries / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Bytes that were read, a second."""
        return self.bytes_read / self.seconds if self.seconds else 0.0


class PredictionCheck(NamedTuple):
    """A backup beside its prediction; `folder`: whose measurements were taken for it."""

    predicted: Prediction
    measured: Measured
    folder: str
    taken_at: str

    @property
    def ratio(self) -> float:
        """Measured against predicted time: above 1 it took longer."""
        return self.measured.seconds / self.predicted.seconds if self.predicted.seconds else 0.0


def compare(profile: Profile, measured: Measured) -> PredictionCheck | None:
    """None where the profile predicts nothing."""
    entries, read, size_bytes = measured.entries, measured.files_read, measured.bytes_read
    predicted = backup_prediction(profile, entries, read, size_bytes)
    if predicted is None or profile.tree is None or not predicted.seconds:
        return None
    return PredictionCheck(predicted, measured, profile.tree.folder, profile.taken_at)


def comparison_sentences(found: PredictionCheck) -> Iterator[str]:
    """Predicted and measured, and what a difference may mean."""
    predicted, measured = found.predicted, found.measured
    for name, one, seconds in (
        ("predicted", predicted, predicted.seconds),
        ("measured", measured, measured.seconds),
    ):
        yield (
            f"{name}: {one.files_per_second:,.0f} files/s, "
            f"{one.bytes_per_second / _MEGA:,.1f} MB/s, {seconds:,.1f} s"
        )
    if found.ratio > _NEAR:
        yield (
            f"It took {found.ratio:.1f} times as long as predicted: the machine or the storage was "
            "busy, or the data is not like the tree that was measured."
        )
    elif found.ratio < 1 / _NEAR:
        yield (
            f"It took {found.ratio:.2f} of the time predicted: content that was known, or caches "
            "that were warmer."
        )
