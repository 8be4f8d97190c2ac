"""What each process of a job of torch.distributed does with a checkpoint in a store."""

import json
import os
import signal
import threading

import cairn
import numpy as np
import torch
import torch.distributed as dist
from process_cases_torch import start as start
from processes import raised
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def values(number):
    return np.arange(60, dtype=np.float32).reshape(6, 10) * number


def tree(number):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return {"w": distribute_tensor(torch.from_numpy(values(number)), mesh, [Shard(0)])}


def save(url, options, form, number):
    reach = json.loads(options)
    cairn.save(url, tree(int(number)), format=form, overwrite=True, storage_options=reach)


def save_and_die(url, options, form, number, victim, seconds):
    """The victim is killed after so many seconds; the others say what became of the save."""
    made = tree(int(number))
    if dist.get_rank() == int(victim):
        threading.Timer(float(seconds), os.kill, [os.getpid(), signal.SIGKILL]).start()
    return raised(
        cairn.save,
        url,
        made,
        format=form,
        overwrite=True,
        storage_options=json.loads(options),
        timeout=4,
    )
