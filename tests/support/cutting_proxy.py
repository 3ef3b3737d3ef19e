"""A proxy on loopback that cuts a connection to PostgreSQL when a turn is to end."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal


class CuttingProxy:
    """Passes bytes on, until it meets COMMIT: then it cuts, before or after the server has it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = (
            f"postgresql://tester@127.0.0.1:{self._listener.getsockname()[1]}/postgres"
            "?sslmode=disable&gssencmode=disable"
        )
        self.cut: Literal["", "before", "after"] = ""
        self.cuts = 0
        self.is_away = False
        """Whether nobody new gets through."""
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens to the server before anybody hears of a cut."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        if self.is_away:
            client.close()
            return
        server = socket.create_connection(("127.0.0.1", self._port))
        threading.Thread(target=self._answers, args=[server, client], daemon=True).start()
        with client, server, suppress(OSError):
            while data := client.recv(1 << 20):
                if self.cut and b"COMMIT" in data:
                    self.cuts += 1
                    if self.cut == "after":
                        self.cut = ""
                        client.shutdown(socket.SHUT_RDWR)  # before an answer can get there
                        server.sendall(data)
                        self._wait_for(server)
                    self.cut = ""
                    self.meanwhile()
                    return
                server.sendall(data)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 20):
                client.sendall(data)

    def _wait_for(self, server: socket.socket) -> None:
        """Leave the server the time to do what it was sent, as it may drop what it did not read."""
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)
            while server.recv(1 << 20):
                pass


@contextmanager
def cutting_proxy(port: int) -> Iterator[CuttingProxy]:
    """Yield a proxy to a server's port."""
    proxy = CuttingProxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
