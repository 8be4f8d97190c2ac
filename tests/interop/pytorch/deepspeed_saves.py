"""Trains with DeepSpeed on the CPU in several processes (gloo), and saves: deepspeed_saves.py FOLDER, started once for each rank."""

import os
import sys
import warnings

os.environ["DS_ACCELERATOR"] = "cpu"
warnings.filterwarnings("ignore")

import deepspeed  # noqa: E402
import deepspeed.ops  # noqa: E402
import torch  # noqa: E402

RUNS = {  # name -> (stage, other options of ZeRO, whether in bfloat16)
    "zero1": (1, {}, True),
    "zero2": (2, {}, True),
    "zero3": (3, {}, True),
    "zero1_fp32": (1, {}, False),
    "zero3_fp32": (3, {"sub_group_size": 20}, False),
    "zero1_elastic": (1, {"elastic_checkpoint": True}, True),
    "bf16": (0, {}, True),
    "none": (0, {}, False),
}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(5, 3)
        self.middle = torch.nn.Linear(3, 7)
        self.frozen = torch.nn.Linear(3, 3, bias=False).requires_grad_(False)
        self.one = torch.nn.Parameter(torch.ones(1))
        self.deep = torch.nn.Parameter(torch.randn(2, 3, 1, 5))
        self.out = torch.nn.Linear(3, 5, bias=False)
        self.out.weight = self.words.weight
        self.register_buffer("scale", torch.ones(3))
        self.register_buffer("count", torch.tensor(4))

    def forward(self, x):
        hidden = self.frozen((self.words(x) * self.scale).to(self.frozen.weight.dtype))
        return self.out(hidden).sum() + (self.middle(hidden).sum() + self.deep.sum()) * self.one


def main(folder):
    rank = int(os.environ["RANK"])
    deepspeed.ops.__compatible_ops__.clear()  # else it compiles operators of its own, for a minute
    deepspeed.init_distributed(dist_backend="gloo")
    for name, (stage, options, is_bf16) in RUNS.items():
        torch.manual_seed(stage)
        model = Net()
        trained = {key: value for key, value in model.named_parameters() if value.requires_grad}
        groups = [{"params": [value for value in trained.values() if (value.ndim > 1) == is_decayed], "weight_decay": 0.01 * is_decayed}
                  for is_decayed in (True, False)]
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0, **options},
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "bf16": {"enabled": is_bf16},
        }
        engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.Adam(groups, lr=0.1), config=config)
        for step in range(3):
            engine.backward(engine(torch.tensor([0, step, 2 + rank % 3])))
            engine.step()
            if step:
                engine.save_checkpoint(f"{folder}/{name}", client_state={"note": "from the client", "epoch": step})
        engine.destroy()
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
