"""This client covers everything that HTTP offers: each method is compared with `docs/openapi.json`."""

import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, Unpack, get_args, get_origin

import httpx
import pytest

from folio_client import Folio, Run, Scratchbook

DESCRIPTION = json.loads((Path(__file__).parents[3] / "docs" / "openapi.json").read_text(encoding="utf-8"))

NOT_FOR_AGENTS = {"healthz", "metrics", "readyz"}
SAID_BY_ANOTHER = {"turn_trace": "trace(turn=…)"}
"""Operations that another method covers."""
SAID_OTHERWISE = {
    # The origin of a copy of an observation; a new observation has none.
    ("add_observation", "observation_id"): "source",
    ("update_observation", "base_version"): "If-Match",
    ("update_item", "base_version"): "If-Match",
    ("run_events", "after"): "Last-Event-ID",
    ("space_events", "after"): "Last-Event-ID",
    ("search", "q"): "text",
    ("search", "query"): "text",
    ("read_history", "range"): "from, to",
    ("read_history", "cursor"): "from",
    ("set_policy", "version"): "If-Match",
    # What an answer has beside the document.
    ("set_policy", "space"): "Folio(space=…)",
    ("set_policy", "changed_seq"): "If-Match",
    ("set_policy", "in_force"): "policy",
    ("ingest_tool_response", "turn"): "Folio-Turn",
    ("tool_request_context", "turn"): "Folio-Turn",
}
"""Parameters that a method takes under other names."""
NEEDS_NO_KEY = {
    # Repeating them changes nothing more.
    "archive_observation",
    "confirm_observation",
    "resolve_observation",
    "restore_observation",
    "supersede_observation",
    "complete_item",
    "pin_item",
    "unpin_item",
    "pause_run",
    "continue_run",
    "cancel_run",
    # The content identifies itself.
    "assemble_context",
    "offload",
    "evict",
    "ingest_tool_response",
    "tool_request_context",
}
BODIES = {"response", "request", "limits", "plan", "lines"}
"""Parameters that are a whole body, as the caller has it."""
HELPERS = {"close", "in_turn", "thread", "run", "each_observation", "wait"}
"""Methods that make no request, or the request of another method."""


@dataclass
class Operation:
    name: str
    path: re.Pattern[str]
    query: set[str]
    body: set[str]
    headers: set[str]
    answer: set[str]
    """The fields that its JSON answer always has."""


def operations() -> dict[str, list[Operation]]:
    """All operations, by their HTTP methods."""
    found: dict[str, list[Operation]] = {}
    for path, methods in DESCRIPTION["paths"].items():
        pattern = re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) + "$")
        for method, described in methods.items():
            parameters = described.get("parameters", [])
            of = {kind: {one["name"] for one in parameters if one["in"] == kind} for kind in ("query", "header")}
            content = described.get("requestBody", {}).get("content", {})
            answers = next(one.get("content", {}) for code, one in described["responses"].items() if code[0] == "2")
            one = Operation(
                described["operationId"],
                pattern,
                of["query"],
                set(json_schema(content).get("properties", {})),
                of["header"],
                required(json_schema(answers)),
            )
            found.setdefault(method.upper(), []).append(one)
    return found


def json_schema(content: dict[str, Any]) -> dict[str, Any]:
    """The schema of JSON content; empty if the content has other types only."""
    ref = content.get("application/json", {}).get("schema", {}).get("$ref")
    return schema_at(ref) if ref else {}


def schema_at(ref: str) -> dict[str, Any]:
    schema: dict[str, Any] = DESCRIPTION["components"]["schemas"][ref.rsplit("/", 1)[-1]]
    return schema


def required(schema: dict[str, Any]) -> set[str]:
    """The fields that an object always has, also where it is one of several (`anyOf`)."""
    kinds = [set(schema_at(one["$ref"]).get("required", [])) for one in schema.get("anyOf", [])]
    return set(schema.get("required", [])).union(set.intersection(*kinds) if kinds else ())


OPERATIONS = operations()


def some(hint: Any) -> Any:
    """A sample value of the type `hint`."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return some(next(one for one in get_args(hint) if one is not type(None)))
    if origin is Literal:
        return get_args(hint)[0]
    for kind, value in ((bool, True), (int, 1), (float, 0.5), (str, "x"), (bytes, b"x")):
        if hint is kind:
            return value
    if origin in (list, Sequence):
        return ["x"]
    if hint is Any or origin in (dict, Mapping):
        return {"a": 1}
    return {}


def said_with(method: Callable[..., Any]) -> dict[str, Any]:
    """Sample values for all arguments of `method`."""
    hints = typing.get_type_hints(method)
    said: dict[str, Any] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            assert get_origin(hints[name]) is Unpack
            (fields,) = get_args(hints[name])
            said |= {field: some(hint) for field, hint in typing.get_type_hints(fields).items()}
        elif name != "self":
            said[name] = some(hints[name])
    return said


def methods() -> Iterator[tuple[type, str]]:
    for kind in (Folio, Run, Scratchbook):
        for name, _ in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and name not in HELPERS:
                yield kind, name


def asked(kind: type, name: str, said: dict[str, Any]) -> httpx.Request:
    """The request that the method `name` makes when called with `said`."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        path = request.url.path
        if path.endswith("/events"):
            return httpx.Response(200, text="event: end\ndata: {}\n\n", headers={"Content-Type": "text/event-stream"})
        if path.endswith((".md", "/main/export")):
            kind = "text/markdown" if path.endswith(".md") else "application/x-ndjson"
            return httpx.Response(200, text="", headers={"Content-Type": kind})
        return httpx.Response(200, json=dict.fromkeys(operation_of(request).answer, "x"))

    with Folio("http://folio.test", http=httpx.Client(transport=httpx.MockTransport(answer))) as folio:
        of = {Folio: folio, Run: folio.run("x"), Scratchbook: folio.thread("x")}[kind]
        result = getattr(of, name)(**said)
        if inspect.isgenerator(result):
            list(result)
    (request,) = seen
    return request


def operation_of(request: httpx.Request) -> Operation:
    path = request.url.path.removesuffix(".md")
    found = [one for one in OPERATIONS[request.method] if one.path.match(path)]
    # `/observations/active` is not an observation.
    return min(found, key=lambda one: one.path.pattern.count("[^/]+"))


@pytest.mark.parametrize(("kind", "name"), list(methods()))
def test_method_sends_exactly_the_parameters_of_its_operation(kind: type, name: str) -> None:
    said = said_with(getattr(kind, name))
    request = asked(kind, name, said)
    operation = operation_of(request)
    otherwise = {field for of, field in SAID_OTHERWISE if of == operation.name}

    query = {re.sub(r"^context\..*", "context.<path>", field) for field in request.url.params}
    assert query == operation.query - otherwise
    if not BODIES & said.keys() or operation.name == "start_run":
        assert set(json.loads(request.content or b"{}")) == operation.body - otherwise
    if "If-Match" in operation.headers:
        assert request.headers["If-Match"] == '"1"'
    if "Last-Event-ID" in operation.headers:
        assert request.headers["Last-Event-ID"] == "1"
    if "Idempotency-Key" in operation.headers:
        assert ("key" in said) != (operation.name in NEEDS_NO_KEY)
        assert "key" not in said or request.headers["Idempotency-Key"] == "x"


@pytest.mark.parametrize(("kind", "name"), list(methods()))
def test_every_post_has_a_key_so_that_a_retry_does_nothing_twice(kind: type, name: str) -> None:
    method = getattr(kind, name)
    said = {parameter: value for parameter, value in said_with(method).items() if parameter != "key"}
    keys = [asked(kind, name, said) for _ in range(2)]
    if keys[0].method == "POST":
        first, second = (request.headers["Idempotency-Key"] for request in keys)
        assert first and first != second
    else:
        assert not any("Idempotency-Key" in request.headers for request in keys)


def test_every_operation_has_a_method() -> None:
    reached = {operation_of(asked(kind, name, said_with(getattr(kind, name)))).name for kind, name in methods()}
    all_of_them = {one.name for of_method in OPERATIONS.values() for one in of_method}
    assert reached == all_of_them - NOT_FOR_AGENTS - SAID_BY_ANOTHER.keys()


def test_renamed_parameters_and_keyless_operations_still_exist() -> None:
    known = {(one.name, field) for of_method in OPERATIONS.values() for one in of_method for field in one.query | one.body}
    assert SAID_OTHERWISE.keys() <= known
    assert {one.name for one in OPERATIONS["POST"]} >= NEEDS_NO_KEY
