"""A small HTTP server for the exporter: a thread for each of a few connections, and none of them for long."""

import socket
import socketserver
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import logs

log = logs.logger("skipjack.exporter")
CONNECTIONS = 32
"""At most so many at a time; whoever comes then is not answered."""
LONGEST = 5.0
"""Seconds that a connection may last, whatever is said on it, or not said."""


class Server(ThreadingHTTPServer):
    """Answers in threads of this process. Raises OSError if the address is not to be had."""

    daemon_threads = True
    request_queue_size = CONNECTIONS

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._ends: dict[Any, float] = {}
        """When each connection must be over, in monotonic seconds."""
        super().__init__((host, port), handler)

    def start(self) -> None:
        """Serves from now on."""
        threading.Thread(target=self.serve_forever, name="http", daemon=True).start()

    def server_bind(self) -> None:
        """Without the look-up of our name, which can hang where names are not to be had."""
        socketserver.TCPServer.server_bind(self)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether there is room for another."""
        return len(self._ends) < CONNECTIONS

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a thread."""
        self._ends[request] = time.monotonic() + LONGEST
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The connection is over."""
        self._ends.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Twice a second: ends what lasts too long. Its thread hears of it at its next read or write."""
        for request, end in list(self._ends.items()):
            if time.monotonic() >= end:
                with suppress(OSError):  # its thread may have closed it meanwhile
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no error of ours."""
        log.debug("a client went away", exc_info=True, extra=logs.event("exporter.client"))


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD with what `page` says."""

    def page(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        raise NotImplementedError

    def do_GET(self) -> None:
        status, kind, body = self.page(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def version_string(self) -> str:
        """What we are is nobody's business beyond the name."""
        return "skipjack"

    def log_message(self, format: str, *args: object) -> None:
        """One line, whatever the client has sent."""
        log.debug("%r", format % args, extra=logs.event("exporter.client"))
