"""Middleware for LangChain's agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from agentmem import AgentMemory, AsyncAgentMemory
from agentmem.adapters.langchain import AgentMemMiddleware
from tests.flows.given import open_memory


class ListeningModel(GenericFakeChatModel):
    """Answers as scripted, and keeps what it was given."""

    heard: list[list[BaseMessage]] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self.heard.append(list(messages))
        return super()._generate(messages, *args, **kwargs)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def ask(text: str) -> Any:
    return {"messages": [HumanMessage(text)]}


def build(memory: AgentMemory | AsyncAgentMemory, *answers: str) -> tuple[Any, ListeningModel]:
    model = ListeningModel(messages=iter([AIMessage(text) for text in answers]))
    middleware = [AgentMemMiddleware(memory)]
    agent = create_agent(model, system_prompt="Be short.", middleware=middleware, checkpointer=InMemorySaver())
    return agent, model


def test_an_agent_knows_what_other_threads_said(home: Path) -> None:
    with open_memory(home) as memory:
        agent, model = build(memory, "Noted.", "You told me: peanuts.", "Yes.")
        agent.invoke(ask("I'm allergic to peanuts."), thread("monday"))
        state = agent.invoke(ask("What am I allergic to?"), thread("friday"))
        assert [message.text for message in state["messages"]] == ["What am I allergic to?", "You told me: peanuts."]
        system, given, question = model.heard[-1]
        assert (system.text, question.text) == ("Be short.", "What am I allergic to?")
        assert isinstance(given, HumanMessage)
        assert "allergic to peanuts" in given.text
        agent.invoke(ask("Sure?"), thread("friday"))
        told = [(turn.role, turn.content) for turn in memory.episodic.get_conversation("friday")]
        assert told == [
            ("user", "What am I allergic to?"),
            ("assistant", "You told me: peanuts."),
            ("user", "Sure?"),
            ("assistant", "Yes."),
        ]


async def test_the_same_with_await_and_a_user_each(home: Path) -> None:
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        agent, _ = build(memory, "Noted.")
        await agent.ainvoke(ask("I'm allergic to peanuts."), thread("monday"))
        other, model = build(memory.scoped(user_id="bob"), "I do not know.")
        await other.ainvoke(ask("What am I allergic to?"), thread("monday"))
        assert "peanuts" not in str(model.heard)
        assert (await memory.remember("peanuts")).turns[0].content == "I'm allergic to peanuts."
