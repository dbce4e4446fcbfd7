"""What `make release` checks, on small wheels that were damaged; `make release` itself asks the real ones."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from packages.check_release import find_problems, main
from packages.minilm.build_wheel import check_weights
from tests.gates.installed import ROOT

METADATA = """Metadata-Version: 2.4
Name: agentmem-graph
Version: 0.1.0
Summary: Memory
Author: Somebody
Keywords: memory
Classifier: Typing :: Typed
Requires-Python: >=3.11
License-Expression: Apache-2.0

About.
"""


def pack(folder: Path, name: str, metadata: str, license_text: str = "Apache License") -> None:
    with zipfile.ZipFile(folder / f"{name}-0.1.0-py3-none-any.whl", "w") as packed:
        packed.writestr(f"{name}-0.1.0.dist-info/METADATA", metadata)
        packed.writestr(f"{name}-0.1.0.dist-info/licenses/LICENSE", license_text)


def test_a_complete_wheel_has_no_problem(tmp_path: Path) -> None:
    pack(tmp_path, "agentmem_graph", METADATA)
    assert find_problems(tmp_path, "agentmem-graph") == []


@pytest.mark.parametrize(
    "old,new,problem",
    [
        ("Summary: Memory\n", "", "no Summary in the metadata"),
        ("Apache-2.0", "MIT", "the license is MIT, not Apache-2.0"),
    ],
)
def test_what_is_wrong_in_the_metadata_is_told(tmp_path: Path, old: str, new: str, problem: str) -> None:
    pack(tmp_path, "agentmem_graph", METADATA.replace(old, new), license_text="")
    told = find_problems(tmp_path, "agentmem-graph")
    assert told == [f"agentmem-graph: {problem}", "agentmem-graph: the text of the license is not packed"]


def test_a_wheel_without_its_model_is_no_release(tmp_path: Path) -> None:
    pack(tmp_path, "agentmem_minilm", METADATA)
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path)])
    for problem in ("one wheel is needed, 0 are there", "tokenizer.json is not as", "no model.onnx", "does not tell"):
        assert problem in str(ended.value)


def test_weights_that_are_not_there_are_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no model\.safetensors.*make wheels WEIGHTS=folder"):
        check_weights(tmp_path)


LIST_IMPORTS = """
import sys
before = set(sys.modules)
import packages.minilm.build_wheel
files = [getattr(sys.modules[name], "__file__", None) or "" for name in set(sys.modules) - before]
inside = [file.split("site-packages/")[1] for file in files if "site-packages/" in file]
print(*{file.split("/")[0].removesuffix(".py") for file in inside})
"""
BROUGHT_ALONG = {"annotated_types", "numpy", "pydantic_core", "typing_extensions", "typing_inspection"}


def test_a_new_environment_has_what_builds_the_model() -> None:
    """`make` builds the model before it installs the dependencies of agentmem."""
    run = subprocess.run([sys.executable, "-c", LIST_IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True)
    (installed,) = re.findall(r"\$\(INSTALL\) ('hatchling.*) && ", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert set(run.stdout.split()) - BROUGHT_ALONG <= set(installed.split())
