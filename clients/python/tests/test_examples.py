"""The examples, against a real server."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from folio_client import Folio


def test_plain_agent_example_resumes_where_it_stopped(url: str, folio: Folio, examples: Path, tmp_path: Path) -> None:
    # Names that no header can carry unchanged, and one that no key can.
    names = ["a.py", "\u00e9t\u00e9.py", "m2.py", f"{'z' * 250}.py"]
    for name in names:
        (tmp_path / name).write_text("x = 1\n" + "y" * (130 if name == "m2.py" else 1) + "\n")

    def start(steps: int) -> str:
        command = [sys.executable, str(examples / "plain_agent.py"), "--url", url, "--folder", str(tmp_path)]
        return subprocess.run([*command, "--steps", str(steps)], check=True, capture_output=True, text=True).stderr

    assert start(3) == "2 tasks left\n"
    assert start(1) == "1 tasks left\n"
    assert start(9) == "0 tasks left\n"
    tasks = folio.thread("review").items(kind="task")["items"]
    assert {(task["title"], task["status"]) for task in tasks} == {(f"Review {name}", "done") for name in names}
    found = folio.observations(tags="review")["items"]
    assert [one["content"] for one in found] == ["m2.py has 1 lines of more than 120 characters"]


def says_what_to_do(told: str, name: str) -> None:
    """Checks that an example without a server says in one line what to do."""
    assert told.startswith(f"{name}: unreachable: no server answers at http://127.0.0.1:1: ")
    assert "start a server with `folio serve`" in told
    assert told.count("\n") == 1


def test_plain_agent_example_without_a_server_says_what_to_do(examples: Path) -> None:
    command = [sys.executable, str(examples / "plain_agent.py"), "--url", "http://127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    says_what_to_do(done.stderr, "plain_agent.py")


def test_langgraph_agent_example_without_a_server_says_what_to_do(
    examples: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("langgraph")
    import langgraph_agent
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel

    class Toolless(FakeMessagesListChatModel):
        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

    # The package with this module is that of a user who has a model.
    chat_models = ModuleType("langchain.chat_models")
    chat_models.init_chat_model = lambda _: Toolless(responses=[])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langchain", ModuleType("langchain"))
    monkeypatch.setitem(sys.modules, "langchain.chat_models", chat_models)
    monkeypatch.setattr(sys, "argv", ["langgraph_agent.py", "--model", "x:y", "--url", "http://127.0.0.1:1", "Go on"])
    assert langgraph_agent.main() == 1
    says_what_to_do(capsys.readouterr().err, "langgraph_agent.py")


def test_langgraph_agent_example_remembers_its_scratchbook(folio: Folio, examples: Path) -> None:
    pytest.importorskip("langgraph")
    import langgraph_agent
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.outputs import ChatResult

    read: list[str] = []

    class Scripted(FakeMessagesListChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            assert [one.name for one in tools] == ["scratch_add", "scratch_complete", "scratch_read"]
            return self

        def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
            read.append(messages[0].text)
            return super()._generate(messages, *args, **kwargs)

    def calls(name: str, **args: Any) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"c{len(read)}{name}"}])

    def says(thread: str, *replies: AIMessage) -> str:
        model = Scripted(responses=list(replies))
        graph = langgraph_agent.agent(folio, thread, model)
        return str(graph.invoke({"messages": [("user", "Go on")]})["messages"][-1].text)

    added = calls("scratch_add", kind="task", title="Measure the office")
    assert says("move", added, AIMessage("Noted.")) == "Noted."
    assert "Measure the office" not in read[0]
    assert "Measure the office" in read[1]
    handle = folio.thread("move").items()["items"][0]["handle"]
    wrong = calls("scratch_complete", handle="e99999")
    assert says("move", wrong, calls("scratch_complete", handle=handle), AIMessage("Done.")) == "Done."
    assert "Measure the office" in read[2], "what an earlier conversation wrote down"
    assert folio.thread("move").item(handle)["status"] == "done"


@pytest.mark.parametrize("keeps_all", [False, True])
def test_langgraph_agent_example_stores_each_message_once(folio: Folio, examples: Path, keeps_all: bool) -> None:
    pytest.importorskip("langgraph")
    import langgraph_agent
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage

    class Toolless(FakeMessagesListChatModel):
        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

    turns = 40
    model = Toolless(responses=[AIMessage(f"answer {turn} " + "dolor sit amet " * 300) for turn in range(turns)])
    thread = f"long {keeps_all}"
    graph = langgraph_agent.agent(folio, thread, model)
    state: list[Any] = []
    for turn in range(turns):
        asked = {"role": "user", "content": f"question {turn} " + "lorem ipsum dolor " * 150}
        end = graph.invoke({"messages": [*state, asked]})["messages"]
        state = [*state, asked, end[-1]] if keeps_all else end
    history = folio.thread(thread).history()
    texts = [message["message"]["content"].split(" ")[:2] for message in history["messages"]]
    wanted = [[name, str(turn)] for turn in range(turns) for name in ("question", "answer")]
    assert 40 < history["total"] == len(texts)
    assert texts == wanted[: len(texts)]
    if not keeps_all:
        assert len(state) == 1 + 2 * turns - len(texts)
        assert f"[Messages 1 to {len(texts)} of this conversation" in state[0].text
