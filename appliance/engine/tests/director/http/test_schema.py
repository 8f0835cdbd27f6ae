"""The API does what its OpenAPI schema says, whatever it is sent."""

from types import SimpleNamespace

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
)

from strongroom.director.http.application import API, fastapi_application

TOO_LARGE = 413
EXAMPLES = 6


@pytest.fixture(scope="module")
def token(director):
    with director.client("admin") as admin:
        return admin.post("/tokens", json={"name": "admin"}).json()["text"]


@pytest.fixture(scope="module")
def described(director):
    with director.client() as api:
        return api.get("/openapi.json").json()


def check_operation(operation, has_body, **how):
    """Ask for it in many ways, sound and unsound; every answer must be one that is described."""
    # A token is shown in every case. Values that the schema allows may still not fit together, and
    # parameters of a query that are not known are ignored.
    excluded = [ignored_auth, positive_data_acceptance]
    if not has_body:
        excluded.append(negative_data_rejection)
    cases = st.one_of(
        operation.as_strategy(generation_mode=mode)
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    )

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def ask(case):
        answer = case.call(**how)
        # A refusal too, which the check of refused data does not know.
        too_large = [negative_data_rejection] if answer.status_code == TOO_LARGE else []
        case.validate_response(answer, excluded_checks=excluded + too_large)

    ask()


def test_every_answer_is_as_the_schema_says(director, described, token):
    how = {
        "base_url": director.url,
        "verify": director.identity("boss", "director").folder.decode() + "/authority.pem",
        "headers": {"authorization": f"Bearer {token}"},
        "timeout": 30,
    }
    schema = schemathesis.openapi.from_dict(described)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 25
    faults = {}
    for operation in operations:
        try:
            said = described["paths"][operation.path][operation.method.lower()]
            check_operation(operation, "requestBody" in said, **how)
        except (AssertionError, BaseExceptionGroup) as fault:
            faults[operation.label] = str(fault)
    assert not faults, "\n\n".join(f"{label}: {fault}" for label, fault in faults.items())


def test_everything_is_described(described):
    paths = set(described["paths"])
    assert {f"{API}/runs/{{run_id}}/events", f"{API}/enrol", "/metrics"} <= paths
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
            # Public, or for the holder of a certificate only, which the scheme does not describe.
            has_none = path in (
                f"{API}/authority",
                f"{API}/enrol",
                f"{API}/renew",
                f"{API}/put-keys",
            )
            assert ("security" in operation) is not has_none, (method, path)


def test_the_description_is_made_when_it_is_asked_for_and_kept():
    api = fastapi_application(SimpleNamespace(director=None))
    # Until then a director holds 7 MB less.
    assert api.openapi_schema is None
    said = api.openapi()
    [header] = said["paths"][f"{API}/restores"]["post"]["parameters"]
    assert (header["name"], header["required"]) == ("Strongroom-Request", True)
    assert api.openapi() is said
