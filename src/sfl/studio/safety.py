"""Who may ask: this machine only, or whoever has the token. Wrapped around the whole server."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfl.errors import UsageError
from sfl.studio.answers import encode

COOKIE = "sfl_studio"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
EVERYWHERE = ("0.0.0.0", "::")
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Nobody but this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def token_for(host: str, token: str | None) -> str | None:
    """The token that is needed: the one that was given, or off the loopback address a new one."""
    if token is not None and (len(token) < 8 or not token.isascii() or not token.isalnum()):
        raise UsageError(f"--token must be 8 or more letters and digits, got {len(token)} characters.")
    return token if token is not None or is_loopback(host) else secrets.token_hex(16)


def own_names(host: str, port: int) -> frozenset[str] | None:
    """What a browser may call this server; None: anything, because it listens on every address and has a token."""
    if host in EVERYWHERE:
        return None
    names = {host, f"[{host}]"} | (set(LOOPBACK_NAMES) if is_loopback(host) else set())
    return frozenset(name + suffix for name in names for suffix in (f":{port}", *([""] if port == 80 else [])))


class Guard:
    """Refuses what does not come from the page itself.

    The Host header keeps out other sites' names that were pointed at this address; the Origin header keeps out other
    sites' pages; the token keeps out other people.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str] | None, token: str | None) -> None:
        self._app, self._names, self._token = app, names, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        answer = self._refusal(scope)
        await (self._app if answer is None else answer)(scope, receive, send_safely)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if self._names is not None and host not in self._names:
            return _refused(403, "This server is reached under the address that it printed, not under this name.")
        origin = headers.get("origin")
        if origin not in (None, f"http://{host}", f"https://{host}"):
            return _refused(403, "Requests from other sites are refused.")
        return None if self._token is None else self._without_token(scope, headers)

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        """None for whoever has the token. Given in the address it becomes a cookie, and leaves the address."""
        assert self._token is not None
        if _same(cookie_parser(headers.get("cookie", "")).get(COOKIE, ""), self._token):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if not any(name == "token" and _same(value, self._token) for name, value in query):
            return _refused(401, "The token is missing or wrong; open the address that `sfl studio` printed.")
        if scope["method"] != "GET":
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path = "/" + scope["path"].lstrip("/\\")  # never another host's address
        answer = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
        answer.set_cookie(COOKIE, self._token, httponly=True, samesite="strict", path="/")
        return answer


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _refused(status: int, text: str) -> Response:
    return Response(encode({"error": text}), status, media_type="application/json")
