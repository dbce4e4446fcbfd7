"""An agent of Google's ADK that knows in a new session what it was told in an earlier one.

Install:  pip install "agentmem-graph[adk,local]"
Run:      python docs/examples/adapters/adk_memory.py [USER]

The model is a class below that answers from what memory found; put the name of your own in its place, such as
`model="gemini-2.5-flash"`. Memory is one file in the folder AGENTMEM_HOME (~/.agentmem).
"""

# ruff: noqa: T201

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai import types

from agentmem import AgentMemory
from agentmem.adapters.adk import AgentMemMemoryService

APP = "travel"
SAID = ("I am allergic to peanuts.", "What can I not eat?")


class ScriptedModel(BaseLlm):
    """Repeats what the user said earlier, as memory gives it; asks no service."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer once."""
        texts = [part.text or "" for content in llm_request.contents for part in content.parts or []]
        lines = [line for text in texts if "<PAST_CONVERSATIONS>" in text for line in text.splitlines()]
        said = [line.removeprefix("user: ") for line in lines if line.startswith("user: ")]
        reply = "You said: " + " ".join(said) if said else "I know nothing of you yet."
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=reply)]))


async def talk(memory: AgentMemory, user_id: str) -> None:
    """Say each thing in a session of its own, print the answer, and keep the session."""
    agent = LlmAgent(name="guide", model=ScriptedModel(model="scripted"), tools=[PreloadMemoryTool()])
    sessions, service = InMemorySessionService(), AgentMemMemoryService(memory)
    runner = Runner(agent=agent, app_name=APP, session_service=sessions, memory_service=service)
    for text in SAID:
        session = await sessions.create_session(app_name=APP, user_id=user_id)
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for event in runner.run_async(user_id=user_id, session_id=session.id, new_message=message):
            for part in (event.content.parts or []) if event.content else []:
                print(f"{user_id}> {text}\n{part.text}")
        kept = await sessions.get_session(app_name=APP, user_id=user_id, session_id=session.id)
        if kept is not None:
            await service.add_session_to_memory(kept)


def main(arguments: Sequence[str] = ()) -> None:
    """Talk as the user named by the first argument (alice)."""
    user_id = arguments[0] if arguments else "alice"
    with AgentMemory(user_id) as memory:
        asyncio.run(talk(memory, user_id))


if __name__ == "__main__":
    main(sys.argv[1:])
