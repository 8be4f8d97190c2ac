"""`cairn reshard` as a user sees it: its output and its errors. tests/interop/test_reshard.py checks that Orbax restores the result."""

import json

import pytest

from command import FAILURE, GOOD, USAGE, bad, good, run


@pytest.fixture
def source(folder):
    return folder / "a.safetensors"


def test_dry_run_says_what_each_device_reads_and_writes_nothing(source, tmp_path):
    text = good("reshard", source, tmp_path / "new", "--mesh", "x=4,y=2", "--spec", "params.embed=x,y", "--spec", "params.*=None,x", "--dry-run")
    lines = [line.split() for line in text.splitlines()]
    assert lines[1] == ["params.embed", "float32(64,", "32)", "(16,", "16)", "NamedSharding(x=4,y=2;", "P('x',", "'y'))"]
    assert lines[2] == ["params.layers.0.w", "float16(8,", "4)", "(8,", "1)", "NamedSharding(x=4,y=2;", "P(None,", "'x'))"]
    assert "devices  8, each reads 1.03 KiB" in text  # 16 x 16 x 4 bytes, and two times 8 x 1 x 2 bytes
    assert "would write 6 tensors" in text
    assert not (tmp_path / "new").exists()


def test_json(source, tmp_path):
    report = json.loads(good("reshard", source, tmp_path / "new", "--mesh", "x=4", "--spec", "params.embed=None,x", "--to", "orbax-zarr3", "--json"))
    assert report["format"] == "orbax-zarr3" and report["tensors"] == 6 and report["device_bytes"] == 64 * 8 * 4
    assert report["files"] == [str(tmp_path / "new")]
    assert report["arrays"] == [{"name": "params.embed", "dtype": "float32", "shape": [64, 32], "box": [64, 8], "sharding": "NamedSharding(x=4; P(None, 'x'))"}]
    assert json.loads(good("ls", tmp_path / "new", "params.embed", "--json"))[0]["chunk_shape"] == [64, 8]
    assert good("diff", source, tmp_path / "new")
    # An Orbax checkpoint keeps its layout unless the user requests another.
    assert json.loads(good("reshard", tmp_path / "new", tmp_path / "again", "--chunk-bytes", "1K", "--json"))["format"] == "orbax-zarr3"
    good("reshard", source, tmp_path / "files", "--chunk-bytes", "1K", "--to", "orbax-files")
    assert json.loads(good("reshard", tmp_path / "files", tmp_path / "more", "--mesh", "x=2", "--json"))["format"] == "orbax-files"


def test_the_layout_stays_where_no_metadata_records_it(source, tmp_path):
    """The oldest checkpoints of Orbax have no _METADATA."""
    good("reshard", source, tmp_path / "files", "--chunk-bytes", "1K", "--to", "orbax-files")
    (tmp_path / "files/_METADATA").unlink()
    done = run("reshard", tmp_path / "files", tmp_path / "new", "--chunk-bytes", "512", "--json", "--allow-missing")
    assert done.returncode == GOOD and b"_METADATA is missing" in done.stderr
    assert json.loads(done.stdout)["format"] == "orbax-files" and not (tmp_path / "new/manifest.ocdbt").exists()


def test_the_layout_is_not_taken_from_the_name_of_an_item(source, tmp_path):
    good("convert", source, tmp_path / "c", "--to", "orbax", "--as-item", "state")
    (tmp_path / "c/use_ocdbt").mkdir()
    (tmp_path / "c/use_ocdbt/metadata").write_text("false")
    assert json.loads(good("reshard", tmp_path / "c", tmp_path / "new", "--chunk-bytes", "512", "--json"))["format"] == "orbax"


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "nothing to do: give a mesh, a size of chunks, or both"),
        (["--spec", "step="], "specs need a mesh"),
        (["--mesh", "x"], "expected AXIS=DEVICES"),
        (["--mesh", "=2"], "expected AXIS=DEVICES"),
        (["--mesh", "x=0"], "expected AXIS=DEVICES"),
        (["--mesh", "x=2,"], "expected AXIS=DEVICES"),
        (["--mesh", "x=99999999999999999999"], "more than 2^20 devices"),
        (["--mesh", "x=1048576,y=1048576"], "more than 2^20 devices"),
        (["--mesh", "x=2,x=2"], "mesh axis 'x' appears twice"),
        (["--mesh", "x=2", "--spec", "params.embed"], "expected GLOB=AXIS"),
        (["--mesh", "x=2", "--spec", "=x"], "expected GLOB=AXIS"),
        (["--mesh", "x=2", "--spec", "step=x,"], "a dimension without an axis is None"),
        (["--mesh", "x=2", "--spec", "params.embed=y"], "'params.embed': the partition spec splits dimension 0 by 'y', which is not an axis"),
        (["--mesh", "x=2", "--spec", "params.embed=x,x"], "'params.embed': the partition spec names mesh axis 'x' twice"),
        (["--mesh", "x=2", "--spec", "nothing*=x"], "'nothing*' matches no array"),
        (["--mesh", "x=2", "--spec", "*embed=x", "--spec", "params.embed=x"], "'params.embed' matches no array, or only arrays that an earlier spec matches"),
        (["--mesh", "x=3", "--spec", "params.embed=x"], "params.embed: dimension 0 of (64, 32) has 64 elements, which mesh axes 'x' cannot split into 3"),
        (["--mesh", "x=2", "--spec", "step=x"], "step: "),
        (["--mesh", "x=2", "--to", "safetensors"], "'safetensors' has no chunks"),
        (["--chunk-bytes", "0"], "is not a size"),
    ],
)
def test_refusals(options, message, source, tmp_path):
    assert message in bad(USAGE, "reshard", source, tmp_path / "new", *options)
    assert not (tmp_path / "new").exists()


def test_an_existing_target_is_replaced_only_if_asked(source, tmp_path):
    good("reshard", source, tmp_path / "new", "--chunk-bytes", "1K")
    bad(FAILURE, "reshard", source, tmp_path / "new", "--chunk-bytes", "2K")
    good("reshard", source, tmp_path / "new", "--chunk-bytes", "2K", "--force")
    assert json.loads(good("ls", tmp_path / "new", "params.embed", "--json"))[0]["chunk_shape"] == [16, 32]


def test_a_box_that_does_not_fit_the_memory_is_cut(tmp_path):
    """256 MiB in two boxes, from a sparse file, with the smallest --memory."""
    elements = 1 << 26
    header = json.dumps({"big": {"dtype": "F32", "shape": [elements], "data_offsets": [0, 4 * elements]}}).encode()
    with open(tmp_path / "big.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 4 * elements)
    report = json.loads(good("reshard", tmp_path / "big.safetensors", tmp_path / "new", "--mesh", "x=2", "--spec", "big=x", "--memory", "64MiB", "--json"))
    assert report["arrays"][0]["box"] == [elements // 2]
    chunk = json.loads(good("ls", tmp_path / "new", "--json"))[0]["chunk_shape"][0]
    assert 4 * chunk < 32 << 20 and elements // 2 % chunk == 0
