"""The way to the network: what is not public is not reached, and every bound holds against bad servers."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import time
import zlib
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from sparqlive.errors import Error
from sparqlive.web import network as network_module
from sparqlive.web.network import Network, Reach, Response, checked_url, is_public
from tests.sources.server import Handler, Site, make_certificate, serve, unused_port


def get(url: str, *, home: str | None = None, **reach: Any) -> Response:
    async def run() -> Response:
        async with Network(Reach(**{"allow_private": True, **reach}), home or url) as network:
            return await network.get(url)

    return asyncio.run(run())


def redirect(to: str, status: int = 302) -> Any:
    return lambda handler: handler.send(status, {"Location": to})


# Addresses


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "0.1.2.3",
        "100.127.255.255",
        "192.0.0.0",
        "192.0.0.8",
        "192.0.0.9",
        "192.0.0.10",
        "192.0.0.171",
        "192.0.0.255",
        "192.0.2.1",
        "192.31.196.1",
        "192.52.193.1",
        "192.88.99.1",
        "192.175.48.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "233.252.0.1",
        "239.255.255.250",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::c000:a",
        "64:ff9b:1::1",
        "100::1",
        "100:0:0:1::1",
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "2002:808:808::",
        "2002:7f00:1::",
        "3fff::1",
        "3ffe::1",
        "5f00::1",
        "4000::1",
        "::808:808",
        "2620:4f:8000::1",
        "2001:0:1::1",
        "2001:db8::1",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "93.184.216.34",
        "192.0.1.1",
        "100.128.0.1",
        "198.20.0.1",
        "223.255.255.255",
        "2606:2800:220:1::1",
        "2a00::1",
        "2001:200::1",
        "64:ff9b::808:808",
    ],
)
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::1]", "0"])
def test_this_machine_is_not_reached_however_it_is_written(host: str, site: Site) -> None:
    port = site.address.rpartition(":")[2]
    with pytest.raises(Error, match=r"not a public address|Cannot resolve"):
        get(f"http://{host}:{port}/", allow_private=False)
    assert not site.asked


def test_a_redirect_does_not_lead_to_where_an_address_may_not(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first hop is treated as public, so that the second is the one that is refused."""
    real = network_module.is_public
    monkeypatch.setattr(network_module, "is_public", lambda a: str(a) == "127.0.0.1" or real(a))
    for target in (
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/",
        "http://[::1]/",
        "//0.0.0.0/",
    ):
        site.pages["/"] = redirect(target)
        with pytest.raises(Error, match="not a public address"):
            get(site.address + "/", allow_private=False)


def test_every_address_of_a_name_is_checked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: Any, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, 80)) for a in ("8.8.8.8", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(Error, match=r"two\.example resolves to 127\.0\.0\.1"):
        get("http://two.example/", allow_private=False)


def test_the_address_that_was_checked_is_the_one_connected_to(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that resolves to something else the second time: it is resolved once."""
    real, asked = socket.getaddrinfo, []

    def rebinding(host: Any, *rest: Any, **more: Any) -> Any:
        if host != "rebinding.example":
            return real(host, *rest, **more)
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "127.0.0.2"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    site.pages["/"] = lambda handler: handler.send(200, body=handler.headers["Host"].encode())
    port = site.address.rpartition(":")[2]
    assert get(f"http://rebinding.example:{port}/").body == f"rebinding.example:{port}".encode()
    assert asked == ["rebinding.example"]


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("ftp://example.org/", "must begin with http"),
        ("file:///etc/passwd", "must begin with http"),
        ("mailto:a@example.org", "must begin with http"),
        ("http:///nowhere", "must begin with http"),
        ("http://me:secret@example.org/", "Authorization header"),
        ("http://example.org:99999999/", "not a Web address"),
    ],
)
def test_what_is_no_address_on_the_web(url: str, sentence: str) -> None:
    with pytest.raises(Error, match=sentence) as caught:
        checked_url(url)
    assert "secret" not in str(caught.value)


def test_nobody_there() -> None:
    with pytest.raises(Error, match="no connection"):
        get(f"http://127.0.0.1:{unused_port()}/")
    with pytest.raises(Error, match="Cannot resolve the host name"):
        get("http://nobody.invalid/")


# Redirects


def test_redirects_are_followed_and_counted(site: Site) -> None:
    for number in range(3):
        site.pages[f"/{number}"] = redirect(f"{number + 1}", 301 + number)
    site.pages["/3"] = lambda handler: handler.send(200, body=b"here")
    response = get(site.address + "/0#part")
    assert (response.url, response.body) == (site.address + "/3", b"here")
    with pytest.raises(Error, match="more than 2 redirects"):
        get(site.address + "/0", max_redirects=2)


def test_redirects_in_a_circle(site: Site) -> None:
    site.pages.update({"/a": redirect("/b"), "/b": redirect("/a")})
    with pytest.raises(Error, match="more than 10 redirects"):
        get(site.address + "/a")
    assert len(site.asked) == 11


@pytest.mark.parametrize(
    "target", ["ftp://example.org/", "http://u:p@127.0.0.1/", "http://[", "javascript:1"]
)
def test_redirects_to_what_is_no_address(target: str, site: Site) -> None:
    site.pages["/"] = redirect(target)
    with pytest.raises(Error):
        get(site.address + "/")


def test_headers_of_a_source_go_to_its_origin_only(site: Site) -> None:
    with serve() as other:
        site.pages.update({"/": redirect("/same"), "/same": redirect(other.address + "/")})
        other.pages["/"] = lambda handler: handler.send(200)
        get(site.address + "/", headers={"Authorization": "Bearer secret", "X-Key": "secret"})
        assert [handler.headers["Authorization"] for handler in site.asked] == ["Bearer secret"] * 2
        assert other.asked[0].headers["Authorization"] is None
        assert other.asked[0].headers["X-Key"] is None


def test_credentials_of_a_request_go_no_further(site: Site) -> None:
    async def run() -> None:
        async with Network(Reach(allow_private=True), site.address) as network:
            await network.get(
                site.address + "/", {"Authorization": "DPoP secret", "DPoP": "x", "Accept": "a/b"}
            )

    with serve() as other:
        site.pages["/"] = redirect(other.address + "/")
        asyncio.run(run())
        assert site.asked[0].headers["DPoP"] == "x"
        first = other.asked[0].headers
        assert (first["Authorization"], first["DPoP"], first["Accept"]) == (None, None, "a/b")


def test_https_does_not_become_http(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with serve("localhost", context) as secure:
        secure.pages["/"] = redirect(site.address + "/")
        secure.pages["/data"] = lambda handler: handler.send(200, body=b"secret")
        network_module.tls_context.cache_clear()
        with pytest.raises(Error, match=r"no connection.*certificate"):
            get(secure.address + "/data")
        monkeypatch.setattr(
            network_module, "tls_context", lambda: ssl.create_default_context(cafile=str(certificate))
        )
        assert get(secure.address + "/data").body == b"secret"
        with pytest.raises(Error, match="redirects from https to"):
            get(secure.address + "/")
    assert not site.asked


# Bounds


def test_a_body_that_is_too_large(site: Site) -> None:
    site.pages["/"] = lambda handler: handler.send(200, body=b"x" * 100_000)
    with pytest.raises(Error, match="larger than max_bytes"):
        get(site.address + "/", max_bytes=50_000)
    assert len(get(site.address + "/", max_bytes=200_000).body) == 100_000


def test_a_body_without_end(site: Site) -> None:
    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while True:
            handler.wfile.write(b"400\r\n" + b"x" * 1024 + b"\r\n")

    site.pages["/"] = endless
    with pytest.raises(Error, match="larger than max_bytes"):
        get(site.address + "/", max_bytes=1_000_000)


def test_the_budget_is_one_for_all_requests_of_a_look(site: Site) -> None:
    site.pages["/"] = lambda handler: handler.send(200, body=b"x" * 40_000)

    async def run() -> None:
        async with Network(Reach(allow_private=True, max_bytes=100_000), site.address) as network:
            for _ in range(3):
                await network.get(site.address + "/")

    with pytest.raises(Error, match="larger than max_bytes"):
        asyncio.run(run())


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb(encoding: str, site: Site) -> None:
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    bomb = pack(b"\0" * 200_000_000)
    assert len(bomb) < 1_000_000
    site.pages["/"] = lambda handler: handler.send(200, {"Content-Encoding": encoding}, bomb)
    with pytest.raises(Error, match="decompresses to more"):
        get(site.address + "/", max_bytes=1_000_000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate", "two members", "identity"])
def test_what_is_compressed_is_unpacked(encoding: str, site: Site) -> None:
    data = bytes(range(256)) * 10_000
    packed = {
        "gzip": gzip.compress(data),
        "deflate": zlib.compress(data),
        "raw deflate": zlib.compress(data)[2:-4],
        "two members": gzip.compress(data[:1000]) + gzip.compress(data[1000:]),
        "identity": data,
    }[encoding]
    name = {"raw deflate": "deflate", "two members": "gzip"}.get(encoding, encoding)
    site.pages["/"] = lambda handler: handler.send(200, {"Content-Encoding": name}, packed)
    assert get(site.address + "/").body == data


@pytest.mark.parametrize(
    ("encoding", "body", "sentence"),
    [
        ("br", b"?", "has the encoding 'br'"),
        ("gzip, gzip", b"?", "has the encoding"),
        ("gzip", b"this is no gzip", "is declared as gzip but is not"),
        ("gzip", gzip.compress(b"x" * 1000, mtime=0)[:-6], "is truncated gzip data"),
    ],
)
def test_other_encodings_and_broken_ones(encoding: str, body: bytes, sentence: str, site: Site) -> None:
    site.pages["/"] = lambda handler: handler.send(200, {"Content-Encoding": encoding}, body)
    with pytest.raises(Error, match=sentence):
        get(site.address + "/")


def test_a_slow_drip(site: Site) -> None:
    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        for _ in range(1000):
            handler.wfile.write(b"x")
            time.sleep(0.05)

    site.pages["/"] = drip
    start = time.monotonic()
    with pytest.raises(Error, match=r"no complete response within 0\.5 s"):
        get(site.address + "/", timeout_seconds=0.5)
    assert time.monotonic() - start < 45


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"",
        b"this is not HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: x\r\n" % n for n in range(30_000)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    ],
    ids=[
        "truncated",
        "truncated chunks",
        "half a head",
        "nothing",
        "no HTTP",
        "a long header",
        "many",
        "two lengths",
    ],
)
def test_answers_that_are_not_whole_or_not_http(answer: bytes, site: Site) -> None:
    site.pages["/"] = lambda handler: handler.raw(answer)
    with pytest.raises(Error, match=r"incomplete or not HTTP|connection broke"):
        get(site.address + "/")


def test_options_are_checked() -> None:
    for wrong in (
        {"max_bytes": -1},
        {"timeout_seconds": "x"},
        {"allow_private": 1},
        {"max_redirects": True},
        {"headers": {"A": 1}},
    ):
        with pytest.raises(Error, match=next(iter(wrong))):
            Reach(**wrong)
