"""Encodes what goes into a request, in the forms that HTTP can carry, and decodes answers."""

import hashlib
import json
import math
import re
import string
import uuid
from collections.abc import Mapping
from typing import Any, TypeVar, cast
from urllib.parse import quote

import httpx

from .errors import FolioError, Invalid

KEY_BYTES_MAX = 255
"""The most bytes of a key that a server accepts."""
PLAIN = re.compile(r"[!-~]([ -~]*[!-~])?|")
"""Matches a word that can be put into a header unchanged."""
KEPT = string.punctuation.replace("%", "")
"""What stays unchanged, besides letters and digits, where a word has to be encoded. Spaces at an end would be lost."""
T = TypeVar("T")


def body_bytes(body: Any) -> tuple[str, bytes]:
    """Returns the media type of `body` and its bytes: a text as it is, everything else as JSON.

    :raises Invalid: if it cannot be encoded: a date, a set, `nan`, half a surrogate pair.
    """
    try:
        if isinstance(body, str):
            return "text/plain", body.encode()
        return "application/json", json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise unsaid(error) from error


def json_of(shape: type[T], response: httpx.Response) -> T:
    """Returns the content of a successful answer, which has the type `shape`, one of `folio_client.shapes`.

    :raises FolioError: `not_folio` if it is not a JSON object with all fields that `shape` requires, so something other
        than Folio answered.
    """
    try:
        said = response.json()
    except (ValueError, RecursionError) as error:
        raise not_folio(response.status_code, f"the answer is not valid JSON: {error}") from error
    if not isinstance(said, dict):
        raise not_folio(response.status_code, "the answer is JSON, but not an object")
    required: frozenset[str] = getattr(shape, "__required_keys__", frozenset())
    missing = sorted(required - said.keys())
    if missing:
        raise not_folio(response.status_code, f"the answer is a JSON object, but lacks {', '.join(missing)}")
    return cast(T, said)


def check_kind(response: httpx.Response, kind: str) -> None:
    """Checks that the answer has the media type `kind`, as Folio's answers do.

    :raises FolioError: `not_folio` if it does not.
    """
    told = response.headers.get("Content-Type", "")
    if told.partition(";")[0].strip().lower() != kind:
        raise not_folio(response.status_code, f"the answer is {told!r}, not {kind!r}")


def check_headers(headers: Mapping[str, str]) -> None:
    """Checks that all of `headers` can be sent. The error does not show their values, since one of them is the token.

    :raises Invalid: if one cannot.
    """
    for name, value in headers.items():
        if not PLAIN.fullmatch(value):
            detail = (
                f"the header {name} cannot be sent: it has line breaks, spaces at an end, or non-ASCII characters"
            )
            raise Invalid("invalid", detail)


def header_word(word: str) -> str:
    """Returns `word` as it is put into a header: what is not plain ASCII is percent-encoded, `%C3%A9`."""
    if not isinstance(word, str):
        raise Invalid("invalid", f"a key or a turn is a text, not {word!r}")
    if PLAIN.fullmatch(word):
        return word
    try:
        return quote(word, safe=KEPT)
    except UnicodeEncodeError as error:
        raise unsaid(error) from error


def new_key(key: str | None) -> dict[str, str]:
    """Returns the header that identifies a request: `key`, or a new unique key. If `key` is too long, its SHA-256 is
    sent."""
    word = uuid.uuid4().hex if key is None else header_word(key)
    if key is not None and len(word) > KEY_BYTES_MAX:
        word = f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
    return {"Idempotency-Key": word}


def at_version(version: int | None) -> dict[str, str]:
    """Returns the header for the version that must be there; empty if it does not matter."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def check_patience(timeout: Any, retries: Any, stream_timeout: Any) -> None:
    """Checks what a client is made with.

    :raises Invalid: if a time is not a number of seconds, or no number of retries is given.
    """
    if timeout is not None and not (is_seconds(timeout) and timeout > 0):
        detail = f"`timeout` is {timeout!r}, not a positive number of seconds, or None for no limit"
        raise Invalid("invalid", detail, hints=["for several timeouts, pass a client of httpx with them: http=…"])
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise Invalid("invalid", f"`retries` is {retries!r}, not a number from 0")
    if not (is_seconds(stream_timeout) and stream_timeout >= 0):
        raise Invalid("invalid", f"`stream_timeout` is {stream_timeout!r}, not a number of seconds from 0")


def is_seconds(said: Any) -> bool:
    return isinstance(said, (int, float)) and not isinstance(said, bool) and not math.isnan(said)


def part(name: str) -> str:
    """Returns `name` encoded as one segment of a path. A name of dots alone would lead elsewhere, so they are encoded,
    too.

    :raises Invalid: if it is not a text, or is empty, so that it names nothing.
    """
    if not isinstance(name, str):
        raise Invalid("invalid", f"a name, a handle or an id is a text, not {name!r}")
    if not name:
        raise Invalid("invalid", "a name, a handle or an id is empty")
    try:
        word = quote(name, safe="")
    except UnicodeEncodeError as error:
        raise unsaid(error) from error
    return word.replace(".", "%2E") if name in {".", ".."} else word


def without_secrets(url: str) -> str:
    """Returns `url` without what may be secret, also if it is not valid: name, password, query and fragment."""
    server = re.sub(r"^(\w+://)?.*@", r"\1", url, flags=re.DOTALL)
    return re.split(r"[?#]", server, maxsplit=1)[0]


def unsaid(error: Exception) -> Invalid:
    """Returns the error for something that cannot be encoded."""
    return Invalid("invalid", f"the request cannot be encoded: {error}")


def not_folio(status: int, detail: str) -> FolioError:
    """Returns the error for an answer that is not one of Folio."""
    return FolioError("not_folio", detail, status=status)
