"""Folders of Megatron-Core: `cairn.load` gives the whole tensors and the objects that several processes have saved, and what common.pt has."""

import json
import os
import random
import shutil
import warnings

import cairn
import numpy as np
import pytest
import ranks
import safetensors.torch
import torch
from test_torch_files import assert_equal

import cairn_cli

SEED = int(os.environ["CAIRN_SEED"])
QKV = "decoder.layers.self_attention.linear_qkv.weight"


@pytest.fixture(scope="module", params=[1, 2])
def run(request, tmp_path_factory):
    """A run folder that so many processes have saved, beside what they hold."""
    folder = tmp_path_factory.mktemp(f"megatron{request.param}")
    ranks.run("megatron_saves.py", request.param, folder)
    return folder


@pytest.fixture
def folder(run, scratch):
    """A copy of the later checkpoint."""
    shutil.copytree(run / "run/iter_0000100", scratch / "c")
    return scratch / "c"


def world_of(run):
    return len({path.name.split("_")[2] for path in (run / "run/iter_0000100").glob("__*.distcp")})


def load(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        return cairn.load(path, framework="torch", **options)


def common_of(iteration):
    """What common.pt holds; its argparse.Namespace is a dict of its attributes."""
    return {
        "args": {"num_layers": 2, "hidden_size": 6, "lr": 0.5, "name": "ä", "dtype": "torch.bfloat16"}, "iteration": iteration,
        "checkpoint_version": 3.0, "optimizer": {"param_groups": [{"lr": 0.25, "step": iteration}]},
        "num_floating_point_operations_so_far": 2**40, "tokens": torch.arange(4), "content_metadata": {"kind": "test"}}


def test_what_megatron_core_loads(run):
    """Its own `load` merges common.pt and the tensors into one dict; Cairn shows common.pt below "common"."""
    got = load(run / "run/iter_0000100")
    loaded = torch.load(run / "loaded.pt", weights_only=False)
    loaded["args"] = {name: str(value) if isinstance(value, torch.dtype) else value for name, value in vars(loaded["args"]).items()}
    tensors = {name: got[name] for name in torch.load(run / "whole.pt")}
    merged = {**got["common"], **tensors}
    assert_equal(dict(sorted(loaded.items())), dict(sorted(merged.items())))
    assert_equal(common_of(100), got["common"])


def test_whole_tensors_and_objects(run):
    got = load(run / "run/iter_0000100")
    whole = torch.load(run / "whole.pt")
    assert_equal(whole, {name: got.pop(name) for name in whole})
    got.pop("common")
    world = world_of(run)
    places = [f"shard_0.{rank}_1.{world}" for rank in range(world)]
    states = {place: [{"random": (3, rank), "torch": torch.arange(5) + rank}] for rank, place in enumerate(places)}
    extra = {place: None if rank else b"\0\1" for rank, place in enumerate(places)}
    assert set(got) == {"rng_state", "layer._extra_state"}
    assert_equal(states, got["rng_state"])
    assert set(got["layer._extra_state"]) == set(extra) and bytes(np.asarray(got["layer._extra_state"][places[0]])) == b"\0\1"
    report = cairn.verify(run / "run/iter_0000100")
    assert report and not report.data["unprotected"]


def test_any_box(run):
    whole = torch.load(run / "whole.pt")[QKV].numpy()
    tensor = cairn.open(run / "run").tensors[QKV]
    rng = np.random.default_rng([SEED, 9])
    for _ in range(30):
        box = tuple(slice(*sorted(rng.integers(0, n + 1, 2))) for n in whole.shape)
        assert np.array_equal(np.asarray(tensor[box]), whole[box])


def test_conversions(run, scratch):
    whole = torch.load(run / "whole.pt")
    cairn_cli.run("convert", run / "run", scratch / "c.safetensors", "--include", "decoder.**", "--include", "embedding.**")
    want = {name: value for name, value in whole.items() if name.startswith(("decoder", "embedding"))}
    assert_equal(dict(sorted(want.items())), dict(sorted(safetensors.torch.load_file(scratch / "c.safetensors").items())))
    cairn.convert(run / "run", scratch / "orbax", to="orbax")
    assert cairn_cli.call("diff", run / "run/iter_0000100", scratch / "orbax").returncode == 0


# ---- run folders ----


def test_a_run_folder_is_its_newest_iteration(run, scratch):
    shutil.copytree(run / "run", scratch / "run")
    tracker = scratch / "run/latest_checkpointed_iteration.txt"
    for text, iteration in (("100", 100), (" 50\n", 50), ("0000100", 100)):
        tracker.write_text(text)
        assert_equal(common_of(iteration), load(scratch / "run")["common"])
        assert cairn_cli.call("verify", scratch / "run").returncode == 0
    assert cairn.open(scratch / "run").info["items"] == ["iter_0000050", "iter_0000100"]
    assert_equal(common_of(50), load(scratch / "run", item="iter_0000050")["common"])
    (scratch / "run/iter_0000050").rename(scratch / "run/release")
    tracker.write_text("release\n")
    assert_equal(common_of(50), load(scratch / "run")["common"])


@pytest.mark.parametrize(("text", "match"), [
    ("70", "names the Megatron checkpoint iter_0000070, which is not there"), ("release", "names the Megatron checkpoint release, which is not there"),
    ("", 'is neither a number nor "release", but ""'), ("-1", "is neither a number"), ("1.5", "is neither a number"), ("../x", "is neither a number"),
    ("9" * 30, "is neither a number"), ("50\n100", "is neither a number"), ("x" * 5000, "latest_checkpointed_iteration.txt")])
def test_a_tracker_that_leads_nowhere(run, scratch, text, match):
    shutil.copytree(run / "run", scratch / "run")
    (scratch / "run/latest_checkpointed_iteration.txt").write_text(text)
    for command in ("ls", "info", "verify"):
        done = cairn_cli.call(command, scratch / "run")
        assert done.returncode not in (0, None) and match.encode() in done.stdout + done.stderr, done
    with pytest.raises(Exception, match=match):
        cairn.load(scratch / "run")


# ---- what is missing, and what is not read ----


def test_without_common_pt(folder):
    (folder / "common.pt").unlink()
    done = cairn_cli.call("ls", folder)
    assert b"common.pt: the file is missing; " in done.stderr and QKV.encode() in done.stdout
    with pytest.raises(OSError, match=r"common.pt: the file is missing; .*metadata.json names it \(common_backend\)"):
        cairn.load(folder)
    report = cairn.verify(folder)
    assert report.damaged and "the file is missing; metadata.json names it" in repr(report.findings)
    with pytest.warns(UserWarning, match="common.pt: the file is missing"):
        left = cairn.load(folder, framework="torch", allow_missing=True)
    assert QKV in left and "common" not in left


def test_without_metadata(folder):
    for lost in (["x"], sorted(path.name for path in folder.glob("*.distcp"))):
        (folder / ".metadata").unlink(missing_ok=True)
        for name in lost:
            (folder / name).unlink(missing_ok=True)
        for command in ("ls", "info", "verify"):
            done = cairn_cli.call(command, folder)
            assert done.returncode not in (0, None) and b".metadata: the file is missing; " in done.stdout + done.stderr, done
        with pytest.raises(cairn.CorruptionError, match="says that the save of this Megatron-Core checkpoint ended"):
            cairn.load(folder)


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"sharded_backend": 5}', '{"sharded_backend": "torch_dist"'])
def test_a_save_that_has_not_ended(run, folder, text):
    """metadata.json is written last."""
    (folder / "metadata.json").unlink()
    if text is not None:
        (folder / "metadata.json").write_text(text)
    with pytest.warns(UserWarning, match="has common.pt, but no metadata.json of Megatron-Core, which is written last: the save has not ended"):
        got = cairn.load(folder, framework="torch")
    assert_equal(torch.load(run / "whole.pt")[QKV], got[QKV])
    assert "common" not in got
    assert_equal(common_of(100), load(folder / "common.pt"))


@pytest.mark.parametrize(("edit", "match"), [
    ({"sharded_backend": "zarr"}, "the sharded backend of this Megatron-Core checkpoint is zarr of version 1; Cairn reads torch_dist of version 1"),
    ({"sharded_backend_version": 2}, "the sharded backend of this Megatron-Core checkpoint is torch_dist of version 2"),
    ({"sharded_backend_version": "1"}, "the sharded backend of this Megatron-Core checkpoint is torch_dist of version -1"),
    ({"common_backend": "json"}, "the common backend of this Megatron-Core checkpoint is json"),
    ({"common_backend_version": 3}, "the common backend of this Megatron-Core checkpoint is torch of version 3")])
def test_other_backends_are_refused_by_name(folder, edit, match):
    config = json.loads((folder / "metadata.json").read_text())
    (folder / "metadata.json").write_text(json.dumps(config | edit))
    with pytest.raises(Exception, match=match):
        cairn.load(folder)
    for path in folder.glob("*.distcp"):
        path.unlink()
    (folder / ".metadata").unlink()
    with pytest.raises(Exception, match=match):
        cairn.load(folder)


def test_defaults_of_the_configuration(run, folder):
    (folder / "metadata.json").write_text('{"sharded_backend": "torch_dist"}')
    assert_equal(common_of(100), load(folder)["common"])


def test_damage_is_noticed(folder):
    rng = random.Random(f"{SEED} megatron")
    for name in ("common.pt", ".metadata"):
        good = (folder / name).read_bytes()
        for cut in [0, 1, len(good) - 1, *(rng.randrange(len(good)) for _ in range(8))]:
            (folder / name).write_bytes(good[:cut])
            with pytest.raises(Exception, match=name):
                cairn.load(folder)
        (folder / name).write_bytes(good)
    good = (folder / "common.pt").read_bytes()
    at = good.index(torch.arange(4).numpy().tobytes()) + 9
    (folder / "common.pt").write_bytes(good[:at] + b"\7" + good[at + 1 :])
    with pytest.raises(cairn.CorruptionError, match=r"common.tokens: .*common.pt.*CRC-32"):
        cairn.load(folder)
    assert cairn.verify(folder).damaged


def test_a_tensor_with_the_name_of_the_common_part(run, folder):
    import pickle

    path = folder / ".metadata"
    metadata = pickle.loads(path.read_bytes())
    metadata.state_dict_metadata["common"] = metadata.state_dict_metadata.pop("step")
    metadata.storage_data = {type(index)("common", index.offset, index.index) if index.fqn == "step" else index: info
                             for index, info in metadata.storage_data.items()}
    path.write_bytes(pickle.dumps(metadata, 4))
    got = load(folder)
    assert_equal(torch.tensor(7), got["common"])
    assert_equal(common_of(100), got["common.pt"])


def test_a_common_file_alone_beside_another_checkpoint(scratch):
    """A file of this name is an item like others."""
    import torch.distributed.checkpoint as dcp

    dcp.save({"w": torch.ones(2)}, checkpoint_id=scratch / "c", no_dist=True)
    safetensors.torch.save_file({"w": torch.ones(2)}, scratch / "c/model.safetensors")
    (scratch / "c/metadata.json").write_text('{"of": "another program"}')
    assert_equal({"w": torch.ones(2)}, load(scratch / "c"))
    assert cairn.open(scratch / "c").info["items"] == ["model.safetensors"]
