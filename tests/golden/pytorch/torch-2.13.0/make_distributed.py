#!/usr/bin/env python3
"""Writes the golden Distributed Checkpoints, with torch 2.13.0: make_distributed.py. Two processes save (gloo).

distributed/       with `.metadata`
distributed_alone/ without collectives: the metadata of each rank
distributed_zstd/  each entry compressed
hf_parts/          safetensors files of two ranks, which hold parts of tensors
distributed.json: for each folder its arrays, as (name, dtype, shape, bytes in hex). Also seeds fuzz/corpus/distributed_metadata and encoded_entry.
"""

import json
import os
import pathlib
import pickle
import shutil
import socket
import subprocess
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from make_golden import rows  # noqa: E402
from torch.distributed.checkpoint._extension import ZStandard  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent
CORPUS = FOLDER.parents[3] / "fuzz/corpus/distributed_metadata"
ENTRIES = FOLDER.parents[3] / "fuzz/corpus/encoded_entry"
NAMES = ["distributed", "distributed_alone", "distributed_zstd", "hf_parts"]


def whole():
    generator = torch.Generator().manual_seed(11)
    return {"rows": torch.randn(5, 4, generator=generator), "columns": torch.randn(3, 6, generator=generator).to(torch.bfloat16),
            "copies": torch.arange(4), "few": torch.randn(1, 2, generator=generator)}


def save():
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    places = {"rows": Shard(0), "columns": Shard(1), "copies": Replicate(), "few": Shard(0)}
    tensors = {name: distribute_tensor(value, mesh, [places[name]]) for name, value in whole().items()}
    state = {"model": tensors, "list": [torch.tensor(3), 5, {"lr": 0.5, "none": None}], "step": 7, "name": "ä"}
    os.chdir(FOLDER)  # the metadata has the path as it is given
    dcp.save(state, checkpoint_id="distributed")
    dcp.save(state, checkpoint_id="distributed_alone", use_collectives=False)
    dcp.save(state, storage_writer=dcp.FileSystemWriter("distributed_zstd", _extensions=[ZStandard()]))
    dcp.save(tensors, storage_writer=dcp.HuggingFaceStorageWriter("hf_parts", save_distributed=True))
    dist.destroy_process_group()


def main():
    for name in NAMES:
        shutil.rmtree(FOLDER / name, ignore_errors=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ranks = [subprocess.Popen([sys.executable, __file__], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2",
                                                                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}) for rank in range(2)]
    assert [rank.wait(120) for rank in ranks] == [0, 0]
    tree = {"model": whole(), "list": [torch.tensor(3)]}
    expected = {"distributed": rows(tree), "distributed_alone": rows(tree), "distributed_zstd": rows(tree), "hf_parts": rows(whole())}
    (FOLDER / "distributed.json").write_text(json.dumps(expected, indent=1) + "\n")
    shutil.rmtree(CORPUS, ignore_errors=True)
    CORPUS.mkdir(parents=True)
    shutil.copy(FOLDER / "distributed/.metadata", CORPUS / "collectives")
    shutil.copy(FOLDER / "distributed_alone/__1.metadata", CORPUS / "rank1")
    shutil.copy(FOLDER / "distributed_zstd/.metadata", CORPUS / "transforms")
    shutil.rmtree(ENTRIES, ignore_errors=True)
    ENTRIES.mkdir(parents=True)
    for number, info in enumerate(pickle.loads((FOLDER / "distributed_zstd/.metadata").read_bytes()).storage_data.values()):
        entry = (FOLDER / "distributed_zstd" / info.relative_path).read_bytes()[info.offset : info.offset + info.length]
        (ENTRIES / str(number)).write_bytes(b"\1" + entry)  # the number of transforms, and the entry


if __name__ == "__main__":
    save() if "RANK" in os.environ else main()
