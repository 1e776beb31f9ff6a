"""A TCP proxy in front of a PostgreSQL's Unix socket, which cuts connections at a chosen moment."""

import random
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from psycopg.conninfo import conninfo_to_dict, make_conninfo


class Proxy:
    """Forwards bytes both ways. `cut_request` and `cut_reply` look at each chunk and return True to cut there.

    A request that is cut is not forwarded; a reply that is cut has been carried out by the database.
    """

    def __init__(self, conninfo: str) -> None:
        target = conninfo_to_dict(conninfo)
        self._socket = f"{target['host']}/.s.PGSQL.{target['port']}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.conninfo = make_conninfo(conninfo, host="127.0.0.1", port=port, sslmode="disable")
        self.cut_request: Callable[[bytes], bool] = lambda _: False
        self.cut_reply: Callable[[bytes, bytes], bool] = lambda _request, _reply: False
        self.cuts = 0
        self.flowing = threading.Event()
        """While it is not set, traffic stands still and no connection breaks."""
        self.flowing.set()
        self._open: set[socket.socket] = set()
        self._silent: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Ends every connection and the proxy."""
        self._listener.close()
        self.flowing.set()
        self.cut_all()

    def cut_all(self) -> None:
        """Ends every connection."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def silence(self, dice: random.Random) -> None:
        """One of the connections hangs from now on: it stays open, and nothing comes through."""
        if clients := sorted(self._open - self._silent, key=lambda connection: connection.fileno()):
            self._silent.add(dice.choice(clients))

    def silence_all(self) -> None:
        """The connections of now hang, as behind a route that was lost; new ones work."""
        self._silent |= self._open

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        self._open.add(client)
        with client, server, suppress(OSError), selectors.DefaultSelector() as selector:
            server.connect(self._socket)
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            self._forward(client, selector)
        self._open.discard(client)
        self._silent.discard(client)

    def _forward(self, client: socket.socket, selector: selectors.BaseSelector) -> None:
        request = b""
        while True:
            for key, _ in selector.select():
                source = key.fileobj
                assert isinstance(source, socket.socket)
                if not (data := source.recv(1 << 20)):
                    return
                if source is client:
                    request = data
                    cut = self.cut_request(data)
                else:
                    cut = self.cut_reply(request, data)
                self.flowing.wait()
                if cut:
                    self.cuts += 1
                    return
                if client not in self._silent:
                    key.data.sendall(data)
