"""A LangGraph agent with a scratchbook. It reads it before every answer and writes to it with tools. Its long
conversations are put away instead of growing for ever.

    pip install ./clients/python langgraph langchain langchain-anthropic   # in the repository of Folio
    folio serve &
    python clients/python/examples/langgraph_agent.py --model anthropic:claude-sonnet-5 "Plan the move to the new office"

Start it again with another sentence and the same `--thread`: what it wrote down is there.
"""

import argparse
import sys
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    RemoveMessage,
    SystemMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from folio_client import Folio, FolioError, Scratchbook

VIEW_TOKENS = 800
SYSTEM = "You keep a scratchbook. Write down tasks and decisions with its tools; complete what is done.\n\n"


def scratchbook_tools(book: Scratchbook) -> list[BaseTool]:
    """Tools over one scratchbook. A refusal is an answer that the model can act on."""

    @tool
    def scratch_add(kind: Literal["note", "todo", "task"], title: str, body: str = "") -> str:
        """Writes something down. Answers with its handle."""
        return book.add(kind, title, body=body)["handle"]

    @tool
    def scratch_complete(handle: str) -> str:
        """Says that a todo or task is done, by its handle (e4)."""
        try:
            return book.complete(handle)["status"]
        except FolioError as error:
            return str(error)

    @tool
    def scratch_read() -> str:
        """Reads all that is open."""
        return book.view(limit=4 * VIEW_TOKENS)["view"]

    return [scratch_add, scratch_complete, scratch_read]


def shortened(book: Scratchbook, messages: list[AnyMessage]) -> list[BaseMessage] | None:
    """The conversation with one message in place of its older part, once it fills too much of the window."""
    conversation = book.offload(convert_to_openai_messages(messages), window=32_000)
    return convert_to_messages(conversation["messages"]) if conversation["receipt"]["offloaded"] else None


def agent(folio: Folio, thread: str, model: BaseChatModel) -> CompiledStateGraph[MessagesState, None, Any, Any]:
    """A graph of two nodes: the model, and its tools."""
    book = folio.thread(thread)
    tools = scratchbook_tools(book)
    with_tools = model.bind_tools(tools)

    def think(state: MessagesState) -> dict[str, list[BaseMessage]]:
        kept = shortened(book, state["messages"])
        view = SystemMessage(SYSTEM + book.view(limit=VIEW_TOKENS)["view"])
        reply = with_tools.invoke([view, *(kept or state["messages"])])
        # What was put away leaves the state as well, so that it does not grow for ever. A graph that keeps it there
        # works, too: Folio knows it again.
        replaced = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *kept] if kept else []
        return {"messages": [*replaced, reply]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile()


def main() -> int:
    parser = argparse.ArgumentParser(description="A LangGraph agent with a scratchbook")
    parser.add_argument("text")
    parser.add_argument("--model", required=True, help="as langchain names it, for example anthropic:claude-sonnet-5")
    parser.add_argument("--url", default="http://127.0.0.1:7717")
    parser.add_argument("--thread", default="langgraph")
    asked = parser.parse_args()
    from langchain.chat_models import init_chat_model  # needed here only, with the package of the provider

    try:
        with Folio(asked.url) as folio:
            graph = agent(folio, asked.thread, init_chat_model(asked.model))
            end = graph.invoke({"messages": [{"role": "user", "content": asked.text}]}, {"recursion_limit": 50})
    except FolioError as error:
        print("; ".join([f"langgraph_agent.py: {error}", *error.hints]), file=sys.stderr)
        return 1
    print(end["messages"][-1].text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
