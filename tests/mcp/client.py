"""The official Python client with `folio mcp` and `folio serve`: both generations of the protocol, both transports.

client.py stdio FOLIO MODE    client.py http URL MODE        MODE: legacy, auto, 2026-07-28
"""

import asyncio
import os
import sys
import tempfile

import mcp_types as types
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

transport, where, mode = sys.argv[1:4]
VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}
# All conversations over HTTP share one space.
THREAD = f"python-{transport}-{mode}"
VIEW = f"folio://view/{THREAD}"


def server(store):
    if transport == "http":
        return where
    arguments = ["--store", f"sqlite:{store}/f.db", "mcp", "--tools", "observe,memory,plan,run"]
    model = {"FOLIO_MODEL": os.environ["FOLIO_MODEL"]}
    return stdio_client(StdioServerParameters(command=where, args=arguments, env=model))


def text(result):
    assert not result.is_error, result
    return result.content[0].text


async def main(store):
    updated = asyncio.Queue()

    async def heard(message):
        if isinstance(message, types.ResourceUpdatedNotification):
            await updated.put(message.params.uri)

    forms = []

    async def person(context, form):
        forms.append(form.message)
        return types.ElicitResult(action="accept", content={"answer": "blue"})

    async with Client(server(store), mode=mode, message_handler=heard, elicitation_callback=person) as client:
        assert client.protocol_version == VERSIONS[mode], client.protocol_version
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools[:2] == ["scratch_read", "scratch_add"] and "run_start" in tools, tools

        call = lambda name, **arguments: client.call_tool(name, arguments | {"thread": THREAD})
        added = await call("scratch_add", kind="todo", title="From Python")
        handle = added.structured_content["handle"]
        assert text(added) == f"{handle} [todo/open] From Python", added
        assert handle in text(await call("scratch_read"))
        refused = await call("scratch_pin", id="e99999")
        assert refused.is_error and refused.content[0].text.startswith("not_found: "), refused
        assert refused.structured_content["code"] == "not_found"

        uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
        assert any(uri.startswith("folio://view/") for uri in uris), uris
        assert len((await client.list_resource_templates()).resource_templates) == 3
        read = (await client.read_resource(VIEW)).contents[0]
        assert handle in read.text and read.mime_type == "text/markdown"

        async def change():
            await call("scratch_complete", id=handle)

        if mode == "legacy":
            await client.subscribe_resource(VIEW)
            await change()
            assert await asyncio.wait_for(updated.get(), 10) == VIEW
            await client.unsubscribe_resource(VIEW)
        else:
            async with client.listen(resource_subscriptions=[VIEW]) as subscription:
                events = aiter(subscription)
                # The first says that what was read before may be old.
                for act in (None, change):
                    if act:
                        await act()
                    event = await asyncio.wait_for(anext(events), 10)
                    assert str(event.uri) == VIEW, event

        task = (await call("plan_delegate", title="Paint")).structured_content["handle"]
        assert text(await call("plan_claim", id=task)).startswith(f"{task} [task/in_progress] Paint @"), task
        assert "kept as" in text(await call("plan_report", id=task, status="done", result="It is blue."))

        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert prompts == ["resume", "handover"], prompts
        made = await client.get_prompt("handover", {"thread": THREAD})
        assert "From Python" in made.messages[0].content.text
        typed = types.PromptReference(name="resume", type="ref/prompt")
        typed = await client.complete(typed, {"name": "thread", "value": THREAD[:8]})
        assert THREAD in typed.completion.values, typed

        painted = await call("run_start", goal="Paint the door")
        assert "[ok]" in text(painted) and "painted blue" in text(painted), painted
        assert len(forms) == 1 and forms[0].endswith("asks: Which colour?"), forms

        heard_of = []

        async def progress(done, total, message):
            heard_of.append((done, total, message))

        step = lambda n: {"id": f"s{n}", "do": {"tool": "text", "args": {"op": "echo", "value": n}}}
        plan = {"title": "Three", "steps": [step(n) for n in (1, 2, 3)]}
        arguments = {"plan": plan, "thread": THREAD}
        done = await client.call_tool("run_start", arguments, progress_callback=progress)
        assert "[ok] Three: 3 of 3 done" in text(done), done
        assert heard_of and heard_of[-1][1] == 3, heard_of
        run = done.structured_content["handle"]
        assert "- [ok] " in (await client.read_resource(f"folio://run/{run}")).contents[0].text


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
print(f"python, {transport}, {mode}: ok")
