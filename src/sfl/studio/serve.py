"""From an address to a server that runs until Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
import webbrowser

import uvicorn

from sfl.config import require
from sfl.errors import UsageError
from sfl.run.machine import resolve
from sfl.studio.requests import CUT
from sfl.studio.safety import EVERYWHERE, own_names, token_for
from sfl.studio.server import application
from sfl.studio.shared import Studio

GRACE = 3
"""Seconds that open connections have when the server ends."""


def serve(studio: Studio, host: str, port: int, token: str | None, open_page: bool) -> None:
    """Listen, print the address as the one line on stdout, and answer until Ctrl-C."""
    studio.device = resolve(studio.device)
    needed = token_for(host, token)
    listener = listen(host, port)
    port = int(listener.getsockname()[1])
    app = application(studio, own_names(host, port), needed)
    settings = uvicorn.Config(
        app, log_level="error", access_log=False, ws="none", timeout_graceful_shutdown=GRACE, server_header=False
    )
    logging.getLogger("uvicorn.error").addFilter(was_no_cut)
    address = page_address(host, port, needed)
    print(f"{address}  (Ctrl-C ends it)", flush=True)
    if open_page and sys.stdout.isatty():
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        server = _Server(settings, studio)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # a lost terminal ends it as SIGTERM does
            signal.signal(signal.SIGHUP, server.handle_exit)
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # that is how it ends
    finally:
        listener.close()


class _Server(uvicorn.Server):
    """Ends episodes before it waits for connections: who follows one that is paused would be waited for in vain."""

    def __init__(self, config: uvicorn.Config, studio: Studio) -> None:
        super().__init__(config)
        self._studio = studio

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        await asyncio.to_thread(self._studio.end_episodes)
        await super().shutdown(sockets)


def was_no_cut(record: logging.LogRecord) -> bool:
    """False for the traceback of an answer that was cut off: nobody here made an error."""
    return not (record.exc_info and isinstance(record.exc_info[1], CUT))


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; a port that is taken is refused before anything else happens."""
    require(0 <= port < 65536, f"--port must lie between 0 and 65535, got {port}.")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:  # the latter of what cannot be a name
        raise UsageError(f"--host {host!r} is no address of this machine ({error}).") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise UsageError(f"Cannot listen on {host}:{port} ({error}); choose another --port, 0 for any.") from error
    return listener


def page_address(host: str, port: int, token: str | None) -> str:
    """What to open in the browser."""
    name = "127.0.0.1" if host in EVERYWHERE else host
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")
