"""Commands on their way: one envelope to the byte, and a time that stands still in an outage."""

import json
import math

import anyio
import pytest

from connection.failures import CapabilityUnavailable, Disconnected, RequestTimedOut
from connection.negotiation import SERVER_CAPABILITIES, Offer
from connection.records import ListProgress, Response
from connection.requests import Listed, Requests
from tests.support.time import virtual_time

NEW = Offer(1, SERVER_CAPABILITIES[1])
OLD = Offer(0, SERVER_CAPABILITIES[0])


@virtual_time
async def test_an_outage_of_hours_costs_a_request_none_of_its_thirty_seconds() -> None:
    requests = Requests("me")
    request = requests.make("list", {}, anyio.current_time())
    await anyio.sleep(20)
    requests.lost(anyio.current_time())
    requests.lost(anyio.current_time())  # a failed attempt to come back changes nothing
    assert request.deadline == math.inf
    await anyio.sleep(7_200)
    sent: list[bytes] = []
    requests.send_again(NEW, sent.append, anyio.current_time())
    assert sent == [request.line]
    began = anyio.current_time()
    with pytest.raises(RequestTimedOut):
        await request.wait()
    assert anyio.current_time() - began == pytest.approx(10)


async def test_a_daemon_that_came_back_older_is_not_sent_what_it_can_not_take() -> None:
    requests = Requests("me")
    fields: dict[str, object] = {"before": 1, "limit": 1}
    gated = requests.make("get_earlier_messages", fields, anyio.current_time())
    plain = requests.make("list", {}, anyio.current_time())
    requests.lost(anyio.current_time())
    sent: list[bytes] = []
    requests.send_again(OLD, sent.append, anyio.current_time())
    assert sent == [plain.line]
    with pytest.raises(CapabilityUnavailable) as lacking:
        await gated.wait()
    assert lacking.value.after_reconnect


async def test_what_belongs_to_a_connection_fails_with_it_and_the_rest_waits() -> None:
    requests = Requests("me")
    attach = requests.make("attach", {}, anyio.current_time(), lambda response: None)
    other = requests.make("list", {}, anyio.current_time())
    requests.lost(anyio.current_time())
    with pytest.raises(Disconnected):
        await attach.wait()
    requests.answered(Response(id=other.id, command="list", success=True))
    assert (await other.wait()).success


async def test_a_list_that_begins_anew_after_an_outage_is_not_told_twice() -> None:
    requests = Requests("me")
    request = requests.make("list_saved_sessions", {}, anyio.current_time())
    for loaded in (1, 2):
        requests.listed(ListProgress(id=request.id, loaded=loaded, total=2))
    requests.lost(anyio.current_time())
    requests.send_again(NEW, lambda line: None, anyio.current_time())
    for loaded in (1, 2):
        requests.listed(ListProgress(id=request.id, loaded=loaded, total=2))
    requests.answered(Response(id=request.id, command="list_saved_sessions", success=True))
    told: list[Listed] = []
    await request.wait(told.append)
    assert [part.loaded for part in told if isinstance(part, ListProgress)] == [1, 2]


async def test_every_command_has_an_id_of_its_own_under_one_client() -> None:
    requests = Requests("me")
    made = [requests.make("list", {}, anyio.current_time()) for _ in range(3)]
    envelopes = [json.loads(request.line) for request in made]
    assert len({envelope["id"] for envelope in envelopes}) == 3
    assert {envelope["clientId"] for envelope in envelopes} == {"me"}
    acknowledged = json.loads(requests.acknowledgement(made[0]))
    assert acknowledged["command"] == {"type": "ack_result", "commandId": made[0].id}
    assert acknowledged["id"] not in {envelope["id"] for envelope in envelopes}
