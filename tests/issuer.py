"""A small OpenID provider on 127.0.0.1: keys that rotate, tokens, and outages."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "https://vramgate.example"

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A key pair of the issuer."""

    kid: str
    algorithm: str
    private: PrivateKey

    def published(self) -> dict[str, Any]:
        """Return the public half as the issuer publishes it."""
        public = self.private.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            shown = RSAAlgorithm.to_jwk(public, as_dict=True)
        elif isinstance(public, ec.EllipticCurvePublicKey):
            shown = ECAlgorithm.to_jwk(public, as_dict=True)
        else:
            shown = OKPAlgorithm.to_jwk(public, as_dict=True)
        return {**shown, "kid": self.kid, "use": "sig"}


def a_key(kid: str, algorithm: str = "ES256") -> SigningKey:
    """Return a new key pair."""
    private: PrivateKey
    if algorithm.startswith(("RS", "PS")):
        private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    elif algorithm == "EdDSA":
        private = ed25519.Ed25519PrivateKey.generate()
    else:
        private = ec.generate_private_key(SECP256R1())
    return SigningKey(kid=kid, algorithm=algorithm, private=private)


@dataclass(slots=True)
class Issuer:
    """What the provider answers with; tests change it while it runs."""

    url: str = ""
    keys: list[SigningKey] = field(default_factory=list)
    extra_keys: list[dict[str, Any]] = field(default_factory=list)
    documents: dict[str, Any] = field(default_factory=dict)
    """What paths answer instead."""
    is_down: bool = False
    asked: list[str] = field(default_factory=list)

    def claims(self, **overrides: Any) -> dict[str, Any]:  # noqa: ANN401 whatever claims hold
        """Return the claims of a token that is good."""
        now = int(time.time())
        given = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "trainer-7",
            "iat": now,
            "nbf": now,
            "exp": now + 300,
            "tenant": "team-a",
            "scope": "openid report read",
        }
        kept = {**given, **overrides}
        return {name: value for name, value in kept.items() if value is not None}

    def token(self, key: SigningKey | None = None, **overrides: Any) -> str:  # noqa: ANN401 claims
        """Return a token, signed with the newest key unless another is given."""
        chosen = key or self.keys[-1]
        return jwt.encode(
            self.claims(**overrides),
            chosen.private,
            algorithm=chosen.algorithm,
            headers={"kid": chosen.kid},
        )

    def answer(self, path: str) -> tuple[int, object]:
        """Return the status and the document at a path."""
        self.asked.append(path)
        if self.is_down:
            return 500, {"error": "down"}
        if path in self.documents:
            return 200, self.documents[path]
        if path == "/.well-known/openid-configuration":
            return 200, {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/keys":
            return 200, {"keys": [one.published() for one in self.keys] + self.extra_keys}
        return 404, {}


@contextmanager
def running_issuer(*keys: SigningKey) -> Iterator[Issuer]:
    """Serve an issuer with these keys."""
    issuer = Issuer(keys=list(keys))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, document = issuer.answer(self.path)
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
