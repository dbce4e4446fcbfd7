"""An agent of the OpenAI Agents SDK that keeps its sessions in agentmem and recalls what other sessions said.

Install:  pip install "agentmem-graph[local,openai-agents]"
Run:      python docs/examples/adapters/openai_agents_chat.py gpt-5-mini

Without the name of a model a scripted one answers, so that the program runs without a key. It prints what the model was
given in the second session, and its answer.
"""

# ruff: noqa: T201

from __future__ import annotations

import asyncio
import sys
from typing import Any

from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message

from agentmem import AgentMemory
from agentmem.adapters.openai_agents import AgentMemSession, recall_before_model


async def chat(memory: AgentMemory, model: Any) -> str:
    """Say something in one session, and ask for it in another; returns the answer."""
    agent = Agent(name="Helper", instructions="Answer in one sentence.", model=model)
    config = RunConfig(call_model_input_filter=recall_before_model(memory), tracing_disabled=True)
    await Runner.run(agent, "I'm allergic to peanuts.", session=AgentMemSession("monday", memory), run_config=config)
    friday = AgentMemSession("friday", memory)
    result = await Runner.run(agent, "What am I allergic to?", session=friday, run_config=config)
    return str(result.final_output)


def main(model: str = "") -> None:
    """Run the two sessions with a model of OpenAI, or with a scripted one."""
    replies = [[assistant_message("Noted.")], [assistant_message("You are allergic to peanuts.")]]
    scripted = ScriptedModel(replies)
    with AgentMemory("ann") as memory:
        print(asyncio.run(chat(memory, model or scripted)))
    if not model:
        print(scripted.calls[-1].input)


if __name__ == "__main__":
    main(*sys.argv[1:2])
