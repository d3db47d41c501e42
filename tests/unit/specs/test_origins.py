"""Where an address leads, in every spelling, and where a server's word is followed to."""

from __future__ import annotations

import pytest

from tidegate.specs.locations import NotOrigin, Origin, Reach, origin_of, refusal


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://api.example/v1?x=1#y", Origin("https", "api.example", 443)),
        ("HTTP://API.Example.:80", Origin("http", "api.example", 80)),
        ("http://api.example:8080/@me", Origin("http", "api.example", 8080)),
        ("http://[0:0::1]:81/", Origin("http", "::1", 81)),
        ("https://b\u00fccher.example/", Origin("https", "xn--bcher-kva.example", 443)),
        ("http://\uff11\uff12\uff17.0.0.1/", Origin("http", "127.0.0.1", 80)),
        ("http://127\u30020\u30020\u30021/", Origin("http", "127.0.0.1", 80)),
    ],
)
def test_an_origin_has_one_form(url: str, found: Origin) -> None:
    assert origin_of(url) == found
    assert origin_of(str(found)) == found


@pytest.mark.parametrize(
    "url",
    [
        "ftp://api.example/",
        "https:/api.example",
        "https:///x",
        "https://api.example@evil.example/",
        "https://:@api.example/",
        "https://api.example\\.evil.example/",
        "https://api.example\\@evil.example/",
        "https://api.example%2eevil.example/",
        "https://api.example:99999/",
        "https://api.example:0/",
        "https://api.example:8o/",
        "https://[::1/",
        "https://[::1%25eth0]x/",
        "https://a b/",
        "https://a..b/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.0.1.1/",
        "http://example.0x7f/",
    ],
)
def test_what_can_be_read_in_two_ways_is_no_origin(url: str) -> None:
    with pytest.raises(NotOrigin):
        origin_of(url)


@pytest.mark.parametrize(
    ("host", "reach"),
    [
        ("127.0.0.1", Reach.OWN),
        ("127.255.255.254", Reach.OWN),
        ("0.0.0.0", Reach.OWN),
        ("0.1.2.3", Reach.OWN),
        ("[::1]", Reach.OWN),
        ("[::]", Reach.OWN),
        ("[::ffff:127.0.0.1]", Reach.OWN),
        ("[::127.0.0.1]", Reach.OWN),
        ("[64:ff9b::7f00:1]", Reach.OWN),
        ("[2002:7f00:1::]", Reach.OWN),
        ("localhost", Reach.OWN),
        ("LOCALHOST.", Reach.OWN),
        ("a.localhost", Reach.OWN),
        ("169.254.169.254", Reach.LINK_LOCAL),
        ("169.254.170.2", Reach.LINK_LOCAL),
        ("[::ffff:169.254.169.254]", Reach.LINK_LOCAL),
        ("[::ffff:a9fe:a9fe]", Reach.LINK_LOCAL),
        ("[64:ff9b::169.254.169.254]", Reach.LINK_LOCAL),
        ("[fe80::1]", Reach.LINK_LOCAL),
        ("[fd00:ec2::254]", Reach.METADATA),
        ("100.100.100.200", Reach.METADATA),
        ("168.63.129.16", Reach.METADATA),
        ("metadata.google.internal.", Reach.METADATA),
        ("224.0.0.1", Reach.NOBODY),
        ("255.255.255.255", Reach.NOBODY),
        ("10.0.0.7", Reach.ANYONE),
        ("192.0.2.7", Reach.ANYONE),
        ("api.example", Reach.ANYONE),
        ("localhost.example", Reach.ANYONE),
    ],
)
def test_who_can_be_behind_a_host(host: str, reach: Reach) -> None:
    assert origin_of(f"http://{host}/").reach is reach


def test_a_server_leads_to_itself_and_to_what_is_allowed() -> None:
    home, files = origin_of("https://api.example"), origin_of("https://files.example")
    assert refusal(home, origin_of("https://API.example:443/x"), ()) is None
    assert refusal(home, files, {files}) is None
    for other in ("https://files.example", "https://api.example:444", "https://api.example.evil.example"):
        problem, remedy = refusal(home, origin_of(other), ()) or ("", "")
        assert (problem, remedy.endswith(f"allowed_origins: ['{other}']")) == (
            f"{other} is not https://api.example",
            True,
        )


def test_some_addresses_are_not_followed_although_they_are_named() -> None:
    home = origin_of("https://api.example")
    for other in ("http://api.example", "https://127.0.0.1", "https://169.254.169.254", "https://metadata"):
        target = origin_of(other)
        assert refusal(home, target, {target}) is not None
    own, neighbour = origin_of("http://127.0.0.1:81"), origin_of("http://localhost:82")
    assert refusal(own, neighbour, {neighbour}) is None
    metadata = origin_of("http://169.254.169.254")
    assert refusal(own, metadata, {metadata}) is not None
    assert refusal(metadata, metadata, ()) is None
