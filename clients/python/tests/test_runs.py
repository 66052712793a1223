"""Runs and their events, against a real server."""

import asyncio
import time
from contextlib import closing
from typing import Any

import pytest

from folio_client import AsyncFolio, Folio, FolioError

PLAN: dict[str, Any] = {
    "title": "Three",
    "inputs": {"n": {"type": "integer"}},
    "steps": [
        {"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": "{{ inputs.n }}"}}},
        {"id": "b", "do": {"tool": "text", "args": {"op": "echo", "value": "{{ results.a }}"}}},
    ],
}


def test_run_events_arrive_once_in_order_and_close_with_end(folio: Folio) -> None:
    run = folio.start(PLAN, inputs={"n": 3}, thread="t", key="three")
    events = list(run.events())
    assert events[-1].name == "end"
    assert events[-1].data["status"] == "ok"
    assert [event.id for event in events[:-1]] == list(range(1, len(events)))
    assert run.wait(timeout=10)["status"] == "ok"
    tree = run.tree()
    assert tree["last_event_id"] == len(events) - 1
    again = list(run.events(after=3))
    assert [event.id for event in again[:-1]] == list(range(4, len(events)))
    assert folio.start(PLAN, inputs={"n": 3}, thread="t", key="three").run == run.run


def test_ended_run_is_forgotten_as_a_whole(folio: Folio) -> None:
    run = folio.start(PLAN, inputs={"n": 4711}, thread="forgotten")
    assert run.wait(timeout=10)["status"] == "ok"
    forgot = folio.forget(runs=[run.run], reason="no longer wanted")
    [handle] = forgot.get("runs", [])
    with pytest.raises(FolioError) as refused:
        run.tree()
    assert (refused.value.status, refused.value.code) == (410, "run_forgotten")
    listed = [one for one in folio.runs(status="forgotten")["items"] if one["handle"] == handle]
    told = [one.get("forgotten") for one in listed]
    assert [one and one.get("reason") for one in told] == ["no longer wanted"]


def test_repeated_start_and_fork_with_the_same_key_are_marked_as_replayed(folio: Folio) -> None:
    runs = [folio.start(PLAN, inputs={"n": 1}, key="replayed") for _ in range(2)]
    assert [run.run for run in runs] == [runs[0].run] * 2
    assert [run.replayed for run in (*runs, folio.start(PLAN, inputs={"n": 1}))] == [False, True, False]
    assert not folio.run(runs[0].run).replayed
    runs[0].wait(timeout=10)
    forks = [runs[0].fork("b", key="replayed", paused=True) for _ in range(2)]
    assert [fork.get("replayed", False) for fork in forks] == [False, True]


def test_run_starts_from_a_list_of_steps(folio: Folio) -> None:
    def echo(name: str) -> dict[str, Any]:
        return {"id": name, "do": {"tool": "text", "args": {"op": "echo", "value": name}}}

    run = folio.start([echo("a"), [echo("b"), echo("c")]])
    assert run.wait(timeout=10)["status"] == "ok"
    first, group = run.plan()["steps"]
    assert (first["id"], [step["id"] for step in group["parallel"]]) == ("a", ["b", "c"])


def test_runs_are_compared_and_replayed(folio: Folio) -> None:
    def echo(value: int) -> str:
        steps = [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": value}}}]
        run = folio.start({"steps": steps})
        run.wait(timeout=30)
        return run.run

    one, other = echo(1), echo(2)
    diff = folio.run(one).diff(other)
    assert (diff["one"]["run_id"], diff["other"]["run_id"]) == (
        folio.run(one).get()["run_id"],
        folio.run(other).get()["run_id"],
    )
    assert "a" in [node["path"] for node in diff["nodes"]]
    assert folio.run(one).diff(one)["nodes"] == []
    assert folio.run(one).replay()["differences"] == []


def test_events_after_an_unknown_id_begin_with_a_gap(folio: Folio) -> None:
    run = folio.start(PLAN, inputs={"n": 1})
    run.wait(timeout=10)
    names = [event.name for event in run.events(after=10_000)]
    assert names[0] == "gap"
    assert names[-1] == "end"


def test_run_can_be_paused_continued_and_cancelled(folio: Folio) -> None:
    slow = {"steps": [{"id": "a", "do": {"tool": "wait", "args": {"ms": 30_000}}}]}
    run = folio.start(slow)
    run.pause()
    run.go_on()
    with pytest.raises(TimeoutError):
        run.wait(timeout=0.05)
    run.cancel()
    assert run.wait(timeout=10)["status"] == "cancelled"
    assert run.run in [one["handle"] for one in folio.runs(status="cancelled")["items"]]
    assert "a" in run.plan()["markdown"]


def test_run_stopped_by_a_limit_continues_in_a_fork(folio: Folio) -> None:
    def echo(n: int) -> dict[str, Any]:
        return {"id": f"s{n}", "do": {"tool": "text", "args": {"op": "echo", "value": n}}}

    stopped = folio.start({"title": "Too much", "budget": {"tool_calls": 1}, "steps": [echo(1), echo(2)]})
    result = stopped.wait(timeout=10)["result"]
    assert result and result["stop_reason"] == "budget_tool_calls"
    more = folio.run(stopped.fork(before_limit=True, paused=True)["handle"])
    limits = more.change_limits({"tool_calls": 5})["limits"]
    assert next(one for one in limits if one["what"] == "tool_calls")["limit"] == 5
    more.go_on()
    result = more.wait(timeout=20)["result"]
    assert result and result["notes"] == "2 ok"


def test_limits_at_the_start_take_the_place_of_those_of_the_plan(folio: Folio) -> None:
    steps = [{"id": name, "do": {"tool": "text", "args": {"op": "echo", "value": 1}}} for name in ("a", "b")]
    run = folio.start({"budget": {"tool_calls": 9}, "steps": steps}, limits={"tool_calls": 1})
    result = run.wait(timeout=20)["result"]
    assert result and result["stop_reason"] == "budget_tool_calls"
    with pytest.raises(FolioError, match="past"):
        folio.start({"steps": steps}, limits={"deadline": "2020-01-01T00:00:00Z"})


def test_edited_markdown_plan_makes_a_new_version(folio: Folio) -> None:
    slow = {"id": "a", "do": {"tool": "wait", "args": {"ms": 30_000}}}
    later = {"id": "b", "needs": ["a"], "do": {"tool": "wait", "args": {"ms": 1}}}
    run = folio.start({"steps": [slow, later]}, plan_gate="never", planning="never", judging="wanted")
    plan = run.plan()
    changed = run.edit_plan(plan["markdown"].replace("{ms: 1}", "{ms: 2}"), version=plan["plan_version"])
    assert changed["difference"] == {"kept": ["a"], "changed": ["b"]}
    assert [one["plan_version"] for one in run.plan_versions()["items"]] == [1, 2]
    forks = [run.fork("a", paused=True, key="once") for _ in range(2)]
    assert forks[0]["run_id"] == forks[1]["run_id"]
    for one in (run, folio.run(forks[0]["handle"])):
        one.cancel()


def test_allow_shell_skips_approval_and_always_covers_later_calls(folio: Folio) -> None:
    def shell(n: int, **more: Any) -> dict[str, Any]:
        return {"id": f"s{n}", "do": {"tool": "shell", "args": {"command": "true"}}, **more}

    allowed = folio.start({"steps": [shell(1)]}, allow_shell=True)
    assert allowed.wait(timeout=20)["status"] == "ok"
    asks = folio.start({"steps": [shell(1), shell(2, needs=["s1"])]})
    until = time.monotonic() + 20
    while not (waiting := asks.questions()["items"]) and time.monotonic() < until:
        time.sleep(0.02)
    folio.decide(waiting[0]["id"], approve=True, always="tool", key="yes")
    assert asks.wait(timeout=20)["status"] == "ok", "the second needs no yes"
    assert folio.decide(waiting[0]["id"], approve=True, always="tool", key="yes")["run_id"] == waiting[0]["run_id"]


def test_space_events_begin_at_the_call_not_at_the_first_iteration(folio: Folio) -> None:
    folio.observe("before")
    with closing(folio.events()) as events:
        written = [folio.observe(f"after {n}") for n in range(2)]
        head = folio.observations(limit=1)["as_of"]
        assert [next(events).id for _ in written] == [head - 1, head]


def test_space_events_of_the_async_client_begin_at_the_first_iteration_or_after_as_of(url: str) -> None:
    async def watch() -> list[int]:
        async with AsyncFolio(url) as folio:
            before = (await folio.observations(limit=1))["as_of"]
            late = folio.events()
            await folio.observe("missed by the one that is not iterated yet")
            first = asyncio.ensure_future(anext(late))
            early = folio.events(after=before)
            seen = [await anext(early)]
            while not first.done():
                await folio.observe("seen by both")
                await asyncio.wait([first], timeout=0.05)
            for events in (late, early):
                await events.aclose()
            return [(event.id or 0) - before for event in [*seen, first.result()]]

    early, late = asyncio.run(asyncio.wait_for(watch(), 30))
    assert early == 1
    assert late > 1


def test_space_events_are_streamed_live(url: str) -> None:
    async def watch() -> list[int | None]:
        async with AsyncFolio(url) as folio:
            before = (await folio.observations(limit=1))["as_of"]
            writing = asyncio.gather(*(folio.observe(f"news {n}") for n in range(5)))
            seen: list[int | None] = []
            async for event in folio.events(after=before):
                seen.append(event.id)
                if len(seen) == 5:
                    break
            await writing
            return [id and id - before for id in seen]

    assert asyncio.run(asyncio.wait_for(watch(), 30)) == [1, 2, 3, 4, 5]
