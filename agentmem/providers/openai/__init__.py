"""OpenAI, and servers that speak its protocol, through its own SDK.

User text leaves the machine, so this vendor is used only when it is named.
"""

from agentmem.providers.openai.chat import llm
from agentmem.providers.openai.embeddings import MAX_REQUEST_TEXTS, MAX_TEXT_TOKENS, embedder

__all__ = ["MAX_REQUEST_TEXTS", "MAX_TEXT_TOKENS", "embedder", "llm"]
