"""A relay in front of a Solid server, by which tests lose notifications: a connection is one request here."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

CHANNEL = "/.notifications/"


@dataclass
class Relay:
    """Passes everything on, unless the test says otherwise."""

    port: int
    target: int
    refused: tuple[str, ...] = ()
    """Requests with one of these in their path are refused, by closing the connection."""
    mute: bool = False
    """Of channels only the head of the answer passes."""
    asked: list[str] = field(default_factory=list)
    """The paths that were asked for."""
    _channels: list[socket.socket] = field(default_factory=list)

    def cut(self) -> None:
        """Breaks the channels that are open."""
        while self._channels:
            with suppress(OSError):
                self._channels.pop().shutdown(socket.SHUT_RDWR)

    def serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            head = client.recv(65536)
            path = head.split(b" ", 2)[1].decode() if head.count(b" ") > 1 else ""
            self.asked.append(path)
            if any(part in path for part in self.refused):
                return
            is_channel = head.startswith(b"GET") and CHANNEL in path
            with socket.create_connection(("localhost", self.target)) as server:
                if is_channel:
                    self._channels.append(client)
                server.sendall(head)
                back = threading.Thread(target=self._pass, args=(server, client, is_channel), daemon=True)
                back.start()
                self._pass(client, server, False)
                back.join()

    def _pass(self, giver: socket.socket, taker: socket.socket, is_channel: bool) -> None:
        with suppress(OSError):
            while data := giver.recv(65536):
                if is_channel and self.mute:
                    head, end, _ = data.partition(b"\r\n\r\n")
                    data = head + end if data.startswith(b"HTTP/") else b""
                taker.sendall(data)
        for end_ in (giver, taker):
            with suppress(OSError):
                end_.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay(port: int, target: int) -> Iterator[Relay]:
    made = Relay(port, target)
    with socket.create_server(("localhost", port)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=made.serve, args=(client,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            made.cut()
