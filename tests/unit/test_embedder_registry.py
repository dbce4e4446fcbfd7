"""How a spec becomes an embedder: vendors are files of one folder, found by name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from agentmem.errors import ConfigError
from agentmem.models import providers
from agentmem.models.protocols import EmbedderOptions
from agentmem.models.registry import list_vendors, open_embedder, resolve_auto
from tests.fakes.sentence_models import HIDDEN, write_lookup

NEW_VENDOR = '''
"""A vendor that somebody adds: every text points the same way."""
import numpy as np

class Constant:
    def __init__(self, model, options):
        self.dimensions = options.dimensions or 4
        self.identity = f"acme:{model}:{self.dimensions}"
        self.grains = ("whole",)
    async def embed(self, texts):
        return np.full((len(texts), self.dimensions), self.dimensions ** -0.5, np.float32)
    async def close(self):
        pass

def embedder(model, options):
    return Constant(model, options)
'''


@pytest.fixture
def options(tmp_path: Path) -> EmbedderOptions:
    return EmbedderOptions(models_dir=tmp_path / "models")


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
async def test_a_vendor_is_added_by_adding_a_file(options: EmbedderOptions) -> None:
    embedder = open_embedder("acme:some/model:16", options)
    assert embedder.identity == "acme:some/model:16"
    np.testing.assert_array_equal(await embedder.embed(["a"]), np.full((1, 16), 0.25, np.float32))
    assert open_embedder(embedder.identity, options).identity == embedder.identity
    assert "acme" in list_vendors()


@pytest.mark.parametrize(
    "spec", ["acme:model", "", ":model", "/model", "os", "local.hash:x", "attempts:x", "../hash", "a b"]
)
def test_an_unknown_vendor_is_refused_with_those_there_are(spec: str, options: EmbedderOptions) -> None:
    with pytest.raises(ConfigError, match="known are auto, hash, local, openai"):
        open_embedder(spec, options)


def test_only_vendors_count_as_vendors() -> None:
    assert list_vendors() == ["hash", "local", "openai"]


def test_auto_is_lexical_without_weights(options: EmbedderOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentmem.models.onnx.MODEL_WHEELS", {})
    monkeypatch.setenv("OPENAI_API_KEY", "sk-there-but-not-asked-for")
    assert resolve_auto(options) == "hash:v1"
    assert open_embedder("auto", options).identity == "hash:v1:512"


def test_auto_takes_weights_under_models(options: EmbedderOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentmem.models.onnx.MODEL_WHEELS", {})
    write_lookup(options.models_dir / "all-MiniLM-L6-v2")
    assert resolve_auto(options) == "local:all-MiniLM-L6-v2"
    assert open_embedder("auto", options).identity == f"local:all-MiniLM-L6-v2:{HIDDEN}"


@pytest.mark.parametrize(
    "missing, chosen",
    [("onnxruntime", "hash:v1"), ("tokenizers", "hash:v1"), ("onnx", "local:all-MiniLM-L6-v2")],
)
def test_auto_needs_the_libraries_too(
    options: EmbedderOptions, monkeypatch: pytest.MonkeyPatch, missing: str, chosen: str
) -> None:
    write_lookup(options.models_dir / "all-MiniLM-L6-v2")
    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if name == missing else real(name, *rest))
    assert resolve_auto(options) == chosen


def test_auto_takes_no_model(options: EmbedderOptions) -> None:
    with pytest.raises(ConfigError, match="auto"):
        open_embedder("auto:all-MiniLM-L6-v2", options)


def test_dimensions_in_the_spec_and_in_the_options_must_agree(tmp_path: Path) -> None:
    options = EmbedderOptions(models_dir=tmp_path, dimensions=64)
    assert open_embedder("hash:v1:64", options).identity == "hash:v1:64"
    with pytest.raises(ConfigError, match="512"):
        open_embedder("hash:v1:512", options)
