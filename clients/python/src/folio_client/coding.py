"""What is said in a request, as HTTP can carry it, and what an answer says."""

import hashlib
import json
import re
import string
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from .errors import FolioError, Invalid

KEY_BYTES_MAX = 255
"""Bytes of a key that a server takes."""
PLAIN = re.compile(r"[!-~]([ -~]*[!-~])?|")
"""What stands in a header as it is."""
KEPT = string.punctuation.replace("%", "")
"""Besides letters and digits, what stays as it is where something has to be written otherwise. Spaces at an end would be lost."""


def body_bytes(body: Any) -> tuple[str, bytes]:
    """`body` and its media type: a text as it is, all else as JSON.

    :raises Invalid: if there is no such thing: a date, a set, `nan`, half a surrogate pair.
    """
    try:
        if isinstance(body, str):
            return "text/plain", body.encode()
        return "application/json", json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise unsaid(error) from error


def json_of(response: httpx.Response) -> dict[str, Any]:
    """What a success says.

    :raises FolioError: `not_folio` if it is no object of JSON: somebody else answered.
    """
    try:
        said = response.json()
    except (ValueError, RecursionError) as error:
        raise not_folio(response.status_code, f"the answer is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise not_folio(response.status_code, "the answer is JSON, but no object")
    return said


def check_kind(response: httpx.Response, kind: str) -> None:
    """Whether the answer is of the media type `kind`, as Folio's is.

    :raises FolioError: `not_folio` if it is not.
    """
    told = response.headers.get("Content-Type", "")
    if told.partition(";")[0].strip().lower() != kind:
        raise not_folio(response.status_code, f"the answer is {told!r}, not {kind!r}")


def check_headers(headers: Mapping[str, str]) -> None:
    """Whether all of `headers` can be sent. What they say is in no message: one of them is the token.

    :raises Invalid: if one cannot.
    """
    for name, value in headers.items():
        if not PLAIN.fullmatch(value):
            detail = (
                f"the header {name} cannot be sent: it has line breaks, spaces at an end, or signs that are not ASCII"
            )
            raise Invalid("invalid", detail)


def header_word(word: str) -> str:
    """`word` as it stands in a header: what is not plain ASCII is written as in an address, `%C3%A9`."""
    if PLAIN.fullmatch(word):
        return word
    try:
        return quote(word, safe=KEPT)
    except UnicodeEncodeError as error:
        raise unsaid(error) from error


def new_key(key: str | None) -> dict[str, str]:
    """The header that names a request: `key`, or a name that no other has. What is too long has its SHA-256 as its name."""
    word = uuid.uuid4().hex if key is None else header_word(key)
    if key is not None and len(word) > KEY_BYTES_MAX:
        word = f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
    return {"Idempotency-Key": word}


def at_version(version: int | None) -> dict[str, str]:
    """The header that says which version must be there; none where that does not matter."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def part(name: str) -> str:
    """`name` as one part of a path. Dots alone would lead elsewhere."""
    try:
        word = quote(name, safe="")
    except UnicodeEncodeError as error:
        raise unsaid(error) from error
    return word.replace(".", "%2E") if name in {".", ".."} else word


def unsaid(error: Exception) -> Invalid:
    """What is to be said cannot be."""
    return Invalid("invalid", f"the request cannot be written: {error}")


def not_folio(status: int, detail: str) -> FolioError:
    """Something answered, and not as Folio does."""
    return FolioError("not_folio", detail, status=status)
