"""A prompt and its taking back: what its sender is told, from the two answers together."""

import pytest

from connection.failures import (
    AdmissionFailed,
    AdmissionStatus,
    CapabilityUnavailable,
    CommandRefused,
    ConnectionFailure,
    Disconnected,
    RequestTimedOut,
)
from connection.operations import Attempt
from connection.shapes import Admission

STARTED = Admission(admission="started", message_id="m")
LOST = Disconnected("lost")
LATE = RequestTimedOut("late")
REFUSED = CommandRefused("history", "the disk is full")
NOT_OFFERED = CapabilityUnavailable("prompt_admission_cancellation")
TAKEN_BACK = CommandRefused("admission_cancelled", "taken back")


@pytest.mark.parametrize(
    ("answer", "status", "admission"),
    [
        (STARTED, None, "started"),
        (STARTED, "unknown", "started"),
        (STARTED, "owned", "started"),
        (LOST, "owned", "queued"),
        (LATE, "owned", "queued"),
    ],
)
def test_what_was_taken_is_told_as_taken(
    answer: Admission | ConnectionFailure, status: AdmissionStatus | None, admission: str
) -> None:
    assert attempt(answer, status).outcome().admission == admission


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    [
        (STARTED, "cancelled", "cancelled"),
        (LOST, "cancelled", "cancelled"),
        (TAKEN_BACK, "cancelled", "cancelled"),
        (TAKEN_BACK, "owned", "cancelled"),
        (LOST, "unknown", "unknown"),
        (LATE, "unknown", "unknown"),
        (NOT_OFFERED, None, "unsupported"),
    ],
)
def test_only_what_never_ran_is_told_as_taken_back(
    answer: Admission | ConnectionFailure, status: AdmissionStatus | None, told: AdmissionStatus
) -> None:
    """Only `cancelled` is safe to send again as a new prompt."""
    with pytest.raises(AdmissionFailed) as failed:
        attempt(answer, status).outcome()
    assert failed.value.status == told


@pytest.mark.parametrize("status", [None, "owned", "unknown", "cancelled"])
def test_a_refusal_is_told_as_it_was(status: AdmissionStatus | None) -> None:
    with pytest.raises(CommandRefused) as refused:
        attempt(REFUSED, status).outcome()
    assert refused.value is REFUSED


@pytest.mark.parametrize("failure", [LOST, LATE])
def test_a_lost_prompt_that_nobody_took_back_is_told_as_lost(failure: ConnectionFailure) -> None:
    with pytest.raises(type(failure)):
        attempt(failure, None).outcome()


def attempt(answer: Admission | ConnectionFailure, status: AdmissionStatus | None) -> Attempt:
    made = Attempt("a", status=status)
    if isinstance(answer, Admission):
        made.admission = answer
    else:
        made.failure = answer
    return made
