#!/usr/bin/env python3
"""Writes the golden DeepSpeed checkpoints, with deepspeed 0.19.8 and torch 2.13.0: make_deepspeed.py. Two processes train on the CPU (gloo).

zero2/ zero3/      tag folders; zero3/ also has a run folder's `latest` beside it
universal/         zero2/ after ds_to_universal
deepspeed.json: for each folder its parameters, as (name, dtype, shape, bytes in hex): what zero_to_fp32 and ds_to_universal make of them.
Also seeds fuzz/corpus/deepspeed.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import warnings
import zipfile

os.environ["DS_ACCELERATOR"] = "cpu"
warnings.simplefilter("ignore")

import deepspeed  # noqa: E402
import deepspeed.ops  # noqa: E402
import torch  # noqa: E402
from deepspeed.checkpoint import ds_to_universal  # noqa: E402
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent
CORPUS = FOLDER.parents[3] / "fuzz/corpus/deepspeed"
MOMENTS = ("exp_avg", "exp_avg_sq")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(5, 3)
        self.deep = torch.nn.Parameter(torch.randn(2, 3, 5))
        self.bias = torch.nn.Parameter(torch.randn(3))
        self.out = torch.nn.Linear(3, 5, bias=False)
        self.out.weight = self.words.weight
        self.register_buffer("count", torch.tensor(4))

    def forward(self, x):
        return self.out(self.words(x) + self.bias).sum() + self.deep.sum()


def train():
    deepspeed.ops.__compatible_ops__.clear()
    deepspeed.init_distributed(dist_backend="gloo")
    for stage in (2, 3):
        torch.manual_seed(stage)
        model = Net()
        trained = list(model.parameters())
        groups = [{"params": [p for p in trained if (p.ndim > 1) == flag]} for flag in (True, False)]
        config = {"train_micro_batch_size_per_gpu": 1, "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
                  "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}, "bf16": {"enabled": True}}
        engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.Adam(groups, lr=0.1), config=config)
        engine.backward(engine(torch.tensor([0, 1, 2])))
        engine.step()
        engine.save_checkpoint(FOLDER, tag=f"zero{stage}", client_state={"epoch": 1})
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def row(name, tensor):
    return {"name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape),
            "hex": tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes().hex()}


def states_in(universal, states, weights):
    for folder in sorted((universal / "zero").iterdir()):
        for state in states:
            if (folder / f"{state}.pt").exists():
                stored = torch.load(folder / f"{state}.pt")
                value = stored["param"] if isinstance(stored, dict) else stored
                yield row(f"{state}.{folder.name}", value.reshape(weights[folder.name].shape))


def main():
    for name in ("zero2", "zero3", "universal"):
        shutil.rmtree(FOLDER / name, ignore_errors=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": "2", "LOCAL_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([sys.executable, __file__], env={**os.environ, **common, "RANK": str(r), "LOCAL_RANK": str(r)}) for r in range(2)]
    if any(rank.wait() for rank in ranks):
        raise SystemExit("a process failed")
    for name in ("zero_to_fp32.py", "zero_to_torch.py"):
        (FOLDER / name).unlink()
    expected = {}
    for name, made in (("zero2", "universal"), ("zero3", "aside")):
        ds_to_universal.main(argparse.Namespace(
            input_folder=str(FOLDER / name), output_folder=str(FOLDER / made), num_extract_workers=1, num_merge_workers=1,
            keep_temp_folder=False, strict=True, inject_missing_state=True))
        weights = get_fp32_state_dict_from_zero_checkpoint(str(FOLDER), tag=name)
        expected[name] = [row(f"fp32.{key}", value) for key, value in weights.items()] + list(states_in(FOLDER / made, MOMENTS, weights))
    expected["universal"] = list(states_in(FOLDER / "universal", ("fp32", *MOMENTS), weights))
    shutil.rmtree(FOLDER / "aside")
    (FOLDER / "latest_universal").unlink()
    (FOLDER / "deepspeed.json").write_text(json.dumps(expected, indent=1) + "\n")
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name in ("zero2", "zero3"):
        for path in (FOLDER / name).glob("*rank_0*_states.pt"):
            with zipfile.ZipFile(path) as archive:
                (pickled,) = [member for member in archive.namelist() if member.endswith("/data.pkl")]
                (CORPUS / f"{name}-{'optim' if 'optim' in path.name else 'model'}.pkl").write_bytes(archive.read(pickled))


if __name__ == "__main__":
    train() if "RANK" in os.environ else main()
