"""An agent on another machine, for the tests: the official SDK of Agent2Agent, with an executor that mends clocks.

    agent.py FOLDER

Prints its address. In FOLDER it records its tasks (`begun`), the answers to its questions (`answered`) and what it is
told to stop (`stopped`). Tasks that say SLOWLY wait for a file `go`. Requests without the token are refused.
"""

import asyncio
import json
import pathlib
import socket
import sys

import uvicorn
from a2a.helpers import new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Task, TaskState, TaskStatus
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import Response

FOLDER = pathlib.Path(sys.argv[1])
TOKEN = "Bearer the-token"


def note(name, line):
    with open(FOLDER / name, "a", encoding="utf-8") as file:
        file.write(line + "\n")


class Mender(AgentExecutor):
    async def execute(self, context, event_queue):
        told = context.get_user_input()
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if context.current_task is not None:
            note("answered", told)
            answer = {"status": "ok", "notes": f"It ticks again: {told}."}
            await updater.add_artifact([new_text_part(json.dumps(answer))], name="answer")
            await updater.complete()
            return
        what = next((word for word in ("SLOWLY", "ASK", "BREAK") if word in told), "QUICKLY")
        note("begun", what)
        await event_queue.enqueue_event(
            Task(
                id=context.task_id,
                context_id=context.context_id,
                status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
                history=[context.message],
            )
        )
        await updater.start_work()
        if what == "ASK":
            await updater.requires_input(updater.new_agent_message([new_text_part("Which clock?")]))
            return
        if what == "BREAK":
            await updater.failed(updater.new_agent_message([new_text_part("the spring is broken")]))
            return
        while what == "SLOWLY" and not (FOLDER / "go").exists():
            await asyncio.sleep(0.05)
        answer = {"status": "ok", "notes": f"It ticks again, mended {what}."}
        await updater.add_artifact([new_text_part("Done.\n" + json.dumps(answer))], name="answer")
        await updater.complete()

    async def cancel(self, context, event_queue):
        note("stopped", "yes")
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


class Door(BaseHTTPMiddleware):
    async def dispatch(self, request, call_next):
        if request.headers.get("authorization") != TOKEN:
            return Response(status_code=401)
        return await call_next(request)


def main():
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    card = AgentCard(
        name="mender",
        description="mends clocks",
        version="1.0.0",
        supported_interfaces=[AgentInterface(url=f"{url}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=False),
        skills=[AgentSkill(id="mend", name="mend", description="mends clocks", tags=["clocks"])],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
    )
    handler = DefaultRequestHandler(agent_executor=Mender(), task_store=InMemoryTaskStore(), agent_card=card)
    routes = create_agent_card_routes(card) + create_jsonrpc_routes(handler, "/rpc")
    app = Starlette(routes=routes, middleware=[Middleware(Door)])
    print(url, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


main()
