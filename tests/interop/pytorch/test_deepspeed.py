"""Folders of DeepSpeed: `cairn.load` gives the weights that its zero_to_fp32 gives and the moments that its ds_to_universal gives, bit for
bit; what does not belong together or is missing is refused."""

import argparse
import contextlib
import io
import math
import os
import random
import resource
import shutil

os.environ["DS_ACCELERATOR"] = "cpu"

import cairn
import numpy as np
import pytest
import ranks
import safetensors.torch
import torch
from deepspeed.checkpoint import ds_to_universal
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
from deepspeed_folders import STATES, model_states, random_shapes, random_values, save, write_divided, write_groups

import cairn_cli

SEED = int(os.environ["CAIRN_SEED"])
ZERO = ["zero1", "zero2", "zero3", "zero1_fp32", "zero3_fp32"]


@pytest.fixture(scope="module", params=[1, 3])
def run(request, tmp_path_factory):
    """Run folders that so many processes have saved, and a Universal checkpoint of each."""
    folder = tmp_path_factory.mktemp(f"deepspeed{request.param}")
    ranks.run("deepspeed_saves.py", request.param, folder)
    for name in ZERO:
        to_universal(folder / name / "global_step3", folder / name / "universal", inject_missing_state=True)
    return folder


def to_universal(source, target, inject_missing_state=False):
    options = argparse.Namespace(
        input_folder=str(source), output_folder=str(target), num_extract_workers=1, num_merge_workers=1, keep_temp_folder=False, strict=True,
        inject_missing_state=inject_missing_state)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        ds_to_universal.main(options)


def weights_of_deepspeed(folder):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return get_fp32_state_dict_from_zero_checkpoint(str(folder))


def assert_has(want, got):
    """Whether these values are among others. DeepSpeed makes 32-bit floats of some values that it stores in 16 bits."""
    assert set(want) <= set(got)
    for name, value in want.items():
        assert got[name].is_floating_point() == value.is_floating_point()
        assert torch.equal(got[name].double(), value.detach().double()), name


# ---- what DeepSpeed saves ----


@pytest.mark.parametrize("name", ZERO)
def test_weights(run, name):
    got = cairn.load(run / name, framework="torch")
    assert_has(weights_of_deepspeed(run / name), got["fp32"])
    assert set(got["fp32"]) == {"words.weight", "middle.weight", "middle.bias", "frozen.weight", "one", "deep", "out.weight", "scale", "count"}
    assert got["fp32"]["count"].dtype == torch.int64 and got["fp32"]["deep"].dtype == torch.float32
    report = cairn.verify(run / name)
    assert report and not report.data["unprotected"]


@pytest.mark.parametrize("name", ZERO)
def test_moments(run, name):
    got = cairn.load(run / name / "global_step3", framework="torch")
    zero = run / name / "universal/zero"
    for parameter in ("words.weight", "middle.weight", "middle.bias", "one", "deep"):
        for state in STATES:
            stored = torch.load(zero / parameter / f"{state}.pt", weights_only=False)
            want = (stored["param"] if isinstance(stored, dict) else stored).reshape(got["fp32"][parameter].shape)
            assert torch.equal(got[state][parameter], want), (state, parameter)
        assert got["step"][parameter] == 3
    assert {parameter for state in ("exp_avg", "exp_avg_sq", "step") for parameter in got[state]} == {
        "words.weight", "middle.weight", "middle.bias", "one", "deep"}


def test_an_elastic_checkpoint(run):
    """The trainings are the same; one saves its states in lists."""
    plain, elastic = (cairn.load(run / name, framework="torch") for name in ("zero1", "zero1_elastic"))
    for state in (*STATES, "step"):
        assert_has(plain[state], elastic[state])


@pytest.mark.parametrize("name", ZERO)
def test_universal(run, name):
    universal = cairn.load(run / name / "universal", framework="torch")
    zero = cairn.load(run / name, framework="torch")
    for state in STATES:
        want = dict(zero[state])
        if name.startswith(("zero1", "zero2")):
            want.pop("out.weight", None)  # DeepSpeed converts the module's copy of tied weights
        assert set(universal[state]) == set(zero[state])
        want.pop("count", None)  # and makes a float of it
        assert_has(want, universal[state])
    assert universal["model_states"]["epoch"] == 2
    assert universal["optim_states"]["param_groups"][0]["lr"] == 0.1
    report = cairn.verify(run / name / "universal")
    assert report and not report.data["unprotected"]


def test_other_values(run):
    for name in ZERO:
        got = cairn.load(run / name)
        assert got["model_states"]["note"] == "from the client" and got["model_states"]["epoch"] == 2
        assert got["model_states"]["global_steps"] == 3
        assert not {"module", "param_shapes", "shared_params", "frozen_param_fragments"} & set(got["model_states"])
        facts = dict(cairn.open(run / name).info["facts"])
        assert facts["tied"] == "out.weight = words.weight" and "own copies of its parameters" in facts["not shown"]


def test_run_folders_and_tags(run):
    for name in ZERO:
        assert cairn.load(run / name / "global_step2")["model_states"]["epoch"] == 1
        listed = [row["name"] for row in cairn_cli.ls(run / name)]
        assert listed == [row["name"] for row in cairn_cli.ls(run / name / "global_step3")]


def test_without_zero(run):
    for name in ("none", "bf16"):
        (path,) = (run / name / "global_step3").glob("*.pt")
        want, got = torch.load(path, weights_only=False), cairn.load(run / name, framework="torch")
        assert want["epoch"] == got["epoch"] == 2
        assert_has(want["module"], got["module"])


def test_any_box(run):
    rng = np.random.default_rng([SEED, 8])
    for name in ZERO:
        checkpoint = cairn.open(run / name)
        for leaf in ("fp32.deep", "exp_avg.middle.weight", "fp32.words.weight"):
            tensor = checkpoint.tensors[leaf]
            whole = np.asarray(tensor[...])
            for _ in range(20):
                box = tuple(slice(*sorted(rng.integers(0, n + 1, 2))) for n in whole.shape)
                assert np.array_equal(np.asarray(tensor[box]), whole[box])


def test_convert_and_diff(run, scratch):
    cairn_cli.run("convert", run / "zero3", scratch / "model.safetensors", "--include", "fp32.**")
    got = safetensors.torch.load_file(scratch / "model.safetensors")
    assert_has({f"fp32.{key}": value for key, value in weights_of_deepspeed(run / "zero3").items()}, got)
    assert cairn_cli.call("diff", run / "zero3", run / "zero3/global_step3").returncode == 0


# ---- random parameters ----


def write_random(folder, rng, stage):
    ranks = rng.choice([1, 2, 3, 5, 11, 12])
    shapes = random_shapes(rng, rng.randrange(1, 4))
    values = random_values(shapes)
    if stage == 3:
        write_divided(folder, shapes, values, ranks, [rng.randrange(1000) for _ in range(rng.randrange(3))])
    else:
        paddings = [[rng.randrange(4) for _ in group] for group in shapes] if rng.random() < 0.5 else None
        write_groups(folder, shapes, values, ranks, stage, paddings)
    return shapes, values


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_random_parameters(scratch, stage):
    rng = random.Random(f"{SEED} deepspeed {stage}")
    torch.manual_seed(rng.randrange(1 << 30))
    for round_ in range(25):
        folder = scratch / str(round_)
        _, values = write_random(folder / "tag", rng, stage)
        (folder / "latest").write_text("tag\n")
        got = cairn.load(folder, framework="torch")
        for state in STATES:
            assert_has(values[state], got[state])
        # zero_to_fp32 cannot read a parameter of ZeRO 3 that lies in an empty vector.
        assert stage == 3 or all(torch.equal(value, got["fp32"][name]) for name, value in weights_of_deepspeed(folder).items())
        assert cairn.verify(folder)


def test_a_universal_checkpoint_has_more_files_than_may_be_open(scratch):
    shapes = [{f"p{i}": torch.Size([3]) for i in range(200)}]
    values = random_values(shapes)
    folder = scratch / "universal"
    save(folder, "mp_rank_00_model_states.pt", model_states(shapes, 1))
    save(folder / "zero", "optimizer_state.pt", {"zero_stage": 1})
    for state, of_state in values.items():
        for name, value in of_state.items():
            save(folder / "zero" / name, f"{state}.pt", {"param": value, "cat_dim": 0})
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, old[0]), old[1]))
    try:
        got = cairn.load(folder, framework="torch")
        for state in STATES:
            assert_has(values[state], got[state])
        assert "zero/*/*.pt: cat_dim" in dict(cairn.open(folder).info["facts"])["not shown"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, old)
    (folder / "zero/p7/exp_avg.pt").unlink()
    with pytest.raises(cairn.CorruptionError, match="zero/p7/exp_avg.pt: the file is missing"):
        cairn.load(folder)
    (folder / "zero/optimizer_state.pt").unlink()
    with pytest.raises(Exception, match=r"is an unfinished Universal checkpoint.*zero/optimizer_state.pt.*is missing"):
        cairn.load(folder)


# ---- what is missing, mixed or damaged ----


@pytest.fixture
def folders(scratch):
    """A folder of each form, of three ranks, with its shapes and values."""
    shapes = [{"a": torch.Size([3, 5]), "b": torch.Size([7])}, {"c": torch.Size([2, 2, 2])}]
    values = random_values(shapes)
    write_groups(scratch / "two", shapes, values, 3)
    write_divided(scratch / "three", shapes, values, 3)
    return scratch, shapes, values


def refused(folder, match, error=Exception):
    with pytest.raises(error, match=match):
        cairn.load(folder)
    done = cairn_cli.call("ls", folder)
    assert done.returncode != 0
    assert not cairn_cli.call("verify", folder).returncode == 0


def test_any_file_that_is_missing_is_named(folders):
    scratch, *_ = folders
    for folder in (scratch / "two", scratch / "three"):
        for path in sorted(folder.iterdir()):
            path.rename(scratch / "aside")
            refused(folder, f"{path.name}.*missing", cairn.CorruptionError)
            (scratch / "aside").rename(path)
        cairn.load(folder)
    for path in (scratch / "two").glob("*optim*"):
        path.unlink()
    refused(scratch / "two", r"its files of optimizer states .* are missing", cairn.CorruptionError)


def test_files_of_two_saves(folders):
    scratch, shapes, values = folders
    write_groups(scratch / "other", [{**shapes[0], "a": torch.Size([5, 3, 1])}, shapes[1]], random_values(shapes), 4)
    write_divided(scratch / "divided", shapes, values, 2)
    optim = "bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt"
    model = "zero_pp_rank_{}_mp_rank_00_model_states.pt"
    mixes = [  # (target, file, source, message)
        ("two", optim.format(1), "other", f"{optim.format(1)}: another number of ranks than in {optim.format(0)}; the files are of two saves"),
        ("two", optim.format(3), "other", f"{optim.format(3)}: is of another save; 3 ranks saved"),
        ("two", "mp_rank_00_model_states.pt", "other", "mp_rank_00_model_states.pt: 4 ranks saved it, but there are optimizer states of 3"),
        ("two", model.format(0), "three", f"mp_rank_00_model_states.pt and {model.format(0)} are of two saves"),
        ("three", optim.format(0), "two", f"{optim.format(0)} and {optim.format(0)[5:]} are of two saves"),
        ("three", model.format(1), "divided", f"{model.format(1)}: 2 ranks saved it"),
    ]
    for target, file, source, message in mixes:
        shutil.copytree(scratch / target, scratch / "mixed")
        shutil.copy(scratch / source / file, scratch / "mixed" / file)
        refused(scratch / "mixed", message)
        shutil.rmtree(scratch / "mixed")


def edited(path, edit):
    states = torch.load(path, weights_only=False)
    edit(states, states.get("optimizer_state_dict"))
    torch.save(states, path)


def set_shape(states, name, shape):
    for group in states["param_shapes"]:
        if name in group:
            group[name] = torch.Size(shape)


EDITS = [  # (folder, file, edit, message)
    ("two", 0, lambda s, o: set_shape(s, "b", [700]), "the parameters of group 0 have 715 elements, the parts of all ranks 22"),
    ("two", 0, lambda s, o: set_shape(s, "b", [1]), "the parameters of group 0 have 16 elements, the parts of all ranks 22"),
    ("two", 0, lambda s, o: set_shape(s, "b", [2**40, 2**40]), "b.*more elements than any memory|fit into no memory"),
    ("two", 0, lambda s, o: set_shape(s, "b", [2**55]), "the parameters of group 0 have"),
    ("two", 0, lambda s, o: s["param_shapes"].pop(), "there are 1 groups of parameters, but 2 parts of a rank"),
    ("two", 0, lambda s, o: s["param_shapes"][1].update(c2=torch.Size([0])) or s["param_shapes"][0].update(c=torch.Size([0])), "c: is there twice"),
    ("two", 0, lambda s, o: s.update(param_shapes=7), "param_shapes is not a list"),
    ("two", 0, lambda s, o: s.update(mp_world_size=2), "the model is split among 2 ranks"),
    ("two", 0, lambda s, o: s.update(param_shapes=None), "has no shapes of parameters"),
    ("two", 0, lambda s, o: s.pop("buffer_names"), "not a file of model states of DeepSpeed"),
    ("two", 0, lambda s, o: s.update(frozen_param_shapes={"f": torch.Size([2])}), "f: it has no values among the frozen parameters"),
    ("two", 0, lambda s, o: s.update(frozen_param_shapes={"f": torch.Size([2])}, frozen_param_fragments={"f": torch.ones(3)}),
     "f: its frozen values have another shape"),
    ("two", 1, lambda s, o: o["single_partition_of_fp32_groups"].pop(), "another number of groups"),
    ("two", 1, lambda s, o: o["single_partition_of_fp32_groups"].__setitem__(0, torch.ones(2, 2)), "groups.0: it is not a tensor of one dimension"),
    ("two", 1, lambda s, o: o["single_partition_of_fp32_groups"].__setitem__(0, "x"), "groups.0: it is not a tensor of one dimension"),
    ("two", 1, lambda s, o: o["single_partition_of_fp32_groups"].__setitem__(0, torch.ones(16)[::2]), "groups.0: its elements do not lie one behind"),
    ("two", 1, lambda s, o: o["single_partition_of_fp32_groups"].__setitem__(0, torch.ones(8).half()), "another type of weights"),
    ("two", 1, lambda s, o: o["base_optimizer_state"]["state"][1].pop("exp_avg"), "rank_1_.*: has no exp_avg of group 1, as other ranks have"),
    ("two", 1, lambda s, o: o["base_optimizer_state"]["state"][0].update(step=torch.tensor(2.0)), "rank_1_.*: another step of group 0"),
    ("two", 1, lambda s, o: o.update(zero_stage=1), "another stage of ZeRO"),
    ("two", 1, lambda s, o: o.update(zero_stage=4), "its stage of ZeRO is 4"),
    ("two", 1, lambda s, o: o.update(partition_count=[3, 1]), "another number of ranks"),
    ("two", 1, lambda s, o: o.pop("partition_count"), "not a file of optimizer states of ZeRO"),
    ("three", 1, lambda s, o: o["fp32_flat_groups"].__setitem__(0, torch.ones(5)), "the parts of rank 1 have other lengths than those of rank 0"),
    ("three", 0, lambda s, o: s.update(global_steps=2), "another number of steps"),
    ("three", 0, lambda s, o: set_shape(s, "c", [2, 4]), "other shapes of parameters"),
]


@pytest.mark.parametrize("number", range(len(EDITS)))
def test_contents_that_do_not_fit(folders, number):
    scratch, *_ = folders
    name, is_optim, edit, message = EDITS[number]
    ending = "rank_1_mp_rank_00_optim_states.pt" if is_optim else "_model_states.pt"
    paths = sorted(path for path in (scratch / name).iterdir() if path.name.endswith(ending))
    edited(paths[-1], edit)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(scratch / name, message)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 200_000  # KiB


def test_sizes_of_zero_3_that_do_not_add_up(folders):
    scratch, *_ = folders
    for shape, message in (([3, 1], "the parts of the ranks are longer than all parameters"), ([999], "b: lies behind the end|c: lies behind")):
        for path in (scratch / "three").glob("*model_states.pt"):
            edited(path, lambda states, _, shape=shape: set_shape(states, "b", shape))
        refused(scratch / "three", message, cairn.CorruptionError)


def test_frozen_parameters_of_zero_3(folders):
    scratch, *_ = folders
    frozen = torch.randn(4, 2).bfloat16()
    for rank, path in enumerate(sorted((scratch / "three").glob("*model_states.pt"))):
        part = torch.cat([frozen.flatten(), torch.zeros(1).bfloat16()])[rank * 3 : rank * 3 + 3].clone()
        edited(path, lambda states, _, part=part: states.update(frozen_param_shapes={"f": frozen.shape}, frozen_param_fragments={"f": part}))
    assert torch.equal(cairn.load(scratch / "three", framework="torch")["fp32"]["f"], frozen)
    edited(path, lambda states, _: states["frozen_param_fragments"].clear())
    refused(scratch / "three", "rank_2_.*: f: it has no values among the frozen parameters")


@pytest.mark.parametrize("name", [
    "layer_00-model_states.pt", "layer_0_expert_1_mp_rank_00_model_states.pt", "expp_rank_0_mp_rank_00_optim_states.pt",
    "mp_rank_01_model_states.pt", "zero_pp_rank_0_mp_rank_01_optim_states.pt"])
def test_models_in_parts_are_refused(folders, name):
    scratch, *_ = folders
    save(scratch / "two", name, {})
    refused(scratch / "two", f"{name}: Cairn does not read DeepSpeed checkpoints of", NotImplementedError)


def test_latest(folders):
    scratch, *_ = folders
    (scratch / "zero_to_fp32.py").touch()
    for text in ("two", "three\n"):
        (scratch / "latest").write_text(text)
        assert cairn.open(scratch).info["path"] == str(scratch / text.strip())
    (scratch / "latest").write_text("four")
    refused(scratch, "latest: names the DeepSpeed checkpoint four, which is not there")
    for text in ("../x", "/etc", "", "a\0b", "x" * 5000):
        (scratch / "latest").write_text(text)
        refused(scratch, "not a checkpoint")


def test_damage_is_noticed(folders):
    scratch, *_ = folders
    rng = random.Random(f"{SEED} damage")
    for folder in (scratch / "two", scratch / "three"):
        for path in sorted(folder.glob("*optim_states.pt")):
            good = path.read_bytes()
            states = torch.load(path, weights_only=False)["optimizer_state_dict"]
            vectors = states.get("single_partition_of_fp32_groups") or states["fp32_flat_groups"]
            for vector in vectors:
                at = good.index(vector.numpy().tobytes()) + rng.randrange(vector.nbytes)
                path.write_bytes(good[:at] + bytes([good[at] ^ (1 << rng.randrange(8))]) + good[at + 1 :])
                with pytest.raises(cairn.CorruptionError, match=rf"fp32\..*{path.name}.*CRC-32"):
                    cairn.load(folder)
                report = cairn.verify(folder)
                assert report.damaged and path.name in repr(report.findings)
            for cut in (0, len(good) // 2, len(good) - 1):
                path.write_bytes(good[:cut])
                refused(folder, path.name)
            path.write_bytes(good)
        assert cairn.verify(folder)


def test_nothing_of_the_files_runs(folders):
    class Evil:
        def __reduce__(self):
            return os.system, ("exit 1",)

    scratch, *_ = folders
    (path,) = (scratch / "two").glob("*model_states.pt")
    edited(path, lambda states, _: states.update(evil=Evil()))
    report = cairn.verify(scratch / "two")
    assert "posix.system" in repr(report.findings)
    assert math.prod(cairn.load(scratch / "two", include="fp32.a")["fp32"]["a"].shape) == 15
