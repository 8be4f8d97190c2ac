"""DTensors and FSDP of real processes over torch.distributed (gloo), beside the real Orbax."""

import cairn
import jax
import numpy as np
import orbax.checkpoint as ocp
import process_cases_torch as cases
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P
from processes import start
from same import assert_same


@pytest.fixture(scope="module")
def jobs():
    started = start("process_cases_torch", 2, 4)
    yield started
    for job in started:
        job.close()


@pytest.fixture(scope="module")
def two(jobs):
    return jobs[0]


@pytest.fixture(scope="module")
def four(jobs):
    return jobs[1]


def with_orbax(path):
    """Real Orbax restores all arrays as arrays of NumPy."""
    names = [*cases.VALUES, "host"]
    item = {name: 0 if name != "host" else {"array": 0, "step": 0, "plain": 0} for name in names}
    args = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), item)
    args["host"]["step"] = ocp.RestoreArgs(restore_type=int)
    return ocp.PyTreeCheckpointer().restore(path, args=ocp.args.PyTreeRestore(item=item, restore_args=args))


def test_tensors_between_two_and_four_processes(tmp_path, two, four):
    by_two = two.run("save", tmp_path / "two")[0]
    by_four = four.run("save", tmp_path / "four")[0]
    assert by_four == ["columns", "grid", "hybrid", "replicas", "rows"]
    four.run("restore", tmp_path / "two", ",".join(reversed(by_two)))
    two.run("restore", tmp_path / "four", ",".join(by_four[1:] + by_four[:1]))
    for path in [*(tmp_path / "two" / name for name in by_two), *(tmp_path / "four" / name for name in by_four)]:
        for restored in (with_orbax(path), cairn.load(path)):
            host = restored.pop("host")
            assert_same(restored, cases.VALUES)
            assert host["array"].tolist() == [5, 5, 5] and host["step"] == 4 and host["plain"].astype(float).tolist() == [1, 1]
        report = cairn.verify(path)
        # Some placements, such as uneven parts, have no sharding that Orbax could record.
        unknown = [finding["message"] for finding in report.findings if finding["severity"] != "note"]
        assert not report.damaged and all("has no sharding" in text for text in unknown), report.findings


def test_distributed_checkpoints_between_two_and_four_processes(tmp_path, two, four):
    """Saved by Cairn in several processes; loaded by PyTorch in as many, in others, and by Cairn in one."""
    by_two = two.run("save_dcp", tmp_path / "two")[0]
    by_four = four.run("save_dcp", tmp_path / "four")[0]
    four.run("load_dcp", tmp_path / "two", ",".join(reversed(by_two)))
    two.run("load_dcp", tmp_path / "four", ",".join(by_four[1:] + by_four[:1]))
    for count, names in ((2, by_two), (4, by_four)):
        for name in names:
            path = tmp_path / {2: "two", 4: "four"}[count] / name
            restored = cairn.load(path)
            host = restored.pop("host")
            assert_same(restored, cases.VALUES)
            assert host["array"].tolist() == [5, 5, 5] and host["step"] == 4 and host["plain"].astype(float).tolist() == [1, 1]
            report = cairn.verify(path)
            assert report and not report.findings, report.findings
            files = sorted(file.name for file in path.iterdir())
            want = {"replicas": 1, "hybrid": 2}.get(name, count)  # processes that hold the first replica of a shard
            assert files == [".metadata", *(f"__{rank}_0.distcp" for rank in range(want))]


def test_orbax_restores_a_dtensor_onto_devices(tmp_path, two, jax8):
    two.run("save", tmp_path)
    jax, mesh = jax8
    sharding = NamedSharding(mesh, P("x", "y"))
    item = {"even": jax.ShapeDtypeStruct((8, 6), np.float32, sharding=sharding)}
    args = ocp.args.PyTreeRestore(item=item, restore_args=ocp.checkpoint_utils.construct_restore_args(item), transforms={})
    restored = ocp.PyTreeCheckpointer().restore(tmp_path / "rows", args=args)["even"]
    assert restored.sharding == sharding and np.array_equal(restored, cases.VALUES["even"])


def test_tensors_of_what_orbax_saves(tmp_path, two, jax8):
    jax, mesh = jax8
    sharded = jax.device_put(cases.VALUES["even"], NamedSharding(mesh, P("x", "y")))
    ocp.PyTreeCheckpointer().save(tmp_path / "theirs", {**cases.VALUES, "even": sharded, "empty": None})
    two.run("restore", tmp_path, "theirs")


def test_each_rank_reads_its_part(tmp_path, two):
    for read in two.run("each_reads_its_part", tmp_path / "c"):
        assert 4 << 20 <= read < 5 << 20


def test_fsdp(tmp_path, two, four):
    """Four processes split the model over two dimensions of the mesh, also one dimension twice."""
    for job, other, name in ((two, four, "two"), (four, two, "four")):
        state = job.run("fsdp", tmp_path / name, "save")[0]
        other.run("fsdp", tmp_path / name, "restore")
        job.run("fsdp", tmp_path / name, "restore")
        restored = ocp.PyTreeCheckpointer().restore(tmp_path / name, args=ocp.args.PyTreeRestore(
            item={"model": dict.fromkeys(state, 0)}, transforms={},
            restore_args={"model": {key: ocp.RestoreArgs(restore_type=np.ndarray) for key in state}}))
        for key, (shape, values) in state.items():
            assert list(restored["model"][key].shape) == shape and restored["model"][key].tolist() == values, key


def test_parts_are_those_of_pytorch(four):
    assert four.run("boxes_are_those_of_pytorch", "") == [36] * 4


def test_a_mesh_of_some_ranks(tmp_path, four):
    assert four.run("on_some_ranks", tmp_path / "c") == [[0, 1, 2], [], [3, 4, 5], []]
    assert cairn.load(tmp_path / "c")["a"].tolist() == list(range(6))


def test_what_is_refused(tmp_path, four):
    for partial, nested, out, target, dcp, alone in four.run("refused", tmp_path / "c"):
        assert partial[0] == "ValueError" and "Partial" in partial[1] and "redistribute()" in partial[1]
        assert nested[0] == "ValueError" and "grid" in nested[1]
        for kind, text in (out, target):
            assert kind == "ValueError" and "(4, 6)" in text and "(4, 4)" in text
        assert dcp[0] == "ValueError" and "do not save the same entries" in dcp[1]
        assert alone[0] == "RuntimeError"


def test_a_disk_that_takes_no_more(tmp_path, two):
    for first, second in zip(*two.run("one_raises_while_it_writes", tmp_path / "c")):
        assert second[0] == "OSError" and "File too large" in second[1] and "ocdbt.process_1" in second[1]
        assert first == ["OSError", "process 1: " + second[1]]
        assert not (tmp_path / "c").exists()


def test_a_group_that_is_made_again(tmp_path, two):
    assert two.run("again", tmp_path) == [[1, 2]] * 2


def test_a_process_that_dies_while_it_writes(tmp_path, two):
    """The last test of this job."""
    for i in range(2):
        two.ask(i, "one_dies_while_it_writes", str(tmp_path / "c"))
    status, (kind, text) = two.answer(0)
    assert two.answer(1) is None and status == "returned"
    assert kind == "OSError" and "'save: write': process 1 did not arrive before process 0 timed out after 4 s" in text
    assert [path.name for path in tmp_path.iterdir()] == ["c.orbax-checkpoint-tmp"]
    with pytest.raises(FileNotFoundError):
        cairn.load(tmp_path / "c")
    with pytest.raises(RuntimeError):
        cairn.load(tmp_path / "c.orbax-checkpoint-tmp")
    with pytest.raises(ValueError):
        ocp.PyTreeCheckpointer().restore(tmp_path / "c.orbax-checkpoint-tmp")
    cairn.save(tmp_path / "c", {"a": 1})  # what is left does not matter
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
