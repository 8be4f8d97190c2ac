#!/usr/bin/env python3
"""Writes the golden run folder of Megatron-Core 0.16.1, with torch 2.13.0: make_megatron.py. Two processes save (gloo).

run/: the folder, with two checkpoints
megatron.json: the tensors of the later one, as (name, dtype, shape, bytes in hex). Also seeds fuzz/corpus/distributed_metadata.
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
CORPUS = TESTS.parent / "fuzz/corpus/distributed_metadata"
WORLD = 2


def row(name, tensor):
    return {"name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape),
            "hex": tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes().hex()}


def main():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    shutil.rmtree(FOLDER / "run", ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        script = TESTS / "interop/pytorch/megatron_saves.py"
        ranks = [subprocess.Popen([sys.executable, script, "."], cwd=scratch, env={**os.environ, **common, "RANK": str(rank)})
                 for rank in range(WORLD)]  # the metadata has the path as it is given
        if any([rank.wait() for rank in ranks]):
            raise SystemExit("a process failed")
        shutil.copytree(f"{scratch}/run", FOLDER / "run")
        whole = torch.load(f"{scratch}/whole.pt")
    (FOLDER / "megatron.json").write_text(json.dumps([row(name, value) for name, value in whole.items()], indent=1) + "\n")
    CORPUS.mkdir(parents=True, exist_ok=True)
    shutil.copy(FOLDER / "run/iter_0000100/.metadata", CORPUS / "megatron")


if __name__ == "__main__":
    main()
