#!/usr/bin/env python3
"""Writes the golden folder of torch_checkpointing 0.1.1, with torch 2.13.0: make_torch_checkpointing.py. Four processes save (gloo).

saved/: the folder
listed/: a folder in which each rank lists its parts (default_tensor_v1)
version_1/: its metadata in version 1.0, and one of its items
torch_checkpointing.json: the tensors of saved/, as (name, dtype, shape, bytes in hex). other_metadata.json: those of the other two.
Also seeds fuzz/corpus/torch_checkpointing.
"""

import json
import os
import pathlib
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile

import torch

FOLDER = pathlib.Path(__file__).resolve().parent
TESTS = FOLDER.parents[2]
sys.path.insert(0, str(TESTS / "interop/pytorch"))
CORPUS = TESTS.parent / "fuzz/corpus/torch_checkpointing"
WORLD = 4

from checkpointing_versions import version_1  # noqa: E402


def row(name, tensor):
    return {"name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape),
            "hex": tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes().hex()}


def main():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    for name in ("saved", "listed", "version_1"):
        shutil.rmtree(FOLDER / name, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        script = TESTS / "interop/pytorch/torch_checkpointing_saves.py"
        ranks = [subprocess.Popen([sys.executable, script, scratch], env={**os.environ, **common, "RANK": str(r), "LOCAL_RANK": str(r)})
                 for r in range(WORLD)]
        if any(rank.wait() for rank in ranks):
            raise SystemExit("a process failed")
        shutil.copytree(f"{scratch}/first", FOLDER / "saved")
        shutil.copytree(f"{scratch}/listed", FOLDER / "listed")
        whole = torch.load(f"{scratch}/whole.pt")
        whole_listed = torch.load(f"{scratch}/whole_listed.pt")
    (FOLDER / "version_1").mkdir()
    for rank in range(WORLD):
        shutil.copy(FOLDER / f"saved/model_{rank}.pt", FOLDER / "version_1")
    metadata = pickle.loads((FOLDER / "saved/metadata.pkl").read_bytes())
    del metadata["metadata"]["weights"]
    (FOLDER / "version_1/metadata.pkl").write_bytes(pickle.dumps(version_1(metadata), 4))
    other = {"listed": [row(f"{item}.{name}", value) for item in ("model", "safe") for name, value in whole_listed.items()],
             "version_1": [row(f"model.list.0.{name}", value) for name, value in whole.items()]}
    (FOLDER / "other_metadata.json").write_text(json.dumps(other, indent=1) + "\n")
    rows = [row(f"{prefix}.{name}", value) for prefix in ("model.list.0", "weights.a.b") for name, value in whole.items()]
    (FOLDER / "torch_checkpointing.json").write_text(json.dumps(rows, indent=1) + "\n")
    CORPUS.mkdir(parents=True, exist_ok=True)
    shutil.copy(FOLDER / "saved/metadata.pkl", CORPUS / "metadata.pkl")
    for name in ("listed", "version_1"):
        shutil.copy(FOLDER / name / "metadata.pkl", CORPUS / name)


if __name__ == "__main__":
    main()
