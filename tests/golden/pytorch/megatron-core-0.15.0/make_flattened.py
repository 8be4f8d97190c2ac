#!/usr/bin/env python3
"""Writes the golden folder of Megatron-Core 0.15.0, with torch 2.13.0: make_flattened.py, in an environment with megatron-core==0.15.0.

flattened/: two processes have the columns of a tensor, flattened. The values are those of torch.arange(24.0).reshape(4, 6).
Also seeds fuzz/corpus/distributed_metadata.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent
CORPUS = FOLDER.parents[3] / "fuzz/corpus/distributed_metadata"


def save():
    from megatron.core.dist_checkpointing import ShardedTensor
    from megatron.core.dist_checkpointing import save as save_sharded

    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", rank=rank, world_size=2)
    np.product = np.prod  # its name before NumPy 2
    torch.cuda.current_device = lambda: "cpu"  # where it adds up how many ranks failed
    torch.cuda.synchronize = lambda *_: None
    columns = torch.arange(24.0).reshape(4, 6)[:, 3 * rank : 3 * rank + 3].flatten()
    part = ShardedTensor.from_rank_offsets_flat("optimizer.weight", columns, (4, 3), (1, rank, 2), flattened_range=slice(0, 12))
    os.chdir(FOLDER)  # the metadata has the path as it is given
    save_sharded({"weight": part, "iteration": 3}, "flattened")
    dist.destroy_process_group()


def main():
    shutil.rmtree(FOLDER / "flattened", ignore_errors=True)
    (FOLDER / "flattened").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ranks = [subprocess.Popen([sys.executable, __file__], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2",
                                                                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}) for rank in range(2)]
    assert [rank.wait(120) for rank in ranks] == [0, 0]
    CORPUS.mkdir(parents=True, exist_ok=True)
    shutil.copy(FOLDER / "flattened/.metadata", CORPUS / "megatron_flattened")


if __name__ == "__main__":
    save() if "RANK" in os.environ else main()
