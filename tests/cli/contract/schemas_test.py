"""Every --json output is what its JSON Schema says: of good checkpoints, of damaged ones, and of what writes."""

import copy
import json
import random
import shutil

import jsonschema
import numpy as np
import pytest
import safetensors.numpy

from command import COMMANDS, FAILURE, GOOD, NO, ROOT, USAGE, good, run
from schemas import checked, schema, strict_json, validator

GOLDEN = ROOT / "tests" / "golden"
ORBAX = GOLDEN / "orbax" / "orbax-0.12.8"
CHECKPOINTS = sorted([*(path for path in ORBAX.iterdir() if path.is_dir()),
                      *(GOLDEN / "safetensors").glob("*/*.safetensors"), *(GOLDEN / "npz").glob("*/*.npz"), *(GOLDEN / "msgpack").glob("*/*.msgpack"),
                      *(GOLDEN / "pytorch").glob("*/*.pt"), *(GOLDEN / "tensorflow").glob("*/*.index"), *(path for path in (GOLDEN / "zarr" / "zarr-python-3.1.6").iterdir() if path.is_dir())])
READING = ["ls", "info", "tree", "du", "stats", "verify"]
SCHEMAS = sorted(path.stem for path in (ROOT / "cli" / "schemas").glob("*.json"))
ANY = (GOOD, NO, FAILURE)


def names_of(path):
    return str(path.relative_to(GOLDEN))


# ---- the schemas ----


def test_every_command_with_json_has_a_schema():
    with_json = [command for command in COMMANDS if "  --json " in good(command, "--help")]
    assert sorted([*with_json, "progress"]) == SCHEMAS == good("schema").split()


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas(name):
    """What the command prints is the file; it is valid, and says what it is of; equal names mean the same in all files."""
    assert schema(name) == json.loads((ROOT / "cli" / "schemas" / f"{name}.json").read_text())
    assert (ROOT / "docs" / "schemas" / f"{name}.json").is_file()
    validator(name)
    assert schema(name)["$id"] == f"urn:cairn:schema:{name}"
    assert schema(name)["title"].split(":")[0] == ("A line of --progress json" if name == "progress" else f"cairn {name} --json")
    for other in SCHEMAS:
        for shared in schema(name).get("$defs", {}).keys() & schema(other).get("$defs", {}).keys():
            assert schema(name)["$defs"][shared] == schema(other)["$defs"][shared], (shared, other)


def objects_of(part):
    if isinstance(part, dict):
        if "properties" in part:
            yield part
        for value in part.values():
            yield from objects_of(value)
    elif isinstance(part, list):
        for value in part:
            yield from objects_of(value)


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_undocumented_member_fails(name):
    assert all(part["additionalProperties"] is False for part in objects_of(schema(name)))


def test_validation_can_fail(folder):
    document = checked("info", folder / "a.safetensors")
    for change in ({"more": 1}, {"leaves": "6"}, {"leaves": -1}):
        with pytest.raises(jsonschema.ValidationError):
            validator("info").validate(document | change)
    del document["leaves"]
    with pytest.raises(jsonschema.ValidationError):
        validator("info").validate(document)


def test_an_unknown_schema_is_wrong_usage():
    done = run("schema", "nothing")
    assert done.returncode == USAGE and b"expected bench, clean" in done.stderr


# ---- commands that read ----


@pytest.mark.parametrize("path", CHECKPOINTS, ids=names_of)
def test_reading(path):
    documents = [checked(command, path, statuses=ANY) for command in READING]
    assert any(document is not None for document in documents) or "uncommitted" in path.name


@pytest.mark.parametrize("name", ["composite", "manager", "uncommitted", "placeholder", "rich_types"])
def test_options(name):
    path = ORBAX / name
    checked("ls", path, "--allow-uncommitted", statuses=ANY)
    checked("tree", path, "--depth", "1", "--allow-uncommitted", statuses=ANY)
    checked("du", path, "--depth", "3", "--allow-uncommitted", statuses=ANY)
    checked("verify", path, "--strict", "--unprotected", statuses=ANY)


@pytest.mark.parametrize("name", ["composite", "tiny_ocdbt_zarr2", "tiny_files_zarr3", "legacy_files", "sharded_zarr3", "manager"])
def test_damage(name, tmp_path):
    """Bytes are flipped, files are cut and removed."""
    rng = random.Random(name)
    seen = set()
    for turn in range(12):
        path = tmp_path / str(turn)
        shutil.copytree(ORBAX / name, path)
        file = rng.choice(sorted(each for each in path.rglob("*") if each.is_file()))
        if turn % 3 == 0:
            file.unlink()
        elif data := bytearray(file.read_bytes()):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            file.write_bytes(data if turn % 3 == 1 else data[:rng.randrange(len(data))])
        for command in READING:
            document = checked(command, path, statuses=ANY)
            if command == "verify" and document is not None:
                seen.add(document["verdict"])
        checked("diff", path, ORBAX / name, "--allow-missing", statuses=(GOOD, NO, USAGE, FAILURE))
        checked("steps", path, statuses=(GOOD, USAGE, FAILURE))
        checked("repair", path, tmp_path / f"{turn}.safetensors", "--fill", "zero", "--dry-run", statuses=(GOOD, NO, USAGE, FAILURE))
    assert "damaged" in seen


def test_errors_are_no_json(folder, tmp_path):
    for args in (["ls", "missing"], ["ls", folder / "note.txt"], ["verify", "missing"], ["convert", folder / "a.safetensors", folder / "a.msgpack"], ["steps", folder / "note.txt"],
                 ["doctor", "missing"]):
        assert checked(*args, statuses=(USAGE, FAILURE), cwd=tmp_path) is None


def test_metrics_that_json_lacks(tmp_path):
    """Python writes NaN into the metrics of a step."""
    root = tmp_path / "run"
    shutil.copytree(ORBAX / "manager", root)
    written = 0
    for file in root.glob("*/metrics/metrics"):
        file.write_text('{"loss": NaN, "best": Infinity, "n": 1}')
        written += 1
    if not written:
        step = next(path for path in root.iterdir() if path.is_dir())
        (step / "metrics").mkdir()
        (step / "metrics" / "metrics").write_text('{"loss": NaN, "best": Infinity, "n": 1}')
    found = [record["metrics"] for record in checked("steps", root) if record["metrics"]]
    assert {"loss": None, "best": None, "n": 1} in found


def test_numbers_that_json_lacks(folder, tmp_path):
    stats = {entry["name"]: entry for entry in checked("stats", folder / "a.safetensors")}
    assert stats["odd"]["nans"] == 1
    safetensors.numpy.save_file({"x": np.array([np.nan, np.inf])}, tmp_path / "x.safetensors")
    safetensors.numpy.save_file({"x": np.array([1.7e308, np.inf])}, tmp_path / "y.safetensors")
    assert checked("stats", tmp_path / "x.safetensors")[0]["min"] is None
    checked("diff", tmp_path / "x.safetensors", tmp_path / "y.safetensors", statuses=(NO,))


def test_custom_metadata_that_json_lacks(tmp_path):
    """Metadata may be any JSON that Python has written, NaN too."""
    path = shutil.copytree(ORBAX / "composite", tmp_path / "ckpt")
    file = path / "_CHECKPOINT_METADATA"
    metadata = json.loads(file.read_text())
    metadata["custom_metadata"] = {"lr": float("nan"), "limit": float("inf")}
    file.write_text(json.dumps(metadata))
    assert checked("info", path)["custom_metadata"] == {"lr": None, "limit": None}


# ---- commands that compare and write ----


def test_diff(folder, tensors, tmp_path):
    other = copy.deepcopy(tensors)
    other["params.embed"][3, 4] += 1
    other["odd"][1] = np.nan
    other["new"] = np.ones(3)
    other["mask"] = other["mask"].astype(np.int8)
    other["step"] = other["step"].reshape(1)
    del other["params.layers.0.w"]
    safetensors.numpy.save_file(other, tmp_path / "b.safetensors")
    document = checked("diff", folder / "a.safetensors", tmp_path / "b.safetensors", statuses=(NO,))
    assert {leaf["state"] for leaf in document["leaves"]} == {"different", "only_in_a", "only_in_b"}
    checked("diff", folder / "a.safetensors", tmp_path / "b.safetensors", "--ignore-dtype", "--rtol", "1", statuses=(NO,))
    checked("diff", folder / "a.msgpack", folder / "a.safetensors", statuses=(NO,))
    checked("diff", ORBAX / "rich_types", ORBAX / "dtypes_zarr2", statuses=(NO,))


def test_verify_several(folder):
    several = checked("verify", folder / "a.safetensors", folder / "big.safetensors")
    assert several["checked"] == 2
    checked("verify", ORBAX / "manager", "--all-steps")
    checked("stats", ORBAX / "manager", "--all-steps")


@pytest.mark.parametrize("to", ["safetensors", "npz", "msgpack", "torch", "dcp", "tensorflow", "orbax", "orbax-zarr3", "orbax-files"])
def test_convert(to, folder, tmp_path):
    report = checked("convert", folder / "a.safetensors", tmp_path / "x", "--to", to, "--dtype", "float16", "--rename", "^mask$=m")
    assert report["cast"] > 0 and report["renamed"]
    checked("convert", ORBAX / "composite", tmp_path / "y", "--to", to, "--skip-unsupported", "--dry-run", statuses=(GOOD, USAGE))


def test_dequantize(tmp_path):
    report = checked("convert", GOLDEN / "quantized" / "packed", tmp_path / "x.safetensors", "--dequantize")
    assert report["dequantized"]


def test_merge(folder, tensors, tmp_path):
    safetensors.numpy.save_file(tensors | {"step": np.array(18, np.int64)}, tmp_path / "b.safetensors")
    report = checked("merge", folder / "a.safetensors", tmp_path / "b.safetensors", "-o", tmp_path / "c.safetensors", "--take-first")
    assert report["taken_first"]


def test_repair(tmp_path):
    path = shutil.copytree(ORBAX / "tiny_files_zarr3", tmp_path / "ckpt")
    chunk = max((file for file in path.rglob("*") if file.is_file() and "c" in file.relative_to(path).parts), key=lambda file: file.stat().st_size)
    chunk.write_bytes(b"damaged")
    report = checked("repair", path, tmp_path / "out", "--to", "orbax", "--fill", "zero", statuses=(GOOD, NO))
    assert report["filled"] + report["lost"] > 0


def test_writing(folder, tmp_path):
    good("convert", folder / "a.safetensors", tmp_path / "ckpt", "--to", "orbax")
    assert checked("compact", tmp_path / "ckpt")
    assert checked("reshard", tmp_path / "ckpt", tmp_path / "small", "--chunk-bytes", "1024")["arrays"]
    checked("report", tmp_path / "ckpt", "-o", tmp_path / "a.html")
    checked("report", tmp_path / "ckpt", folder / "a.safetensors", "--no-verify", "-o", tmp_path / "b.html")


def test_managers(tmp_path):
    root = shutil.copytree(ORBAX / "manager", tmp_path / "run")
    assert checked("steps", root)
    assert {step["outcome"] for step in checked("prune", root, "--keep-last", "1", "--dry-run")} <= {"kept", "removed"}
    shutil.copytree(next(path for path in root.iterdir() if path.is_dir()), root / "9.orbax-checkpoint-tmp")
    assert checked("clean", root, "--dry-run", statuses=(GOOD, FAILURE))


def test_models_and_bench(tmp_path):
    assert len(checked("models")) > 3
    assert checked("bench", tmp_path, "--size", "32MiB", "--threads", "1,2")["by_threads"]
    assert sorted(tmp_path.iterdir()) == []


def test_doctor(tmp_path):
    assert checked("doctor", statuses=(GOOD, NO))["path"] is None
    assert checked("doctor", tmp_path)["path"] == str(tmp_path)


def test_strict_json_refuses_what_json_lacks():
    with pytest.raises(ValueError, match="NaN"):
        strict_json("[NaN]")
