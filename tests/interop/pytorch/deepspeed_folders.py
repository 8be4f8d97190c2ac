"""Builds tag folders as DeepSpeed's ZeRO saves them, of random parameters, for any number of ranks."""

import collections
import math
import pathlib

import torch
from deepspeed.runtime.zero.config import ZeroStageEnum

STATES = ("fp32", "exp_avg", "exp_avg_sq")


def random_shapes(rng, groups):
    """Shapes of parameters by name, in groups."""
    counter = iter(range(1000))
    return [
        collections.OrderedDict((f"p{next(counter)}.weight", torch.Size(rng.randrange(1, 6) for _ in range(rng.randrange(4))))
                                for _ in range(rng.randrange(1, 6)))
        for _ in range(groups)]


def random_values(shapes):
    return {state: {name: torch.randn(shape) for group in shapes for name, shape in group.items()} for state in STATES}


def model_states(shapes, ranks, **others):
    return {
        "module": {name: torch.zeros(shape, dtype=torch.bfloat16) for group in shapes for name, shape in group.items()},
        "buffer_names": [], "optimizer": None, "param_shapes": shapes, "frozen_param_shapes": None, "shared_params": {},
        "frozen_param_fragments": None, "global_steps": 1, "dp_world_size": ranks, "mp_world_size": 1, "ds_version": "0.19.8", **others}


def optimizer_of(parts):
    """The states of the vectors of one rank: {state: [vector]}."""
    vectors = zip(parts["exp_avg"], parts["exp_avg_sq"], strict=True)
    return {"state": {i: {"step": torch.tensor(1.0), "exp_avg": a, "exp_avg_sq": b} for i, (a, b) in enumerate(vectors)}, "param_groups": []}


def save(folder, name, states):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    torch.save(states, f"{folder}/{name}")


def write_groups(folder, shapes, values, ranks, stage=2, paddings=None):
    """ZeRO 1 and 2. `paddings`: elements behind each parameter."""
    parts = [{state: [] for state in STATES} for _ in range(ranks)]
    for g, group in enumerate(shapes):
        for state in STATES:
            pieces = []
            for i, name in enumerate(group):
                pieces += [values[state][name].flatten(), torch.full((paddings[g][i] if paddings else 0,), 7.0)]
            flat = torch.cat(pieces)
            length = math.ceil(flat.numel() / ranks)
            for rank in range(ranks):  # the padding at the end is left out
                parts[rank][state].append(flat[rank * length : (rank + 1) * length].clone())
    save(folder, "mp_rank_00_model_states.pt", model_states(shapes, ranks))
    for rank in range(ranks):
        optimizer = {
            "base_optimizer_state": optimizer_of(parts[rank]), "single_partition_of_fp32_groups": parts[rank]["fp32"],
            "zero_stage": ZeroStageEnum(stage), "partition_count": [ranks] * len(shapes), "param_alignment_paddings": paddings}
        save(folder, f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", {"optimizer_state_dict": optimizer})


def write_divided(folder, shapes, values, ranks, cuts=()):
    """ZeRO 3. `cuts`: where the vector of a rank is cut into several."""
    names = [name for group in shapes for name in group]
    for rank in range(ranks):
        parts = {}
        for state in STATES:
            pieces = []
            for name in names:
                flat = values[state][name].flatten()
                length = math.ceil(flat.numel() / ranks)
                padded = torch.cat([flat, torch.full((length * ranks - flat.numel(),), 9.0)])
                pieces.append(padded[rank * length : (rank + 1) * length])
            whole = torch.cat(pieces)
            ends = [*sorted(cut % (whole.numel() + 1) for cut in cuts), whole.numel()]
            parts[state] = [whole[begin:end].clone() for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
        save(folder, f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt", model_states(shapes, ranks))
        optimizer = {
            "optimizer_state_dict": optimizer_of(parts), "fp32_flat_groups": parts["fp32"], "zero_stage": ZeroStageEnum.weights,
            "partition_count": ranks}
        save(folder, f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", {"optimizer_state_dict": optimizer})
