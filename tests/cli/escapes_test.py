"""Text from files cannot control a terminal: hostile characters in every field of every format, on both streams of every command."""

import concurrent.futures
import io
import json
import os
import shutil
import struct
import unicodedata
import zipfile

import flax.serialization
import msgpack
import numpy as np
import pytest
import safetensors.numpy

from command import GOOD, ROOT, good, run
from terminal_test import on_terminal

# ESC, CR, NUL, tab, newline, DEL, a right-to-left override and isolate, a zero-width space, a line separator, an Arabic letter mark, and CSI and
# NEL as single characters.
EVIL = "E\x1b[31mC\rN\0T\tL\nD\x7fB\u202ei\u2066Z\u200bP\u2028M\u061cX\x9b1mY\x85"
NAME = EVIL.replace("\0", "")  # for places where the system does not accept NUL
SHOWN = r"E\x1b[31mC\x0dN\x00T\x09L\x0aD\x7fB\u202ei\u2066Z\u200bP\u2028M\u061cX\u009b1mY\u0085"
SHOWN_NAME = SHOWN.replace(r"\x00", "")
GOLDEN = ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8"


def unseen(text):
    """The characters that would control a terminal or deceive its reader."""
    found = [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]
    return found + ["a newline from the file"] * ("L\nD" in text)


def check(done):
    for stream in (done.stdout, done.stderr):
        assert not unseen(stream.decode()), (done.args, stream)
    return done


READING = [
    ["ls"], ["ls", "-l"], ["ls", "--names"], ["ls", "--json"], ["info"], ["info", "--json"], ["tree"], ["tree", "--sharding"], ["stats"], ["verify"],
    ["verify", "--json"], ["dump"], ["clean", "--dry-run"], ["compact"],
]


def commands(path, scratch, few=False):
    """Every command that reads `path`. With `few`, only some of them, which together print everything that the others print."""
    reading = [["ls", "-l"], ["info"], ["tree", "--sharding"], ["verify"]] if few else READING
    yield from ([*command, path] for command in reading)
    yield ["convert", path, scratch / "out.npz", "--dry-run", "--skip-unsupported"]
    if few:
        return
    yield ["diff", path, scratch / "other.safetensors"]
    yield ["diff", path, scratch / "other.safetensors", "--json"]
    yield ["convert", path, scratch / "out.npz", "--dry-run"]
    yield ["convert", path, scratch / "out", "--to", "orbax", "--dry-run", "--json"]
    yield ["reshard", path, scratch / "out", "--chunk-bytes", "1M", "--dry-run"]
    yield ["cat", path]
    yield ["cat", path, NAME]
    yield ["cat", path, NAME + "x"]  # triggers suggestions of similar names
    yield ["cat", path, NAME, "--slice", NAME]
    yield ["cat", path, NAME, "--npy"]
    yield ["ls", path, NAME + "x"]


@pytest.fixture
def scratch(tmp_path):
    safetensors.numpy.save_file({"w": np.ones(3, np.float32)}, tmp_path / "other.safetensors")
    return tmp_path


def check_all(paths, scratch, few=False):
    """Runs all commands on all paths, checks their output, and returns it as one string."""
    work = [command for path in paths for command in commands(path, scratch, few)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        # The raw bytes of a tensor or string are for programs, so they are not checked.
        done = [check(d) for d in pool.map(lambda command: run(*command), work) if "--npy" not in d.args or d.returncode != GOOD]
    assert not [d.args for d in done if d.returncode not in range(4)]
    assert {d.returncode for d in done} - {2}, "every file was refused at the door"
    return b"".join(d.stdout + d.stderr for d in done).decode()


# ---- files of one format ----


def safetensors_bytes(header, data=b"\0" * 12):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def npy_bytes(header, data=b"\0" * 24):
    text = header.encode("latin-1", "replace") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def npz_bytes(name, content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        entry = zipfile.ZipInfo("x.npy")
        entry.filename = name  # set afterwards, because zipfile cuts names at NUL
        archive.writestr(entry, content)
    return out.getvalue()


def flax_array(shape, dtype, data):
    return msgpack.ExtType(1, msgpack.packb((shape, dtype, data)))


def hostile_files():
    whole = {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}
    yield "name.safetensors", safetensors_bytes({EVIL: whole})
    yield "raw-name.safetensors", safetensors_bytes(json.dumps({EVIL: whole}, ensure_ascii=False).encode())
    yield "dtype.safetensors", safetensors_bytes({"w": whole | {"dtype": EVIL}})
    yield "dtype-of-name.safetensors", safetensors_bytes({EVIL: whole | {"dtype": EVIL}})
    yield "member.safetensors", safetensors_bytes({"w": whole | {EVIL: 1}})
    yield "offsets.safetensors", safetensors_bytes({EVIL: whole | {"data_offsets": [0, 13]}})
    yield "shape.safetensors", safetensors_bytes({EVIL: whole | {"shape": EVIL}})
    yield "kind.safetensors", safetensors_bytes({EVIL: EVIL})
    yield "metadata.safetensors", safetensors_bytes({"__metadata__": {EVIL: EVIL}, "w": whole})
    yield "metadata-kind.safetensors", safetensors_bytes({"__metadata__": {EVIL: [1]}, "w": whole})
    yield "twice.safetensors", safetensors_bytes(f"{{{json.dumps(EVIL)}: {json.dumps(whole)}, {json.dumps(EVIL)}: {json.dumps(whole)}}}".encode())
    yield "broken-json.safetensors", safetensors_bytes(b'{"\x1b[31m\r\x7f": \x1b[0m}')
    yield "names.safetensors.index.json", json.dumps({"metadata": {EVIL: EVIL}, "weight_map": {EVIL: "name.safetensors"}}).encode()
    yield "lost.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": {EVIL: "other.safetensors"}}).encode()
    yield "file.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": {"w": EVIL}}).encode()
    yield "file-name.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": {"w": NAME}}).encode()
    header = "{{'descr': {!r}, 'fortran_order': False, 'shape': (3,), }}"
    yield "descr.npy", npy_bytes(header.format("<f8").replace("<f8", "\x1b[31m\r\x7f\x9b"))
    yield "descr-escaped.npy", npy_bytes(header.format(EVIL.encode("latin-1", "replace").decode("latin-1")))
    yield "descr-opaque.npy", npy_bytes(header.format("<f8").replace("'<f8'", "[('a\x1b[31m\r\x00', '<f8')]"))
    yield "key.npy", npy_bytes(header.format("<f8").replace("fortran_order", "\x1b[31m\r"))
    yield "order.npy", npy_bytes(header.format("<f8").replace("False", "\x1b[31m\r\x00"))
    yield "nul.npz", npz_bytes(EVIL + ".npy", npy_bytes(header.format("<f8")))
    yield "name.npz", npz_bytes(NAME + ".npy", npy_bytes(header.format("<f8")))
    yield "descr.npz", npz_bytes(NAME + ".npy", npy_bytes(header.format("<f8").replace("<f8", "\x1b[31m\r\x7f\x9b")))
    yield "string.npz", npz_bytes("w.npy", npy_bytes(header.format("|S8"), b"\x1b[31m\r\0\7" * 3))
    array = flax_array((3,), "float32", b"\0" * 12)
    yield "key.msgpack", msgpack.packb({EVIL: array, "nested": {EVIL: {EVIL: array}}})
    yield "string.msgpack", msgpack.packb({"w": [EVIL, EVIL], EVIL: EVIL})
    yield "dtype.msgpack", msgpack.packb({EVIL: flax_array((3,), EVIL, b"\0" * 12)})
    yield "length.msgpack", msgpack.packb({EVIL: flax_array((3,), "float32", b"\0")})
    yield "type.msgpack", msgpack.packb({EVIL: msgpack.ExtType(77, EVIL.encode())})
    yield "bad-key.msgpack", msgpack.packb({"a": array, b"\x1b[31m\xff": array})
    yield "json.json", json.dumps({EVIL: EVIL}, ensure_ascii=False).encode()
    yield "broken.json", b'{"a": "\x1b[31m\r'
    yield "anything", EVIL.encode()
    yield "\udcff\x1b[31m\r" + NAME, b"no checkpoint"
    yield NAME + ".safetensors", safetensors_bytes({"w": whole})
    yield NAME + ".npz", b"PK"


def test_every_field_of_single_files(scratch):
    paths = []
    for name, content in hostile_files():
        path = scratch / name if "\udcff" not in name else os.fsdecode(os.fsencode(str(scratch)) + b"/\xff\x1b[31m\r")
        with open(path, "wb") as file:
            file.write(content)
        paths.append(path)
    text = check_all(paths, scratch)
    assert SHOWN in text and SHOWN_NAME in text and r"\xff\x1b[31m\x0d" in text


def test_names_stay_what_they_are_for_programs(scratch):
    whole = {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}
    (scratch / "a.safetensors").write_bytes(safetensors_bytes({EVIL: whole, "__metadata__": {"a": EVIL + "\U000e0041"}}))
    assert json.loads(good("ls", "--json", scratch / "a.safetensors"))[0]["name"] == EVIL
    assert json.loads(good("info", "--json", scratch / "a.safetensors"))["custom_metadata"] == {"a": EVIL + "\U000e0041"}
    assert json.loads(good("dump", scratch / "a.safetensors"))[EVIL] == whole
    flax_file = scratch / "a.msgpack"
    flax_file.write_bytes(flax.serialization.msgpack_serialize({"s": EVIL}))
    assert run("cat", flax_file, "s").stdout.decode() == EVIL + "\n"


# ---- TensorFlow: keys, tensor names in errors, the state file ----


def test_every_field_of_tensorflow(scratch):
    (scratch / "source.msgpack").write_bytes(msgpack.packb({EVIL: flax_array((3,), "float32", b"\0" * 12), "s": EVIL, "t": {EVIL: EVIL}}))
    good("convert", scratch / "source.msgpack", scratch / "tf", "--to", "tensorflow", "--no-latest")
    good("convert", scratch / "source.msgpack", scratch / "names", "--to", "tensorflow", "--names", "--no-latest")
    (scratch / "damaged.index").write_bytes((scratch / "names.index").read_bytes())
    (scratch / "damaged.data-00000-of-00001").write_bytes((scratch / "names.data-00000-of-00001").read_bytes()[:-3])
    (scratch / "state").mkdir()
    (scratch / "state" / "checkpoint").write_text(f'model_checkpoint_path: "{NAME}"\nall_model_checkpoint_paths: "{NAME}"\n')
    (scratch / "text").mkdir()
    (scratch / "text" / "checkpoint").write_bytes(b'model_checkpoint_path: "a\x1b[31m\n\r"\n' + EVIL.encode())
    text = check_all([scratch / "tf", scratch / "names", scratch / "damaged", scratch / "state", scratch / "text", scratch / "tf.index"], scratch)
    assert SHOWN in text


# ---- Orbax: every string of every JSON file ----


def places(value, at=()):
    """The paths of all strings and keys in JSON, including JSON inside strings. Of a list, only the first entry is visited."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield (*at, ("key", key))
            yield from places(below, (*at, key))
    elif isinstance(value, list):
        yield from places(value[0], (*at, 0)) if value else ()
    else:
        yield at
        if isinstance(value, str) and value.startswith("{"):
            yield from places(json.loads(value), (*at, "json"))


def with_evil(value, at):
    if not at:
        return EVIL
    head, *rest = at
    if isinstance(head, tuple):
        return {EVIL if key == head[1] else key: below for key, below in value.items()}
    if head == "json" and isinstance(value, str):
        return json.dumps(with_evil(json.loads(value), rest))
    if isinstance(value, list):
        return [with_evil(value[0], rest), *value[1:]]
    return value | {head: with_evil(value[head], rest)}


@pytest.mark.parametrize("name", ["tiny_files_zarr2", "tiny_files_zarr3", "tiny_v1"])
def test_every_field_of_orbax(scratch, name):
    paths = []
    for file in sorted((GOLDEN / name).rglob("*")):
        try:
            content = json.loads(file.read_text())
        except (OSError, ValueError):
            continue
        for place in places(content):
            path = scratch / str(len(paths))
            shutil.copytree(GOLDEN / name, path, copy_function=os.link)
            target = path / file.relative_to(GOLDEN / name)
            target.unlink()
            target.write_text(json.dumps(with_evil(content, place), ensure_ascii=False))
            paths.append(path)
    assert len(paths) > 30
    assert SHOWN in check_all(paths, scratch, few=True)


def test_names_of_folders_and_databases(scratch):
    shutil.copytree(GOLDEN / "composite_one_item", scratch / "composite")
    (scratch / "composite" / "state").rename(scratch / "composite" / NAME)
    shutil.copytree(GOLDEN / "tiny_files_zarr2", scratch / NAME)
    shutil.copytree(GOLDEN / "tiny_manager", scratch / "root")
    shutil.copytree(GOLDEN / "tiny_manager" / "4", scratch / "root" / (NAME + ".orbax-checkpoint-tmp"))
    (scratch / "source.safetensors").write_bytes(safetensors_bytes({EVIL: {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}))
    good("convert", scratch / "source.safetensors", scratch / "database", "--to", "orbax")
    (scratch / "array").mkdir()
    (scratch / "array" / NAME).mkdir()
    (scratch / "array" / NAME / ".zarray").write_text((GOLDEN / "tiny_files_zarr2" / "w" / ".zarray").read_text())
    check_all([scratch / "composite", scratch / NAME, scratch / "root", scratch / "database", scratch / "array"], scratch)


# ---- text from rules and arguments ----


def test_rules_and_arguments(scratch):
    source = scratch / "other.safetensors"
    for rules in ({EVIL: 1}, {"rules": [{EVIL: "w"}]}, {"rules": [{"rename": EVIL, "to": "x"}]}, {"rules": [{"cast": "w", "dtype": EVIL}]},
                  {"rules": [{"rename": "w", "to": EVIL}]}):
        (scratch / "rules.json").write_text(json.dumps(rules, ensure_ascii=False))
        check(run("convert", source, scratch / "out.npz", "--transform", scratch / "rules.json", "--dry-run"))
    for args in (["ls", NAME], [NAME], ["ls", source, "--" + NAME], ["ls", source, "--step", NAME], ["ls", source, "--memory", NAME], ["ls", source, "--at-time", NAME],
                 ["convert", source, scratch / "out.npz", "--rename", NAME], ["convert", source, scratch / "out.npz", "--rename", f"({NAME}=x"],
                 ["convert", source, scratch / "out.npz", "--dtype", NAME], ["convert", source, scratch / "out", "--to", NAME], ["convert", source, NAME],
                 ["convert", source, scratch / "out.npz", "--include", NAME], ["reshard", source, "out", "--mesh", NAME], ["reshard", source, "out", "--spec", NAME],
                 ["bench", NAME], ["clean", NAME], ["compact", NAME], ["dump", NAME], ["dump", "--node", NAME], ["completion", NAME], ["cat", source, NAME], ["diff", source, NAME]):
        done = check(run(*args))
        assert done.returncode != GOOD and done.stderr, args


# ---- on a terminal ----


def test_on_a_terminal(scratch):
    colours = [f"\x1b[{code}m" for code in (0, 1, 2, 31, 32, 33, 36)]
    whole = {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}
    (scratch / "a.safetensors").write_bytes(safetensors_bytes({EVIL: whole, "__metadata__": {EVIL: EVIL}}))
    (scratch / "b.safetensors").write_bytes(safetensors_bytes({"w": whole | {"dtype": EVIL}}))
    (scratch / "c.msgpack").write_bytes(msgpack.packb({"a": EVIL}))
    strings = npy_bytes("{'descr': '|S8', 'fortran_order': False, 'shape': (3,), }", b"\x1b[31m\r\0\7" * 3)
    (scratch / "d.npy").write_bytes(strings)
    shown = {}
    for name in ("a.safetensors", "b.safetensors", "c.msgpack", "d.npy"):
        for command in (["ls"], ["ls", "-l"], ["ls", "--json"], ["info"], ["info", "--json"], ["tree"], ["stats"], ["verify"], ["cat"], ["dump"]):
            status, text = on_terminal(*command, scratch / name)
            assert status in range(4)
            text = text.replace("\r\n", "\n")  # the terminal adds the CR
            assert "E\x1b" not in text, (command, name, text)  # the file's own red, which looks like Cairn's red
            for colour in colours:
                text = text.replace(colour, "")
            assert not unseen(text), (command, name, text)
            shown[name, command[0]] = text
    assert shown["c.msgpack", "cat"] == SHOWN + "\n"
    assert SHOWN in shown["a.safetensors", "cat"] and SHOWN in shown["b.safetensors", "ls"]


def test_a_path_that_is_not_utf8_is_escaped_in_json(scratch):
    folder = os.fsencode(str(scratch)) + b"/\xff\xfe"
    np.savez(os.fsdecode(folder + b".npz"), a=np.ones(2))
    os.mkdir(folder + b".orbax-checkpoint-tmp")
    for command in (["info", folder + b".npz"], ["verify", folder + b".npz"], ["clean", "--dry-run", folder + b".orbax-checkpoint-tmp"],
                    ["convert", folder + b".npz", folder + b".safetensors"]):
        assert "\\\\xff\\\\xfe" in good(command[0], "--json", *map(os.fsdecode, command[1:])), command
