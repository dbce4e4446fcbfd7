"""`python -m packages.check_release dist`: what a publisher must know of the wheels and `twine check` does not ask."""

from __future__ import annotations

import argparse
import hashlib
import re
import zipfile
from email import message_from_bytes
from pathlib import Path

from packages.minilm.build_wheel import CHECKSUMS, WEIGHTS

NAMES = ("agentmem-graph", "agentmem-minilm")
LICENSE = "Apache-2.0"
FIELDS = ("Version", "Summary", "Author", "Requires-Python", "Keywords", "Classifier")


def main(arguments: list[str] | None = None) -> None:
    """Print what was checked; end with 1 and the problems when there are any."""
    parser = argparse.ArgumentParser(prog="check_release", description="Check the wheels of a folder.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    problems = [problem for name in NAMES for problem in find_problems(folder, name)]
    if problems:
        raise SystemExit("\n".join(problems))
    print("Metadata, licenses and the model files are as they must be.")


def find_problems(folder: Path, name: str) -> list[str]:
    """What is wrong with the wheel of this distribution; one line each."""
    found = list(folder.glob(f"{name.replace('-', '_')}-*.whl"))
    if len(found) != 1:
        return [f"{name}: one wheel is needed, {len(found)} are there"]
    with zipfile.ZipFile(found[0]) as packed:
        files = {path: packed.read(path) for path in packed.namelist()}
    (about,) = (path for path in files if path.endswith(".dist-info/METADATA"))
    metadata = message_from_bytes(files[about])
    problems = [f"{name}: no {field} in the metadata" for field in FIELDS if not metadata[field]]
    if metadata["License-Expression"] != LICENSE:
        problems.append(f"{name}: the license is {metadata['License-Expression']}, not {LICENSE}")
    if b"Apache License" not in files.get(about.replace("METADATA", "licenses/LICENSE"), b""):
        problems.append(f"{name}: the text of the license is not packed")
    if name == "agentmem-minilm":
        problems += _find_model_problems(files, str(metadata.get_payload()))
    return problems


def _find_model_problems(files: dict[str, bytes], readme: str) -> list[str]:
    folder = "agentmem_minilm/model/"
    problems = [
        f"agentmem-minilm: {path} is not as it was published"
        for path, published in CHECKSUMS.items()
        if path != WEIGHTS and hashlib.sha256(files.get(folder + path, b"")).hexdigest() != published
    ]
    if folder + "model.onnx" not in files:
        problems.append("agentmem-minilm: there is no model.onnx")
    # The license of the model asks for its origin, its license and the changes.
    if not re.search(r"all-MiniLM-L6-v2.*Apache\s+License\s+2\.0.*changes", readme, re.DOTALL):
        problems.append("agentmem-minilm: its README does not tell the model's origin, license and changes")
    return problems


if __name__ == "__main__":
    main()
