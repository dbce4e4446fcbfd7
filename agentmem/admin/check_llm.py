"""Whether the language models of the settings answer, and how: one tiny reading with a known answer."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from agentmem.core.clock import Clock, Stopwatch
from agentmem.errors import AgentMemError, ConfigError, InvalidModelOutput
from agentmem.models.protocols import LLMRequest
from agentmem.models.registry import PURPOSE_SETTINGS, LLMRegistry
from agentmem.models.structured_llm import Budget
from agentmem.settings.settings import Settings
from agentmem.stores.admin import Finding

_SLOW_TOKENS_PER_SECOND = 5.0  # below which a window of turns takes minutes
_SYSTEM = "Read what the user says. Answer with one JSON object."
_CONTENT = 'The user says: "My sister Ines lives in Porto." Who lives where?'


class _Home(BaseModel):
    person: str
    city: str


async def check_llms(settings: Settings, clock: Clock) -> list[Finding]:
    """A finding for each model that the settings name; nothing is asked when they name none."""
    llms = LLMRegistry(settings)
    purposes = {llms.spec(purpose): purpose for purpose in PURPOSE_SETTINGS}
    try:
        return [
            await _check_llm(llms, purpose, settings, clock)
            for spec, purpose in sorted(purposes.items())
            if spec.strip() not in ("", "none")
        ]
    finally:
        await llms.close()


async def _check_llm(llms: LLMRegistry, purpose: str, settings: Settings, clock: Clock) -> Finding:
    name, budget, watch = llms.model_name(purpose), Budget(), Stopwatch(clock)
    try:
        asker = llms.for_purpose(purpose, budget)
        assert asker is not None
        async with asyncio.timeout(settings.llm_timeout):
            read = await asker.ask(LLMRequest("doctor", _SYSTEM, _CONTENT, max_tokens=200), _Home)
    except TimeoutError:
        fix = "give it a smaller model or more time: setting llm_timeout"
        return Finding("error", "llm", f"{name} did not answer within {settings.llm_timeout:g} s", fix)
    except ConfigError as error:
        fix = "check llm, llm_base_url and the key; the server must have loaded or pulled this model"
        return Finding("error", "llm", str(error), fix)  # what was given may be a command line with a key
    except InvalidModelOutput as error:
        fix = "it cannot give JSON; use an instruction-tuned model, or: agentmem consolidate --llm none"
        return Finding("error", "llm", f"{name}: {error}", fix)
    except AgentMemError as error:
        fix = "start its server, or check llm_base_url; turns wait until it answers"
        return Finding("error", "llm", f"{name}: {error}", fix)
    seconds = max(watch.milliseconds() / 1000, 0.001)
    rate, used = budget.total.output_tokens / seconds, budget.total
    told = (
        f"{name} read a sentence in {seconds:.1f} s ({rate:.0f} tokens/s, {used.calls} request{'s'[: used.calls > 1]})"
    )
    if how := llms.describe_endpoint(purpose):
        told += f", {how}"
    if "ines" not in read.person.lower() or "porto" not in read.city.lower():
        return Finding("warning", "llm", f"{told}, but wrongly", "take a larger model: this one would misread turns")
    if rate < _SLOW_TOKENS_PER_SECOND:
        return Finding(
            "warning", "llm", told, f"raise llm_timeout ({settings.llm_timeout:g} s), or take a smaller model"
        )
    return Finding("ok", "llm", told)
