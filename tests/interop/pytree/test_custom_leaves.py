"""Leaves that a user's own type handler wrote: Cairn lists them, does not take them for damage, and refuses to convert them by name."""

import json

import numpy as np
import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint import type_handlers

import cairn_cli


class Point:
    def __init__(self, x):
        self.x = x


class PointHandler(type_handlers.TypeHandler):
    """Stores each leaf as a text file beside the arrays, under a name of its own."""

    def typestr(self):
        return "geometry.Point"

    async def metadata(self, infos):
        raise NotImplementedError

    async def serialize(self, values, infos, args=None):
        for value, info in zip(values, infos, strict=True):
            info.path.parent.mkdir(parents=True, exist_ok=True)
            (info.path.parent / f"point-{info.name}.txt").write_text(str(value.x))
        return []

    async def deserialize(self, infos, args=None):
        return [Point(int((info.path.parent / f"point-{info.name}.txt").read_text())) for info in infos]


@pytest.fixture(scope="module", params=[True, False], ids=["ocdbt", "files"])
def checkpoint(request, module_scratch):
    type_handlers.register_type_handler(Point, PointHandler(), override=True)
    path = module_scratch / str(request.param)
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=request.param)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave({"w": np.arange(3.0), "p": Point(4), "n": {"q": Point(5)}}))
        assert checkpointer.restore(path)["n"]["q"].x == 5
    return path


@pytest.mark.covers(
    "type_handlers.TypeHandler", alone=True,
    note=(
        "A leaf of an unknown handler does not make the tree unreadable: it is listed as "
        "`LeafKind::kCustom`, and only reading it is an error."
    ),
)
def test_they_are_listed(checkpoint):
    listed = {entry["name"]: entry for entry in cairn_cli.ls(checkpoint)}
    assert [listed[name]["kind"] for name in ("n.q", "p", "w")] == ["geometry.Point", "geometry.Point", "np.ndarray"]
    assert "geometry.Point" in listed["p"]["error"] and "error" not in listed["w"]
    lines = cairn_cli.run("ls", checkpoint).stdout.decode().splitlines()
    assert [line.split() for line in lines[:2]] == [["n.q", "custom:", "geometry.Point"], ["p", "custom:", "geometry.Point"]]
    assert "p  custom: geometry.Point" in cairn_cli.run("tree", checkpoint).stdout.decode()
    info = json.loads(cairn_cli.run("info", "--json", checkpoint).stdout)
    assert (info["arrays"], info["custom"], info["unreadable"], info["empty"]) == (1, 2, 0, 0)
    cairn_cli.same_bytes(cairn_cli.cat(checkpoint, "w"), np.arange(3.0).tobytes(), "w")


def test_they_are_no_damage(checkpoint):
    """They are not checked, so the answer is not "good"; but nothing is damaged, and their files are not taken for leftovers."""
    report = cairn_cli.verify(checkpoint, status=cairn_cli.IO)
    assert {finding["severity"] for finding in report["findings"]} == {"not_checked"}, report
    assert sorted(finding["tensor"] for finding in report["findings"]) == ["n.q", "p"]


@pytest.mark.covers("type_handlers.TypeHandler", alone=True)
def test_reading_one_names_its_type(checkpoint):
    done = cairn_cli.run("cat", checkpoint, "p", status=cairn_cli.IO)
    assert done.stderr.decode() == "cairn: p: a custom leaf: its type 'geometry.Point' belongs to a type handler that Cairn does not have\n"


@pytest.mark.parametrize("target_format", ["npz", "msgpack", "orbax"])
def test_convert_names_them(checkpoint, scratch, target_format):
    done = cairn_cli.run("convert", checkpoint, scratch / "new", "--to", target_format, status=cairn_cli.USAGE)
    assert b"2 leaves: n.q (a custom leaf: its type 'geometry.Point'" in done.stderr and not (scratch / "new").exists()
    report = json.loads(cairn_cli.run("convert", checkpoint, scratch / "new", "--to", target_format, "--skip-unsupported", "--json").stdout)
    assert [entry["name"] for entry in report["skipped"]] == ["n.q", "p"] and report["tensors"] == 1


def test_a_tree_of_nothing_else(scratch):
    type_handlers.register_type_handler(Point, PointHandler(), override=True)
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "only", args=ocp.args.PyTreeSave({"p": Point(1)}))
    assert [entry["kind"] for entry in cairn_cli.ls(scratch / "only")] == ["geometry.Point"]
    assert {f["severity"] for f in cairn_cli.verify(scratch / "only", status=cairn_cli.IO)["findings"]} == {"not_checked"}
