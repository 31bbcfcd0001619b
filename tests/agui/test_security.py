"""Who may pass, as tables."""

import pytest

from agui.security import Doorkeeper, bearer_token, host_allowed, origin_allowed, same_token

PORT = 52789


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:52789", True),
        ("localhost:52789", True),
        ("LocalHost:52789", True),
        ("[::1]:52789", True),
        ("127.0.0.1", False),
        ("localhost", False),
        ("127.0.0.1:80", False),
        ("127.0.0.1:052789", False),
        ("127.0.0.2:52789", False),
        ("::1:52789", False),
        ("localhost.evil.example:52789", False),
        ("evil.example:52789", False),
        ("user@127.0.0.1:52789", False),
        ("127.0.0.1:52789.evil.example", False),
        ("", False),
        (":52789", False),
    ],
)
def test_only_loopback_names_with_our_port_are_hosts_of_ours(host: str, allowed: bool) -> None:
    assert host_allowed(host, PORT) is allowed


@pytest.mark.parametrize(("port", "allowed"), [(80, True), (8080, False)])
def test_a_host_without_a_port_means_port_80(port: int, allowed: bool) -> None:
    assert host_allowed("localhost", port) is allowed


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("chrome-extension://abcdef", True),
        ("moz-extension://1-2", True),
        ("safari-web-extension://X", True),
        ("http://127.0.0.1:52789", True),
        ("http://localhost:52789", True),
        ("http://[::1]:52789", True),
        ("chrome-extension://", False),
        ("chrome-extension:", False),
        ("xchrome-extension://a", False),
        ("https://evil/?chrome-extension://", False),
        ("https://127.0.0.1:52789", False),
        ("http://127.0.0.1", False),
        ("http://127.0.0.1:52789/", False),
        ("http://127.0.0.1:52789.evil.example", False),
        ("http://evil.example:52789", False),
        ("http://127.0.0.1:1", False),
        ("file://", False),
        ("null", False),
        ("", False),
    ],
)
def test_only_extensions_and_our_own_page_are_origins_that_pass(origin: str, allowed: bool) -> None:
    assert origin_allowed(origin, PORT) is allowed


GOOD_HOST = (b"host", b"127.0.0.1:52789")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([GOOD_HOST], None),
        ([(b"Host", b"127.0.0.1:52789")], None),
        ([GOOD_HOST, (b"origin", b"chrome-extension://a")], None),
        ([], 400),
        ([(b"host", b"evil")], 400),
        ([GOOD_HOST, GOOD_HOST], 400),
        ([(b"host", b"evil"), (b"origin", b"null")], 400),
        ([GOOD_HOST, (b"origin", b"null")], 403),
        ([GOOD_HOST, (b"origin", b"")], 403),
        ([GOOD_HOST, (b"Origin", b"https://evil")], 403),
        ([GOOD_HOST, (b"origin", b"chrome-extension://a"), (b"origin", b"https://evil")], 403),
        ([GOOD_HOST, (b"origin", b"\xff")], 403),
    ],
)
def test_a_request_needs_one_good_host_and_at_most_one_good_origin(
    headers: list[tuple[bytes, bytes]], status: int | None
) -> None:
    refused = Doorkeeper(PORT).refusal(headers)
    assert (refused and refused.status) == status


@pytest.mark.parametrize(
    ("value", "token"),
    [
        (b"Bearer abc", "abc"),
        (b"bearer  abc ", "abc"),
        (b"Bearer", ""),
        (b"Basic abc", None),
        (b"abc", None),
        (None, None),
    ],
)
def test_a_token_comes_as_a_bearer(value: bytes | None, token: str | None) -> None:
    assert bearer_token([] if value is None else [(b"Authorization", value)]) == token


def test_two_authorizations_are_none() -> None:
    assert bearer_token([(b"authorization", b"Bearer a"), (b"authorization", b"Bearer a")]) is None


@pytest.mark.parametrize("given", ["", "b", "aa", "ä", "\ud800", None, 1, ["a"]])
def test_other_tokens_are_not_ours(given: object) -> None:
    assert not same_token(given, "a")


@pytest.mark.parametrize("token", ["a", "ä", "x" * 1000])
def test_our_token_is_ours(token: str) -> None:
    assert same_token(token, token)


def test_an_empty_token_is_nobodys() -> None:
    assert not same_token("", "")
