"""Who may ask what of the dashboard: the rules, as functions of a request's headers, and the headers of every answer.

Three dangers. A foreign web page in the same browser may send requests here: whatever changes anything must carry the token that
only our own page knows, and come from our own origin. A foreign name may be made to point here (DNS rebinding): the Host must be
ours. And beyond the loopback anybody may call: there everything needs a token of its own, under TLS.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from fedfleet.core.errors import BadInput

TOKEN_HEADER = "x-fedfleet-token"
COOKIE = "fedfleet"
MIN_TOKEN_LENGTH = 16  # characters of a token for reading: short ones can be guessed
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
# Reports and comparisons are files without scripts, which carry their style inside.
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True)
class Access:
    """Where the dashboard listens and what it wants to see. `reading`: a token without which nothing is told; "": none."""

    host: str
    port: int
    names: tuple[str, ...] = ()
    read_token: str = field(default="", repr=False)
    tls: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def scheme(self) -> str:
        """What addresses begin with."""
        return "https" if self.tls else "http"

    @property
    def address(self) -> str:
        """Where to point a browser."""
        name = self.names[0] if self.names else self.host
        host = f"[{name}]" if ":" in name else name
        return f"{self.scheme}://{host}:{self.port}/"


def check_access(host: str, *, read_token: str, tls: bool) -> None:
    """Refuse to listen beyond the loopback without a token for reading and TLS."""
    if read_token and len(read_token) < MIN_TOKEN_LENGTH:
        raise BadInput(f"--token: {len(read_token)} characters could be guessed; give at least {MIN_TOKEN_LENGTH} characters")
    if not is_loopback(host) and not (read_token and tls):
        missing = " and ".join([*([] if read_token else ["--token-file"]), *([] if tls else ["--certificate with --key"])])
        raise BadInput(
            f"--host {host}: for other machines the dashboard needs {missing}, so that only permitted people read "
            "or start runs; make certificates with fedfleet certificate"
        )


def is_loopback(host: str) -> bool:
    """Does this address lead to the machine itself only?"""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refusal(access: Access, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
    """Why a request is not answered, as a status and a sentence; None: it may pass. Names of headers are in lower case."""
    if not _is_own_host(access, headers.get("host", "")):
        return 421, "This is not the address of this dashboard; open the one that fedfleet dashboard printed."
    is_login = path == "/enter"
    if access.read_token and not is_login and not path.startswith("/static/") and not _may_read(access, headers):
        return 401, "This dashboard wants to see its token."
    if method in ("GET", "HEAD"):
        return None
    if method != "POST":
        return 405, "The dashboard knows GET and POST only."
    if headers.get("origin", "") != f"{access.scheme}://{headers.get('host', '')}":
        return 403, "Only the dashboard's own page may change anything; this request came from elsewhere."
    sent_token = headers.get(TOKEN_HEADER, "")
    if not is_login and not hmac.compare_digest(sent_token.encode(), access.token.encode()):
        return 403, "The page is older than the dashboard, or it is not ours; load it again."
    return None


def response_headers(path: str, *, tls: bool) -> dict[str, str]:
    """What every answer carries: nothing foreign is loaded, no frame holds it, nothing is kept by the browser."""
    report = path.startswith("/report/")
    headers = {
        "content-security-policy": _REPORT_POLICY if report else _PAGE_POLICY,
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",  # "no-referrer" would take the Origin away from our own forms
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "max-age=3600" if path.startswith("/static/") else "no-store",
    }
    return headers | ({"strict-transport-security": "max-age=31536000"} if tls else {})


def is_read_token(access: Access, token: str) -> bool:
    """Is this the token for reading?"""
    return bool(access.read_token) and hmac.compare_digest(token.encode(), access.read_token.encode())


def cookie(access: Access) -> str:
    """What a browser that showed the token keeps until it is closed."""
    return f"{COOKIE}={_cookie_value(access)}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if access.tls else ''}"


def _cookie_value(access: Access) -> str:
    """Not the token itself: it ends with this dashboard."""
    return hmac.new(access.token.encode(), access.read_token.encode(), "sha256").hexdigest()


def _may_read(access: Access, headers: Mapping[str, str]) -> bool:
    bearer = headers.get("authorization", "")
    if bearer.startswith("Bearer ") and is_read_token(access, bearer.removeprefix("Bearer ")):
        return True
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return any(name == COOKIE and hmac.compare_digest(value.encode(), _cookie_value(access).encode()) for name, _, value in pairs)


def _is_own_host(access: Access, host: str) -> bool:
    """Is this Host one that leads here by right? An address in numbers cannot be rebound, a foreign name can."""
    name, _, port = host.rpartition(":") if host.rpartition(":")[2].isdigit() else (host, "", "")
    if (port or ("443" if access.tls else "80")) != str(access.port):
        return False
    name = name.removeprefix("[").removesuffix("]").lower()
    if name in (access.host.lower(), *(n.lower() for n in access.names)):
        return True
    if is_loopback(access.host):
        return name in _LOOPBACK
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
