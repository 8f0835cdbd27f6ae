"""docs/reference/exit-codes.md lists exactly the errors there are."""

import importlib
import pkgutil
import re

import pytest

import strongroom
from kit.project import DOCUMENTS
from strongroom.base import errors

DOCUMENT = DOCUMENTS / "reference" / "exit-codes.md"


def documented() -> set[tuple[int, str]]:
    rows = re.findall(r"^\| +(\d+) \| (?:`([a-z-]+)`)? *\|", DOCUMENT.read_text(), re.MULTILINE)
    return {(int(code), error_id) for code, error_id in rows}


def descendants(kind: type[errors.StrongroomError]) -> set[type[errors.StrongroomError]]:
    below = set(kind.__subclasses__())
    return below.union(*map(descendants, below)) if below else below


def test_every_error_is_documented_and_nothing_else():
    for module in pkgutil.walk_packages(strongroom.__path__, "strongroom."):
        # Alembic alone can run what is in `migrations`.
        if not module.name.endswith("__main__") and ".migrations." not in module.name:
            importlib.import_module(module.name)
    raised = {
        (kind.exit_code, kind.error_id)
        for kind in {errors.StrongroomError} | descendants(errors.StrongroomError)
    }
    without_class = {
        (errors.EXIT_DONE, ""),
        (errors.EXIT_INCOMPLETE, ""),
        (errors.EXIT_BUG, "bug"),
        (errors.EXIT_OUTPUT_CLOSED, ""),
        (errors.EXIT_TERMINATED, "interrupted"),
    }
    raised.discard((errors.EXIT_OUTPUT_CLOSED, "output-closed"))
    assert documented() == raised | without_class


def test_each_id_means_one_kind_of_error():
    kinds = [errors.StrongroomError, *descendants(errors.StrongroomError)]
    # A class without an id of its own is of the kind of its base.
    ids = [kind.error_id for kind in kinds if "error_id" in vars(kind)]
    assert len(ids) > 40
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("signal_code", [130, 143])
def test_an_interrupted_job_carries_the_code_of_its_signal(signal_code):
    assert errors.CancelledError("stopped", signal_code).exit_code == signal_code


def test_an_error_told_by_another_process_is_of_the_kind_it_was():
    for kind in (errors.QuotaError, errors.CancelledError, errors.StrongroomError):
        told = errors.error_named(kind.error_id, "why", exit_code=143)
        assert (type(told), str(told), told.exit_code) == (kind, "why", 143)
    later = errors.error_named("of-a-later-version", "why", otherwise=errors.StoreError)
    assert (type(later), later.exit_code) == (errors.StoreError, errors.StoreError.exit_code)
