"""The part of a client's OAuth flow that its host program has to supply, for all generations of the Python SDK that have
the flow: storage, and a browser. The browser follows the authorization server's redirects as `user`, whom the server lets
in by name (tests/auth_server).
"""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import mcp.shared.auth as auth
from mcp.client.auth import OAuthClientProvider
from pydantic import AnyUrl

CALLBACK = "http://127.0.0.1:33418/callback"
REDIRECTS_MAX = 10
TIMEOUT_S = 30


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _browse(url: str, user: str) -> dict[str, str]:
    """Follows redirects from the authorization URL to the client's own address, and returns what it was given there."""
    url += "&" + urllib.parse.urlencode({"login_hint": user})
    cookies = urllib.request.HTTPCookieProcessor(CookieJar(DefaultCookiePolicy()))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies, _NoRedirects())
    for _ in range(REDIRECTS_MAX):
        try:
            with opener.open(url, timeout=TIMEOUT_S) as answer:
                raise AssertionError(f"the authorization server answered {answer.status}: {answer.read()!r}")
        except urllib.error.HTTPError as answer:
            location = answer.headers.get("location")
            if location is None:
                raise AssertionError(f"the authorization server answered {answer.code}: {answer.read()!r}") from answer
        url = urllib.parse.urljoin(url, location)
        if url.startswith(CALLBACK):
            return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
    raise AssertionError("the authorization server redirects without end")


class Login:
    """An OAuth client that forgets everything when its process ends."""

    def __init__(self, url: str, user: str) -> None:
        self.user = user
        # How often it registered, how often the user logged in, and how many sets of tokens it got.
        self.counts = {"registrations": 0, "logins": 0, "tokens": 0}
        self._client: auth.OAuthClientInformationFull | None = None
        self._tokens: auth.OAuthToken | None = None
        self._callback: dict[str, str] = {}
        metadata = auth.OAuthClientMetadata(
            client_name="longhaul-driver",
            redirect_uris=[AnyUrl(CALLBACK)],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            token_endpoint_auth_method="none",
        )
        self.provider = OAuthClientProvider(url, metadata, self, self._redirect, self._redirected)

    @property
    def scope(self) -> str | None:
        """The scopes of the present token."""
        return self._tokens.scope if self._tokens else None

    async def get_tokens(self) -> auth.OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: auth.OAuthToken) -> None:
        self.counts["tokens"] += 1
        self._tokens = tokens

    async def get_client_info(self) -> auth.OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: auth.OAuthClientInformationFull) -> None:
        self.counts["registrations"] += 1
        self._client = client_info

    async def _redirect(self, url: str) -> None:
        self.counts["logins"] += 1
        self._callback = _browse(url, self.user)

    async def _redirected(self) -> Any:
        code, state = self._callback["code"], self._callback["state"]
        # The newer generation also checks the issuer.
        if hasattr(auth, "AuthorizationCodeResult"):
            return auth.AuthorizationCodeResult(code=code, state=state, iss=self._callback.get("iss"))
        return code, state
