"""Solid-OIDC for programs: exchanges client credentials for access tokens bound to a key (DPoP).

Owns the token, its renewal, and the key, which is created with the login and never stored. Each request
carries its own proof (RFC 9449): a signature over method, address and token. Rejects a description of another
issuer, and a token endpoint without TLS if the issuer has TLS. Invariant: the secret is sent only to the
issuer's token endpoint, and appears in no message.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any
from urllib.parse import quote, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from sparqlive.errors import Error
from sparqlive.web.network import Network, Origin, Reach, Response, checked_url, origin

# How long before it expires a token is renewed.
_SPARE_SECONDS = 30.0
_SHORTEST_SECONDS = 1.0


def login_of(
    issuer: str | None,
    client_id: str | None,
    client_secret: str | None,
    client_secret_variable: str | None,
    reach: Reach,
) -> SolidLogin | None:
    """Returns the login of a source's options; None without these options."""
    options = (issuer, client_id, client_secret, client_secret_variable)
    if options == (None, None, None, None):
        return None
    if not all(option is None or isinstance(option, str) for option in options):
        raise Error("issuer, client_id, client_secret and client_secret_variable must be strings.")
    if issuer is None or client_id is None or (client_secret is None) == (client_secret_variable is None):
        raise Error(
            "A login needs issuer, client_id, and either client_secret or client_secret_variable, the name "
            "of the environment variable that holds the secret."
        )
    return SolidLogin(issuer, client_id, client_secret, client_secret_variable, reach)


class SolidLogin:
    """The credentials of one client; a `Login` for requests."""

    def __init__(
        self, issuer: str, client_id: str, secret: str | None, variable: str | None, reach: Reach
    ) -> None:
        checked_url(issuer)
        self._issuer = issuer
        self._client_id = client_id
        self._secret = secret
        self._variable = variable
        self._reach = replace(reach, headers={})
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self._public = {name: public[name] for name in ("crv", "kty", "x", "y")}
        self._token: str | None = None
        self._expires = 0.0
        self._nonces: dict[Origin, str] = {}
        self._renewing = asyncio.Lock()

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        async with self._renewing:
            if self._token is None or time.monotonic() >= self._expires:
                await self._renew()
            token = self._token
        assert token is not None
        return {"Authorization": f"DPoP {token}", "DPoP": self._proof(method, url, token)}

    def refused(self, url: str, headers: Mapping[str, str]) -> None:
        """Handles a 401: stores the server's nonce for proofs, or else discards the token."""
        if not self._takes_nonce(url, headers):
            self._token = None

    def _takes_nonce(self, url: str, headers: Mapping[str, str]) -> bool:
        nonce = headers.get("dpop-nonce")
        if nonce is None:
            return False
        self._nonces[origin(checked_url(url))] = nonce
        return True

    def _proof(self, method: str, url: str, token: str | None = None) -> str:
        """Returns a proof that the sender of this request has the key (RFC 9449 §4.2)."""
        claims: dict[str, Any] = {
            "jti": str(uuid.uuid4()),
            "htm": method,
            "htu": url.partition("#")[0].partition("?")[0],
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = base64.urlsafe_b64encode(sha256(token.encode()).digest()).rstrip(b"=").decode()
        if origin(checked_url(url)) in self._nonces:
            claims["nonce"] = self._nonces[origin(checked_url(url))]
        return jwt.encode(
            claims, self._key, algorithm="ES256", headers={"typ": "dpop+jwt", "jwk": self._public}
        )

    # Tokens

    async def _renew(self) -> None:
        async with Network(self._reach, self._issuer) as network:
            endpoint = await self._token_endpoint(network)
            response = await self._request_token(network, endpoint)
            if response.status in (400, 401) and self._takes_nonce(endpoint, response.headers):
                response = await self._request_token(network, endpoint)
        answer = _json(response)
        if response.status != 200:
            reason = answer.get("error")
            raise Error(
                f"{self._issuer} rejected the credentials (status {response.status}"
                f"{f', {reason}' if isinstance(reason, str) else ''}). Check client_id and the secret."
            )
        token, seconds = answer.get("access_token"), answer.get("expires_in", 300)
        is_bound = str(answer.get("token_type")).lower() == "dpop"
        if not isinstance(token, str) or not is_bound or not isinstance(seconds, int | float):
            raise Error(f"{endpoint} returned a token that is not bound to a key (DPoP).")
        self._token = token
        self._expires = time.monotonic() + max(_SHORTEST_SECONDS, seconds - _SPARE_SECONDS)

    async def _token_endpoint(self, network: Network) -> str:
        """Finds the token endpoint by OpenID Connect Discovery."""
        response = await network.get(self._issuer.rstrip("/") + "/.well-known/openid-configuration")
        if response.status != 200:
            raise Error(f"{response.url} has no description of the issuer (status {response.status}).")
        found = _json(response)
        issuer, endpoint = found.get("issuer"), found.get("token_endpoint")
        if not isinstance(issuer, str) or issuer.rstrip("/") != self._issuer.rstrip("/"):
            raise Error(f"{self._issuer}: the description is that of another issuer, {issuer!r}.")
        if not isinstance(endpoint, str):
            raise Error(f"{self._issuer}: the description names no token endpoint.")
        if checked_url(endpoint).scheme != checked_url(self._issuer).scheme:
            raise Error(f"{self._issuer}: the token endpoint, {endpoint}, is less secure, or not HTTP.")
        return endpoint

    async def _request_token(self, network: Network, endpoint: str) -> Response:
        credentials = f"{quote(self._client_id, safe='')}:{quote(self._client_secret(), safe='')}"
        headers = {
            "Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
            "DPoP": self._proof("POST", endpoint),
        }
        form = urlencode({"grant_type": "client_credentials", "scope": "webid"})
        return await network.request("POST", endpoint, headers, form.encode())

    def _client_secret(self) -> str:
        if self._variable is None:
            assert self._secret is not None
            return self._secret
        if self._variable not in os.environ:
            raise Error(
                f"The environment variable {self._variable} is not set. It must hold the client's secret."
            )
        return os.environ[self._variable]


def _json(response: Response) -> Mapping[str, Any]:
    try:
        found = json.loads(response.body)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}
