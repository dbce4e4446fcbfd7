"""Two agents of one project: what one learns the other recalls; what is private to an agent stays private.

Install:  pip install "agentmem-graph[local]"
Run:      python docs/examples/two_agents.py

A planner and a coder work for the same user in the channel of the project `apollo`. Both read the project's channel,
the announcements in `_swarm`, and `_global`. Each also has a private channel, `_self_<agent_id>`, which no other agent
reads; nor does an agent of another project read `apollo`. The program prints what each agent recalls for one question.
No model is needed. Memory is one file in the folder AGENTMEM_HOME (~/.agentmem).
"""

# ruff: noqa: T201

from __future__ import annotations

from datetime import timedelta

from agentmem import AgentMemory

PROJECT = "apollo"
QUESTION = "What do I have to know about the launch?"


def main() -> None:
    """Let the planner write to three channels, and ask the planner, the coder and an outsider."""
    with AgentMemory("alice") as memory:
        planner = memory.scoped(channel=PROJECT, agent_id="planner")
        coder = memory.scoped(channel=PROJECT, agent_id="coder")
        writer = memory.scoped(channel="website", agent_id="writer")
        share_knowledge(planner)
        print_claims("planner of apollo", planner)
        print_claims("coder of apollo", coder)
        print_claims("writer of website", writer)


def share_knowledge(planner: AgentMemory) -> None:
    """Write one fact for the project, one for the agent alone, and one for all agents of the user."""
    planner.learn_fact("The launch of Apollo is on June 3", source="planner")
    private = planner.scoped(channel="_self_planner")
    private.learn_fact("I doubt the date of the launch and will ask again on Monday", source="planner")
    planner.announce("The servers are read-only during the launch", expires_in=timedelta(hours=12))


def print_claims(name: str, agent: AgentMemory) -> None:
    """Print the facts that an agent recalls for the question, each with the channel it is from."""
    print(f"{name} recalls:")
    for fact in sorted(agent.remember(QUESTION).facts, key=lambda fact: fact.channel):
        print(f"  {fact.channel:14} {fact.claim}")


if __name__ == "__main__":
    main()
