"""Every golden Orbax checkpoint of tests/golden/orbax through `cairn ls`, `cat` and `verify`."""

import hashlib
import json
import pathlib

import pytest

import cairn_cli

GOLDEN = cairn_cli.ROOT / "tests" / "golden" / "orbax"


def all_views():
    for file in sorted(GOLDEN.rglob("*.expected.json")):
        case = file.with_name(file.name.removesuffix(".expected.json"))
        for number, view in enumerate(json.loads(file.read_text())["views"]):
            yield pytest.param(case / view["path"], view, id=f"{case.name}-{number}")


VIEWS = list(all_views())
WHOLE = [p for p in VIEWS if not p.values[1].get("refused")]
REFUSED = [p for p in VIEWS if p.values[1].get("refused")]


def chosen(view):
    return {key: view[key] for key in ("step", "item") if key in view}


def test_goldens_are_there():
    assert len(WHOLE) > 40 and len(REFUSED) >= 2


@pytest.mark.covers("pytree.PyTreeCheckpointHandler.restore")
@pytest.mark.parametrize("path, view", WHOLE)
def test_leaves(path, view):
    pairs = cairn_cli.compare_names(cairn_cli.ls(path, **chosen(view)), view["leaves"])
    for _, record in pairs:
        check_bytes(path, record, **chosen(view))


def check_bytes(path, record, **options):
    if record.get("dtype") == "string" or "sha256" not in record and "value" in record:
        assert cairn_cli.cat(path, record["name"], **options).decode() == record["value"]
    elif "sha256" in record:
        assert hashlib.sha256(cairn_cli.cat(path, record["name"], **options)).hexdigest() == record["sha256"], record["name"]


@pytest.mark.parametrize("path, view", WHOLE)
def test_verify_finds_no_damage(path, view):
    # Orbax refuses a database without `_METADATA`, too.
    lost = path.name == "no_metadata_ocdbt"
    cairn_cli.verify(path, status=cairn_cli.NO if lost else cairn_cli.GOOD, **chosen(view))


@pytest.mark.parametrize("path, view", REFUSED)
def test_unfinished_is_refused_with_a_reason(path, view):
    message = cairn_cli.run("ls", path, status=cairn_cli.IO).stderr.decode()
    assert "commit" in message or "tempor" in message or "unfinished" in message
    listed = cairn_cli.ls(path, uncommitted=True)
    for _, record in cairn_cli.compare_names(listed, view["leaves"]):
        check_bytes(path, record, uncommitted=True)


@pytest.mark.parametrize("path, view", [p for p in WHOLE if p.id in ("composite-0", "v1_checkpointables-0")])
def test_several_items_are_told_apart(path, view):
    """Without --item all items are listed, each entry with its own; a name in two items must be chosen between."""
    listed = cairn_cli.ls(path)
    assert {entry["item"] for entry in listed} > {view["item"]}
    assert sorted(e["name"] for e in listed if e["item"] == view["item"]) == sorted(record["name"] for record in view["leaves"])
    twice = {entry["name"] for entry in listed if sum(e["name"] == entry["name"] for e in listed) > 1}
    for name in twice:
        message = cairn_cli.run("cat", path, name, status=cairn_cli.USAGE).stderr.decode()
        assert f"/{name}" in message
    assert any(f"{view['item']}/{name}" in cairn_cli.call("cat", path, name).stderr.decode() for name in twice)


def test_missing_step_and_name_are_errors():
    root = GOLDEN / "orbax-0.12.8" / "manager"
    assert b"3" in cairn_cli.run("ls", root, "--step", 3, status=cairn_cli.IO).stderr
    message = cairn_cli.run("cat", root, "tagg", status=cairn_cli.IO).stderr.decode()
    assert "tag" in message  # close matches are named


def test_leaves_come_in_the_order_of_the_tree():
    """Names are listed in the tree's order, which is the order of _METADATA."""
    root = GOLDEN / "orbax-0.12.8" / "direct_ocdbt_zarr2"
    stored = json.loads(pathlib.Path(root, "_METADATA").read_text())["tree_metadata"]
    names = [".".join(key["key"] for key in entry["key_metadata"]) for entry in stored.values()]
    assert [entry["name"] for entry in cairn_cli.ls(root)] == names
