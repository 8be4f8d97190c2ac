#!/usr/bin/env python3
"""Writes the golden folder of torch_checkpointing 0.1.1, with torch 2.13.0: make_torch_checkpointing.py. Four processes save (gloo).

saved/: the folder
torch_checkpointing.json: its tensors, as (name, dtype, shape, bytes in hex). Also seeds fuzz/corpus/torch_checkpointing.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

import torch

FOLDER = pathlib.Path(__file__).resolve().parent
TESTS = FOLDER.parents[2]
CORPUS = TESTS.parent / "fuzz/corpus/torch_checkpointing"
WORLD = 4


def row(name, tensor):
    return {"name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape),
            "hex": tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes().hex()}


def main():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    shutil.rmtree(FOLDER / "saved", ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        script = TESTS / "interop/pytorch/torch_checkpointing_saves.py"
        ranks = [subprocess.Popen([sys.executable, script, scratch], env={**os.environ, **common, "RANK": str(r), "LOCAL_RANK": str(r)})
                 for r in range(WORLD)]
        if any(rank.wait() for rank in ranks):
            raise SystemExit("a process failed")
        shutil.copytree(f"{scratch}/first", FOLDER / "saved")
        whole = torch.load(f"{scratch}/whole.pt")
    rows = [row(f"{prefix}.{name}", value) for prefix in ("model.list.0", "weights.a.b") for name, value in whole.items()]
    (FOLDER / "torch_checkpointing.json").write_text(json.dumps(rows, indent=1) + "\n")
    CORPUS.mkdir(parents=True, exist_ok=True)
    shutil.copy(FOLDER / "saved/metadata.pkl", CORPUS / "metadata.pkl")


if __name__ == "__main__":
    main()
