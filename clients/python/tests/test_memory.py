"""Observations, scratchbooks, turns and pages, against a real server."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from folio_client import AsyncFolio, Conflict, Folio, Invalid, NotFound, shapes


def test_observation_is_found_by_tag_context_confidence_type_and_text(folio: Folio) -> None:
    made = folio.observe(
        "Prefers aisle seats",
        type="contextual_insight",
        confidence=0.8,
        tags=["travel"],
        context={"trip": {"city": "Paris"}},
    )
    found = folio.observations(
        tags="travel", context={"trip.city": "Paris"}, min_confidence=0.5, type=["contextual_insight"]
    )
    assert [one["handle"] for one in found["items"]] == [made["handle"]]
    assert found["total"] == 1
    assert folio.observations(tags=["travel", "none"])["items"] == []
    folio.observe("in one tag", tags=["by train, slowly"])
    assert folio.observations(tags=["by train, slowly"])["total"] == 1
    assert folio.observation(made["observation_id"])["content"] == "Prefers aisle seats"
    assert folio.search("AISLE")["items"][0]["handle"] == made["handle"]


def test_observation_expires_as_requested(folio: Folio) -> None:
    assert folio.observe("as its type says")["expires_at"] is not None
    assert folio.observe("for ever", ttl_minutes="never")["expires_at"] is None
    assert folio.observe("not at all", ttl_minutes=0)["state"] == "expired"
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    until = folio.observe("to a day", expires_at=tomorrow, ttl_minutes=525600)
    assert [one["code"] for one in until["warnings"]] == ["ttl_and_expires_at"]
    looked_at = folio.observe("to be looked at", status="pending_review")
    assert folio.observations(status="pending_review")["items"][0]["handle"] == looked_at["handle"]


def test_work_that_several_share_is_claimed_once_and_released(folio: Folio) -> None:
    book = folio.thread("shared")
    task = book.add("task", "Paint the door")["handle"]
    assert book.claim(task, "ada", lease_minutes=60)["owner"] == "ada"
    with pytest.raises(Conflict) as refused:
        book.claim(task, "bob")
    assert refused.value.code == "claimed"
    assert book.claim_next("bob")["claimed"] is None
    mine = book.claim_next("ada", lease_minutes=60)["claimed"]
    assert mine is not None and mine["handle"] == task
    assert book.release(task, "ada")["status"] == "open"
    claimed = book.claim_next("bob")["claimed"]
    assert claimed is not None and claimed["owner"] == "bob"
    book.complete(task)
    with pytest.raises(Conflict) as refused:
        book.claim(task, "ada")
    assert refused.value.code == "not_claimable"


def test_why_names_the_decisions_that_rest_on_an_entry(folio: Folio) -> None:
    alert = folio.observe("The kiln is too hot", type="risk_alert", confidence=0.9)["handle"]
    turn = folio.begin_turn("Save the kiln report", thread="kiln", budget=400)["handle"]
    assert turn in [one["turn"] for one in folio.why(alert)["items"]]
    assert "shown" not in folio.why(alert)
    assert "context" in [one["of"] for one in folio.why(alert, turn=turn)["shown"]]
    folio.end_turn(turn)
    assert turn in [one["handle"] for one in folio.episodes("kiln report", thread="kiln")["items"]]


def test_forget_erases_content_and_turns_record_touched_entries(folio: Folio) -> None:
    turn = folio.begin_turn("Look at the cellar", thread="cellar")["handle"]
    noticed = folio.in_turn(turn).observe("the door is open")
    folio.in_turn(turn).thread("cellar").view(limit=100)
    folio.end_turn(turn)
    assert folio.turn(turn)["input"] == "Look at the cellar"
    assert noticed["handle"] in [one["handle"] for one in folio.turn_export(turn)["touched"]]
    assert folio.receipts(turn)["total"] == 1
    assert folio.calibration()["items"] == []
    page = folio.add_page("House")["handle"]
    inner = folio.add_page("Cellar", parent=page)["handle"]
    assert [one["handle"] for one in folio.children(page)["items"]] == [inner]
    assert folio.forget(entries=[noticed["handle"]], reason="wrong", dry_run=True)["dry_run"]
    assert folio.observation(noticed["handle"])["content"] == "the door is open"
    folio.forget(entries=[noticed["handle"]], reason="wrong")
    assert folio.observation(noticed["handle"])["content"] == ""


def test_tags_may_contain_commas_and_context_values_keep_their_type(folio: Folio) -> None:
    values: list[str | int] = ["7", 7, "true", True, "null", '"', "é, è"]
    for value in values:
        folio.observe(f"{value!r}", tags="one, with a comma", context={"of": {"a": value}})
    assert folio.observations(tags="one, with a comma")["total"] == 7
    for value in values:
        found = folio.observations(context={"of.a": value})["items"]
        assert [one["content"] for one in found] == [f"{value!r}"]
    # Browsers take this name for a step in the path. What earlier versions kept under it is read.
    with pytest.raises(Invalid, match="thread_invalid"):
        folio.thread("..").add("note", "Dots")
    assert folio.thread("..").items()["total"] == 0
    book = folio.thread("../dots")
    item = book.add("note", "Dots", tags="one, with a comma")
    assert [one["handle"] for one in book.items(tags="one, with a comma", kind="note")["items"]] == [item["handle"]]


def test_restored_entry_is_an_observation_or_an_item(folio: Folio) -> None:
    seen = folio.observe("of use after all")["handle"]
    folio.archive_observation(seen)
    restored = folio.restore_observation(seen)
    # All of this passes mypy, too.
    assert (restored["handle"], restored["content"], restored["state"]) == (seen, "of use after all", "live")
    assert {"handle", "status", "tags", "version"} == shapes.WrittenAnyEntry.__required_keys__


def test_each_observation_reads_all_pages(folio: Folio) -> None:
    for number in range(7):
        folio.observe(f"number {number}", tags=["many"])
    all_of_them = [one["content"] for one in folio.each_observation(tags="many", order="oldest", limit=3)]
    assert all_of_them == [f"number {number}" for number in range(7)]


def test_update_with_stale_version_raises_conflict_with_current_entry(folio: Folio) -> None:
    made = folio.observe("first")
    changed = folio.update_observation(made["handle"], version=made["version"], content="second")
    assert changed["version"] == made["version"] + 1
    with pytest.raises(Conflict) as caught:
        folio.update_observation(made["handle"], version=made["version"], content="third")
    assert caught.value.code == "stale_version"
    assert caught.value.current is not None
    assert caught.value.current["content"] == "second"


def test_of_equal_changes_at_one_version_both_succeed_and_of_different_ones_the_first(folio: Folio) -> None:
    def count(by: str | None) -> list[int]:
        """Counts from 0 to 1 twice, both times at version 1."""
        counter = folio.observe("counter", context={"n": 0})["handle"]
        names = [None, None] if by is None else [f"{by}-1", f"{by}-2"]
        contexts = [{"n": 1} if name is None else {"n": 1, "by": name} for name in names]
        return [folio.update_observation(counter, context=context, version=1)["version"] for context in contexts]

    assert count(by=None) == [2, 2], "the second changed nothing"
    with pytest.raises(Conflict) as caught:
        count(by="worker")
    assert caught.value.current is not None
    assert caught.value.current["context"] == {"n": 1, "by": "worker-1"}
    book = folio.thread("shared")
    task = book.add("task", "For one of two")["handle"]
    assert [book.update(task, status="in_progress", version=1)["version"] for _ in range(2)] == [2, 2]


def test_filter_by_any_of_no_values_is_refused(folio: Folio) -> None:
    folio.observe("There is one.")
    with pytest.raises(Invalid, match="`tags_any` is an empty list"):
        folio.observations(tags_any=[])
    with pytest.raises(Invalid, match="`type` is an empty list"):
        folio.observations(type=[])
    with pytest.raises(Invalid, match="`status` is an empty list"):
        folio.observations(status=())
    everything = folio.observations()["total"]
    assert folio.observations(tags=[], tags_none=[])["total"] == everything


def test_errors_carry_code_status_and_details(folio: Folio, url: str) -> None:
    with pytest.raises(NotFound, match="e99999") as missing:
        folio.observation("e99999")
    assert (missing.value.code, missing.value.status) == ("not_found", 404)
    with pytest.raises(Invalid) as wrong:
        folio.start({"steps": [{"id": "A b", "do": {"tool": "none"}}]})
    assert wrong.value.code == "plan_invalid"
    assert len(wrong.value.problem["errors"]) >= 2
    with Folio(url, space="other") as other, pytest.raises(NotFound) as elsewhere:
        other.observations()
    assert elsewhere.value.code == "space_not_served"


def test_observe_with_the_same_key_is_replayed(folio: Folio) -> None:
    first = folio.observe("once", key="k1", tags=["once"])
    second = folio.observe("once", key="k1", tags=["once"])
    assert second["observation_id"] == first["observation_id"]
    assert second.get("replayed") is True
    assert folio.observations(tags="once")["total"] == 1


def test_turns_pages_and_forget_with_the_same_key_run_once(folio: Folio) -> None:
    began = [folio.begin_turn("Again", thread="again", key="t\u00e9") for _ in range(2)]
    assert began[0]["turn_id"] == began[1]["turn_id"]
    for _ in range(2):
        folio.end_turn(began[0]["handle"], key="e")
    pages = [folio.add_page("Again", key="p" * 300) for _ in range(2)]
    assert pages[0]["page_id"] == pages[1]["page_id"]
    folio.observe("no longer", tags="again")
    forgot = [folio.forget(tags=["again"], reason="wrong", key="f") for _ in range(2)]
    assert [len(forgot[0]["forgotten"]), forgot[1].get("replayed")] == [1, True]


def test_turn_that_is_not_clarified_asks_nothing(folio: Folio) -> None:
    assert folio.begin_turn("fix it", thread="chat", clarify=False).get("question") is None
    assert folio.begin_turn("fix it", thread="chat").get("question") is not None


def test_turns_are_paged_with_a_cursor(folio: Folio) -> None:
    for number in range(3):
        folio.begin_turn(f"number {number}", thread="paged", background=True)
    first = folio.turns(thread="paged", limit=2)
    rest = folio.turns(thread="paged", limit=2, cursor=first.get("next"))
    assert [turn["input"] for turn in [*first["items"], *rest["items"]]] == ["number 2", "number 1", "number 0"]


def test_scratchbook_view_fits_its_limit_and_items_can_be_updated(folio: Folio) -> None:
    book = folio.thread("a trip/2026")
    flight = book.add("task", "Book the flight", tags=["urgent"])
    book.add("note", "Aisle", body="prefers aisle seats")
    pinned = book.pin(book.add("todo", "Pack")["handle"])
    assert pinned["pinned"]
    seen = book.view(limit=200)
    assert seen["tokens"] <= 200
    assert seen["view"].index("Pack") < seen["view"].index("Book the flight")
    book.update(flight["handle"], progress=0.5, phase="search", version=flight["version"])
    emptied = book.update(flight["handle"], phase=None, progress=None, tags=None)
    assert (emptied.get("phase"), emptied.get("progress"), emptied["tags"]) == (None, None, [])
    assert book.update(flight["handle"], tags="late")["tags"] == ["late"]
    assert book.complete(flight["handle"])["status"] == "done"
    book.unpin(pinned["handle"])
    left = book.items(status="open")["items"]
    assert [(item["title"], item["pinned"]) for item in left] == [("Pack", False)]
    assert folio.thread("another").items()["items"] == []


def test_offloaded_messages_and_evicted_results_can_be_read_back(folio: Folio) -> None:
    book = folio.thread("talk")
    messages = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"message {n}"} for n in range(20)]
    kept = book.offload(messages, keep=4, force=True)
    assert kept["receipt"]["offloaded"] == 16
    assert len(kept["messages"]) < len(messages)
    assert book.history(3, 4)["messages"][0]["message"]["content"] == "message 2"
    assert [found["number"] for found in book.history(search="MESSAGE 1", last=14)["messages"]] == [2, 11, 12, 13, 14]
    again = book.offload([*messages, {"role": "user", "content": "message 20"}], keep=4, force=True)
    assert again["receipt"]["history"] == {**again["receipt"]["history"], "from": 17, "to": 17}
    large = book.evict("\n".join(f"line {n}" for n in range(5000)), limit=100, tool="list")
    assert large["tokens"] <= 100
    ref = large.get("ref")
    assert ref is not None
    assert folio.blob(ref, lines="10:11").get("text") == "line 9\nline 10\n"
    assert folio.blob(ref, max_bytes=14).get("text") == "line 0\nline 1\n"
    assert book.evict("x " * 5000, limit=100, of="file").get("ref") is None


def test_observation_in_a_turn_records_the_turn_as_source(folio: Folio) -> None:
    turn = folio.begin_turn("Look at the seats", thread="trip", budget=300)
    made = folio.in_turn(turn["handle"]).observe("seen in a turn")
    assert made["source"].get("turn_id") == turn["turn_id"]
    assert folio.context(prompt="seats", thread="trip", budget=400)["tokens"] <= 400
    assert folio.end_turn(turn["handle"]).get("ended_at")
    assert any(line["operation"] for line in folio.trace(turn=turn["handle"])["items"])


def test_ingest_stores_valid_items_and_rejects_invalid_ones(folio: Folio) -> None:
    answer = {"tool_id": "scan", "status": "ok", "observations": [{"content": "one"}, {"content": ""}]}
    taken = folio.ingest(answer, tool="scan", call="c1")
    assert ([one["content"] for one in taken["stored"]], len(taken["rejected"])) == (["one"], 1)


def test_repeated_ingest_in_a_turn_is_replayed(folio: Folio) -> None:
    turn = folio.in_turn(folio.begin_turn("Scan", thread="scan")["handle"])
    answer = {"tool_id": "scan", "request_id": "q1", "status": "ok", "observations": [{"content": "delivered"}]}
    assert [turn.ingest(answer).get("replayed", 0) for _ in range(2)] == [0, 1]


def test_page_returns_its_entries_and_markdown(folio: Folio) -> None:
    page = folio.add_page("Notes of the house")
    folio.append(page["handle"], "The first line", title="One")
    assert [entry["body"] for entry in folio.entries(page["handle"])["items"]] == ["The first line"]
    assert "# Notes of the house" in folio.page_markdown(page["handle"])


def test_importing_an_export_again_adds_no_entries(folio: Folio) -> None:
    folio.observe("kept")
    received = folio.import_(folio.export())
    assert (received["entries"], received["refused"]) == (0, 0)
    assert received["present"] > 0
    received = folio.import_(folio.export().replace(b'"kept"', b'"changed"'), merge=True)
    assert (received["entries"], received["refused"]) == (0, 0)
    assert folio.search("changed")["total"] == 1
    assert folio.import_(folio.export(), distrust=True, dry_run=True)["refused"] == 0


def test_async_client_runs_requests_concurrently(url: str) -> None:
    async def many() -> tuple[int, str]:
        async with AsyncFolio(url) as folio:
            await asyncio.gather(*(folio.observe(f"at once {n}", tags=["at-once"]) for n in range(20)))
            seen = [one async for one in folio.each_observation(tags="at-once", limit=6)]
            book = folio.thread("async")
            item = await book.add("todo", "Call back")
            await book.complete(item["handle"])
            return len({one["handle"] for one in seen}), (await book.item(item["handle"]))["status"]

    assert asyncio.run(many()) == (20, "done")


def test_policy_is_read_and_changed_by_key_and_as_a_whole(folio: Folio) -> None:
    before = folio.policy()
    assert before["in_force"]["strict_types"] == "tools"
    keys = {"types.tide.class": "alert", "retention.purge_after_minutes": None}
    changed = folio.change_policy(keys, reason="keep all of it", version=before["version"])
    assert changed["in_force"]["retention"]["purge_after_minutes"] is None
    with pytest.raises(Conflict) as stale:
        folio.change_policy({"redaction": "pii"}, version=before["version"])
    assert stale.value.code == "stale_policy"
    with pytest.raises(Invalid) as refused:
        folio.set_policy({"strict_types": "perhaps", "quotas": {}})
    assert "strict_types" in refused.value.detail and "quotas" in refused.value.detail
    left = folio.change_policy(unset=["types.tide", "retention.purge_after_minutes"])
    assert left["policy"] == before["policy"]
    once = [folio.set_policy({"strict_types": "nobody"}, key="once").get("replayed", False) for _ in range(2)]
    assert once == [False, True]
    assert folio.set_policy(before["policy"])["policy"] == before["policy"]
