"""Objects behind an address, read with obstore; retried by whoever asks, so not by obstore."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from ttf import BadData, ConfigError, DataMissing, PluginUnavailable, RemoteFault
from ttf_storage.objects_store import INSTALL, SCHEMES

_TIMEOUT: Final = "60s"  # of a request for one piece
_CONNECT_TIMEOUT: Final = "10s"
_PART_BYTES: Final = 1 << 20
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_REPEATED: Final = re.compile(
    r"^Generic \w+ error: |Error performing \w+ \S+ in \S+(?:, after \d+ retries.*?)? - |: <.*$"
)
_PIN: Final = re.compile(r"sha256=([0-9a-f]{64})")
_CREDENTIALS: Final = {
    "s3": "For Amazon S3 set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION; "
    "for a public bucket AWS_SKIP_SIGNATURE=true.",
    "gs": "For Google Cloud Storage set GOOGLE_SERVICE_ACCOUNT to the path of the key file; "
    "for a public bucket GOOGLE_SKIP_SIGNATURE=true.",
}


def split_address(uri: str) -> tuple[str, str]:
    """The address of a folder without a slash at its end, and the hash of the manifest that must lie
    there ("": any). Raises ConfigError for an address that says more than a place."""
    address, _, fragment = uri.partition("#")
    try:
        parts = urlsplit(address)
        secret = bool(parts.username or parts.password or parts.query)
    except ValueError:
        raise ConfigError("The data has an address that is no URL.") from None
    if secret:  # never shown, also not in this message
        raise ConfigError(
            f"The data has an address {parts.scheme}://... with a password, a user name or a query "
            "(?...). ttf does not take it, because addresses are written into run.toml and into logs.",
            hint="Give credentials in variables of the environment. "
            + _CREDENTIALS.get(parts.scheme, "A proxy can add them for an HTTP server."),
        )
    if parts.scheme.lower() not in SCHEMES or not parts.netloc:
        raise ConfigError(
            f"{address} is no address of a folder of shards: {', '.join(SCHEMES)} are read.",
        )
    found = _PIN.fullmatch(fragment)
    if fragment and found is None:
        raise ConfigError(
            f"{uri}: after # only sha256=... with 64 hexadecimal digits may follow, the hash of the "
            "manifest."
        )
    return address.rstrip("/"), found[1] if found else ""


class ObstoreRemote:
    """The objects below one address."""

    def __init__(self, address: str) -> None:
        if importlib.util.find_spec("obstore") is None:
            raise PluginUnavailable(
                f"{address} can be read only with obstore, which is not installed.", hint=INSTALL
            )
        self._address = address
        self._scheme = address.partition("://")[0].lower()
        with self._explained(""):
            self._store = opened(address)

    def read(self, key: str, start: int, stop: int) -> memoryview:
        """The bytes start..stop, or fewer at the end of the object."""
        import obstore

        found = bytearray()
        with self._explained(key):
            # By parts: a server may answer with more than it was asked for, and without an end.
            answer = obstore.get(self._store, key, options={"range": (start, stop)})
            for part in answer.stream(min_chunk_size=_PART_BYTES):
                found += part
                if len(found) > stop - start:
                    raise BadData(
                        f"{self._address}/{key}: the server sends more than the {stop - start:,} "
                        "bytes that it was asked for.",
                        hint="Is it a web server that answers every request with a page?",
                    )
        return memoryview(found)

    @contextmanager
    def _explained(self, key: str) -> Iterator[None]:
        from obstore import exceptions

        where = f"{self._address}/{key}".rstrip("/")
        refused = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
        try:
            yield
        except FileNotFoundError:
            raise DataMissing(
                f"{where}: there is no such object.",
                hint="Check the address. The manifest is uploaded last, after all shards.",
            ) from None
        except refused:
            hint = _CREDENTIALS.get(self._scheme, "")
            raise BadData(f"{where}: the server refuses access.", hint=hint) from None
        except exceptions.NotSupportedError:
            raise BadData(
                f"{where}: the server does not answer requests for a part of a file (Range), which "
                "ttf needs to go on after an interruption.",
                hint="Most web servers do (nginx, Apache, Caddy); python -m http.server does not.",
            ) from None
        except exceptions.BaseError as error:
            raise RemoteFault(_reason(error)) from None
        except ValueError as error:  # of the address or of a variable
            raise ConfigError(f"{where}: obstore cannot use it: {_reason(error)}.") from None


def opened(address: str, *, retries: int = 0) -> Any:
    """The store of obstore; credentials are what it finds in the environment."""
    from datetime import timedelta

    from obstore.store import from_url

    return from_url(
        address,
        client_options={
            "timeout": _TIMEOUT,
            "connect_timeout": _CONNECT_TIMEOUT,
            "allow_http": _is_plain_http(address),
        },
        retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=60 * retries)},
    )


def _is_plain_http(address: str) -> bool:
    """Only where the user's own address, or his endpoint, says http://."""
    if address.lower().startswith("http://"):
        return True
    return address.lower().startswith("s3://") and any(
        os.environ.get(name, "").lower().startswith("http://") for name in _ENDPOINTS
    )


def _reason(error: Exception) -> str:
    """The first line, without the address; obstore's others repeat it in the words of each layer."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _REPEATED.sub("", lines[0] if lines else type(error).__name__)[:200].rstrip(".: ")
