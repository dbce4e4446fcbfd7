"""How a spec becomes a language model: vendors are files of one folder, found by name."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmem.errors import ConfigError
from agentmem.models import providers
from agentmem.models.protocols import LLMOptions, LLMReply, LLMRequest
from agentmem.models.registry import list_vendors, open_llm
from agentmem.models.retry import call_sdk
from agentmem.text.tokenizer import estimate_tokens

NEW_VENDOR = '''
"""A vendor that somebody adds: it says what it was asked."""
from agentmem.models.protocols import LLMReply

class Echo:
    def __init__(self, model):
        self.identity = f"acme:{model}"
    async def complete(self, request):
        return LLMReply(request.content, 1, 0, 1, self.identity)
    async def close(self):
        pass

def llm(model, options):
    return Echo(model or "echo")
'''
OPTIONS = LLMOptions(api_key="sk-very-secret")


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One new file in a folder that also holds providers, and nothing else touched."""
    (tmp_path / "acme.py").write_text(NEW_VENDOR)
    monkeypatch.setattr(providers, "__path__", [*providers.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    yield
    sys.modules.pop("agentmem.models.providers.acme", None)
    vars(providers).pop("acme", None)


@pytest.mark.usefixtures("acme")
async def test_a_vendor_is_added_by_adding_a_file() -> None:
    llm = open_llm("acme:some/model:16", OPTIONS)
    assert llm is not None
    assert llm.identity == "acme:some/model:16"
    assert (await llm.complete(LLMRequest("test", "", "hello"))).text == "hello"
    assert "acme" in list_vendors("llm")
    assert "acme" not in list_vendors("embedder")


@pytest.mark.parametrize("spec", ["", "none", " none "])
def test_none_is_no_model(spec: str) -> None:
    assert open_llm(spec, OPTIONS) is None


@pytest.mark.parametrize(
    "spec", ["acme:model", "auto", "hash:v1", "none:x", ":model", "os", "openai.chat:x", "asking:x", "services", "a b"]
)
def test_an_unknown_vendor_is_refused_with_those_there_are(spec: str) -> None:
    with pytest.raises(
        ConfigError,
        match=r"known are none, anthropic, command, llamacpp, .*vllm; write it as in",
    ):
        open_llm(spec, OPTIONS)


def test_only_vendors_count_as_vendors() -> None:
    assert list_vendors("llm") == ["anthropic", "command", "llamacpp", "lmstudio", "ollama", "openai", "vllm"]


@pytest.mark.parametrize(
    "spec, identity",
    [
        ("anthropic", "anthropic:claude-haiku-4-5"),
        ("anthropic/claude-sonnet-5-5", "anthropic:claude-sonnet-5-5"),
        ("openai", "openai:gpt-6-luna"),
        ("openai: llama3:8", "openai:llama3:8"),
        ("openai:qwen/qwen3:4", "openai:qwen/qwen3:4"),
        ("ollama:llama3.1:8b", "ollama:llama3.1:8b"),
        ("command:/bin/sh --port 80:80 :7", "command:sh"),
        ("command:/bin/no-such-program --port 80:80 :7", "command"),
    ],
)
async def test_a_model_keeps_its_whole_name(spec: str, identity: str) -> None:
    llm = open_llm(spec, OPTIONS)
    assert llm is not None
    assert llm.identity == identity
    assert "80:80" not in repr(llm)
    assert "sk-very-secret" not in repr(llm) + repr(OPTIONS)
    await llm.close()


def test_prompts_and_replies_are_not_printed() -> None:
    shown = repr(LLMRequest("test", "fixed-part", "variable-part", {"secret-field": {}}))
    shown += repr(LLMReply("reply-text", 1, 0, 1, "m"))
    assert [word for word in ("part", "reply-text", "secret-field") if word in shown] == []


def test_an_sdk_of_another_version_is_named() -> None:
    async def create(*, model: str) -> str:
        return model

    with pytest.raises(ConfigError, match=r"another version.*temperature"):
        call_sdk(create, {"model": "m", "temperature": 0.0})


@pytest.mark.parametrize("text, tokens", [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2)])
def test_tokens_are_estimated_by_length(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_the_registry_loads_no_sdk() -> None:
    code = "import sys\nfrom agentmem.models.registry import list_vendors\nlist_vendors('llm')\n"
    code += "print([name for name in ('openai', 'anthropic') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
