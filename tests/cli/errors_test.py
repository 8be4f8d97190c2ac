"""Errors are reported with the right exit status, and nothing is lost: exceptions, full disks, permissions, empty selections, targets."""

import json
import os
import pathlib
import random
import re
import shutil
import socket
import stat
import subprocess

import msgpack
import numpy as np
import pytest
import safetensors.numpy

from command import CAIRN, COMMANDS, FAILURE, GOOD, NO, ROOT, USAGE, bad, good, run

GOLDEN = ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8"


# ---- every exception becomes a message ----


PATH_ARGUMENTS = [["ls", ""], ["info", ""], ["tree", ""], ["cat", ""], ["cat", "CKPT", "odd", "--raw", "-o", ""], ["stats", ""], ["diff", "", "CKPT"], ["diff", "CKPT", ""],
                  ["verify", ""], ["convert", "", "x.npz"], ["convert", "CKPT", ""], ["convert", "CKPT", "", "--to", "orbax"], ["convert", "CKPT", "x.npz", "--transform", ""],
                  ["reshard", "", "x"], ["reshard", "CKPT", "", "--chunk-bytes", "1K"], ["compact", ""], ["clean", ""], ["bench", ""], ["doctor", ""], ["dump", ""]]


@pytest.mark.parametrize("args", PATH_ARGUMENTS, ids=repr)
def test_an_empty_path_is_wrong_usage(folder, args):
    assert "the path is empty" in bad(USAGE, *(folder / "a.safetensors" if a == "CKPT" else a for a in args))


@pytest.mark.parametrize("args", [["ls", "x"], ["verify", "x"], ["convert", "CKPT", "x", "--to", "orbax"], ["convert", "CKPT", "x.npz"], ["reshard", "CKPT", "x", "--chunk-bytes", "1K"],
                                  ["cat", "CKPT", "odd", "--npy", "-o", "x"], ["compact", "x"], ["clean", "x"], ["bench"], ["doctor", "."], ["dump", "x"]], ids=" ".join)
def test_a_removed_working_directory(folder, tmp_path, args):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = [CAIRN, *(str(folder / "a.safetensors") if a == "CKPT" else a for a in args)]
    done = subprocess.run(["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', gone, *command], capture_output=True, timeout=60)
    assert done.returncode == FAILURE and done.stderr.startswith(b"cairn: "), done
    assert len(done.stderr.splitlines()) == 1 and b"unexpected" not in done.stderr


@pytest.mark.parametrize("args", [["--help"], ["--version"], *([command, "--help"] for command in COMMANDS), ["ls", "CKPT"], ["ls", "--json", "CKPT"], ["info", "CKPT"],
                                  ["tree", "CKPT"], ["cat", "CKPT", "odd"], ["cat", "CKPT", "odd", "--npy"], ["stats", "CKPT"], ["diff", "CKPT", "CKPT"], ["verify", "CKPT"],
                                  ["convert", "CKPT", "x.npz", "--dry-run"], ["dump", "CKPT"], ["clean", "FOLDER"], ["doctor", "FOLDER"], ["schema", "ls"], ["completion", "zsh"]], ids=" ".join)
def test_a_full_standard_output_is_a_failure(folder, args):
    args = [str({"CKPT": folder / "a.safetensors", "FOLDER": folder}.get(a, a)) for a in args]
    with open("/dev/full", "wb") as full:
        done = subprocess.run([CAIRN, *args], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == FAILURE and done.stderr == b"cairn: standard output: No space left on device\n", done
    done = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', CAIRN, *args], stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == FAILURE and b"standard output: Bad file descriptor" in done.stderr, done


@pytest.mark.parametrize("args,status", [(["ls", "nope"], FAILURE), (["nosuch"], USAGE), ([], USAGE), (["ls", "CKPT", "nothing*"], NO), (["verify", "CKPT", "--progress", "always"], GOOD)], ids=str)
def test_a_full_standard_error_changes_no_status(folder, args, status):
    args = [str(folder / "a.safetensors") if a == "CKPT" else a for a in args]
    with open("/dev/full", "wb") as full:
        done = subprocess.run([CAIRN, *args], stdout=subprocess.DEVNULL, stderr=full, timeout=60)
    assert done.returncode == status


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("target", ["x.safetensors", "x.npz", "x.msgpack", "x.index", "x"])
def test_messages_never_get_into_a_file(folder, tmp_path, target, closed):
    """Without standard streams, a file of the target could get the number of one."""
    for source in ["a.safetensors", "big.safetensors"]:
        command = ["convert", folder / source, *(["--to", "orbax"] if target == "x" else []), "--force", "--progress", "always"]
        assert run(*command, tmp_path / f"wanted-{target}").returncode == GOOD
        done = subprocess.run(["sh", "-c", f'exec "$0" "$@" {closed}', CAIRN, *map(str, command), tmp_path / target], capture_output=True, timeout=60)
        assert done.returncode == (FAILURE if ">&- 2" in closed else GOOD)  # without a place for the report
        good("diff", "--quiet", tmp_path / f"wanted-{target}", tmp_path / target)


def test_help_of_a_command_that_does_not_exist():
    assert bad(USAGE, "nosuch", "--help") == "cairn: The following argument was not expected: nosuch"


@pytest.mark.parametrize("name", ["x.safetensors", "x.npz", "x.msgpack"])
def test_a_missing_folder_is_named(folder, tmp_path, name):
    message = bad(FAILURE, "convert", folder / "a.safetensors", tmp_path / "missing" / name)
    assert message.endswith(f"cannot write it: there is no folder {tmp_path / 'missing'}") and "cairn-tmp" not in message, message


# ---- numbers ----


@pytest.mark.parametrize("option", ["--step", "--threads", "--generation", "--step-b"])
@pytest.mark.parametrize("number", ["99999999999999999999", "9223372036854775808000", "-9223372036854775809", "0x10", "1.5", "1e3", "", "+ 1", "1 "])
def test_numbers_beyond_64_bits_are_wrong_usage(folder, option, number):
    path = folder / "a.safetensors"
    assert option in bad(USAGE, "diff", path, path, f"{option}={number}")


EMPTY_VALUES = [["diff", "CKPT", "CKPT", "--rtol"], ["diff", "CKPT", "CKPT", "--atol"]] + [
    ["convert", "CKPT", "out", option] for option in ("--shard-bytes", "--chunk-bytes", "--target-file-bytes")
] + [["reshard", "CKPT", "out", option] for option in ("--chunk-bytes", "--target-file-bytes")]


@pytest.mark.parametrize("args", EMPTY_VALUES, ids=" ".join)
def test_an_empty_value_is_wrong_usage(folder, args):
    path = folder / "a.safetensors"
    message = bad(USAGE, *(path if arg == "CKPT" else arg for arg in args), "")
    assert "the value is empty" in message and args[-1] in message


def test_stats_beyond_float64_are_no_numbers(tmp_path):
    np.savez(tmp_path / "a.npz", w=np.array([1.7e308, 1.7e308, -1.7e308]))
    shown = good("stats", tmp_path / "a.npz")
    assert "nan" not in shown and "inf " not in shown and "1.7e+308" in shown


def test_numbers_are_decimal():
    assert "step 10 is not in" in bad(FAILURE, "ls", GOLDEN / "tiny_manager", "--step", "010")
    good("ls", GOLDEN / "tiny_manager", "--step", "004")
    bad(USAGE, "compact", GOLDEN / "tiny_manager", "--step", "99999999999999999999")
    for node in ("f:-5:3", "f:1:-3", "f:99999999999999999999:1", "f:0x1:1", "f: 1:1"):
        assert "64 bits" in bad(USAGE, "dump", "--node", node)
    bad(USAGE, "dump", "f", "--shard-index", "99999999999999999999")


# ---- --rename ----


def rename(scratch, names, *rules):
    """The new names, in the order of the old ones, or the error message."""
    (scratch / "s.msgpack").write_bytes(msgpack.packb({name: i for i, name in enumerate(names)}))
    done = run("convert", scratch / "s.msgpack", scratch / "t.msgpack", "--force", *(word for rule in rules for word in ("--rename", rule)))
    if done.returncode != GOOD:
        assert done.returncode == USAGE, done
        return done.stderr.decode()
    renamed = {value: name for name, value in msgpack.unpackb((scratch / "t.msgpack").read_bytes()).items()}
    return [renamed[i] for i in range(len(names))]


def test_rename(tmp_path):
    names = ["params.layers.0.w", "params.layers.12.b"]
    for rules, want in [
        ([r"^params\.="], ["layers.0.w", "layers.12.b"]),
        ([r"layers\.(\d+)\.(\w+)=\2\1"], ["params.w0", "params.b12"]),
        ([r"^params\.=", r"^layers\.=l"], ["l0.w", "l12.b"]),
        ([r"\.=/"], ["params/layers/0/w", "params/layers/12/b"]),
        ([r"(?P<n>\d+)=<\1>"], ["params.layers.<0>.w", "params.layers.<12>.b"]),
        ([r"\d+=[\g<0>]"], ["params.layers.[0].w", "params.layers.[12].b"]),
        ([r"params=\0441$x$"], ["$1$x$.layers.0.w", "$1$x$.layers.12.b"]),
        ([r"(a)r=\g<1>2"], ["pa2ams.layers.0.w", "pa2ams.layers.12.b"]),
        ([r"(q)?params=<\1>"], ["<>.layers.0.w", "<>.layers.12.b"]),
        ([r"(?i)PARAMS\x3d?=p"], ["p.layers.0.w", "p.layers.12.b"]),
        (["x*$=!"], ["params.layers.0.w!", "params.layers.12.b!"]),
        ([r"(?!w)\w$=bias"], ["params.layers.0.w", "params.layers.12.bias"]),
        ([r"params=\\1"], [r"\1.layers.0.w", r"\1.layers.12.b"]),
    ]:
        assert rename(tmp_path, names, *rules) == want, rules
    assert rename(tmp_path, ["ö.ü", "日本"], "[^.]=-") == ["-.-", "--"]
    for bad in (r"(a)=\2", r"(q)=\2"):  # even if nothing matches
        assert "invalid group reference 2" in rename(tmp_path, names, bad)
    # what Cairn took before
    assert r"'\1' is a group" in rename(tmp_path, names, "(a)=x$1")
    assert r"'\g<0>' is the whole match" in rename(tmp_path, names, "(a)=$&")
    assert "'$' stands for itself" in rename(tmp_path, names, "(a)=$$")
    assert "missing )" in rename(tmp_path, names, "(=x")
    assert "nothing to repeat" in rename(tmp_path, names, "*=x")


def test_rename_of_long_names(tmp_path):
    """std::regex recursed on each of these names until the stack overflowed."""
    long = "n" * 40_000
    assert rename(tmp_path, [long, "a"], "(n|m)*=x") == ["xx", "xax"]  # like re.sub, it also matches the empty string at the end
    assert rename(tmp_path, [long], r"(.|x)+=\g<0>y") == [long + "y"]
    assert rename(tmp_path, [long], "n=mm") == ["mm" * len(long)]
    (tmp_path / "t.msgpack").unlink()
    assert "limit" in rename(tmp_path, [long], r"(n+)+(?<!n)=x") and not (tmp_path / "t.msgpack").exists()


@pytest.mark.parametrize("seed", range(40))
def test_rename_is_pythons_sub(tmp_path, seed):
    draw = random.Random(seed)
    atoms = ["a", "b", "c", ".", "[ab]", "[^a]", r"\w", r"\b", "^", "$", "(a)", "(b|c)", "(?:ab)", "(a*)", "(?!a)", "(?<!b)", "", "ö"]
    pattern = "".join(draw.choice(atoms[:8] + atoms[10:]) + draw.choice(["", "", "*", "?", "+", "{0,2}", "*?"]) if draw.random() < 0.8 else draw.choice(atoms) for _ in range(draw.randint(1, 4)))
    try:
        groups = re.compile(pattern).groups
    except re.error:
        assert "regular expression" in rename(tmp_path, ["a"], f"{pattern}=x")
        return
    names = sorted({"".join(draw.choice("abcö ") for _ in range(draw.randint(0, 8))) for _ in range(40)})
    text = draw.choice([r"<\g<0>>", "-", "", r"\\", r"\044", r"\t"]) + (draw.choice([r"\1", r"\g<1>2"]) if groups else "")
    want = [re.sub(pattern, text, name) for name in names]
    kept = [i for i in range(len(names)) if want.count(want[i]) == 1]  # the other names would collide
    assert rename(tmp_path, [names[i] for i in kept], f"{pattern}={text}") == [want[i] for i in kept], (pattern, text)


# ---- selection ----


def test_nothing_selected_writes_nothing(folder, tmp_path):
    source = folder / "a.safetensors"
    old = tmp_path / "old.npz"
    good("convert", source, old)
    before = old.read_bytes()
    for target, to in ((old, "npz"), (tmp_path / "new.npz", "npz"), (tmp_path / "new.msgpack", "msgpack"), (tmp_path / "new.safetensors", "safetensors"),
                       (tmp_path / "new", "tensorflow"), (tmp_path / "new", "orbax"), (tmp_path / "new", "orbax-files")):
        for choice in (["--include", "typo*"], ["--exclude", "*"], ["--include", "odd", "--exclude", "o*"], ["--include", "typo*", "--dry-run"]):
            message = bad(NO, "convert", source, target, "--to", to, "--force", *choice)
            assert "nothing is selected" in message and choice[1] in message
    assert old.read_bytes() == before and list(tmp_path.iterdir()) == [old]
    # An empty selection from the results of transform rules also writes nothing.
    (tmp_path / "rules.json").write_text(json.dumps({"rules": [{"rename": "odd", "to": "even"}]}))
    assert "odd" in bad(NO, "convert", source, tmp_path / "new.npz", "--transform", tmp_path / "rules.json", "--include", "odd")
    assert "item" in bad(FAILURE, "convert", GOLDEN / "composite_one_item", tmp_path / "new.npz", "--item", "typo")
    assert not (tmp_path / "new.npz").exists()


def test_nothing_the_format_holds_writes_nothing(tmp_path):
    (tmp_path / "s.msgpack").write_bytes(msgpack.packb({"a": "text", "b": "more"}))
    message = bad(USAGE, "convert", tmp_path / "s.msgpack", tmp_path / "t.npz", "--skip-unsupported")
    assert "any of the 2" in message and "a (a string)" in message
    assert not (tmp_path / "t.npz").exists()


def test_an_empty_checkpoint_stays_one(tmp_path):
    (tmp_path / "empty.msgpack").write_bytes(msgpack.packb({}))
    for target, to in (("a.npz", "npz"), ("a.safetensors", "safetensors")):
        good("convert", tmp_path / "empty.msgpack", tmp_path / target, "--to", to, "--skip-unsupported")
        assert json.loads(good("ls", "--json", tmp_path / target)) == []
        good("convert", tmp_path / target, tmp_path / "back.npz", "--force")
    good("convert", tmp_path / "a.npz", tmp_path / "b.npz", "--include", "*")
    assert good("diff", tmp_path / "a.npz", tmp_path / "b.npz").startswith("same")


def test_globs_that_match_nothing(folder):
    path = folder / "a.safetensors"
    assert "no tensor matches 'typo*'" in bad(NO, "ls", path, "typo*")
    assert "no array matches 'typo*'" in bad(NO, "stats", path, "typo*")
    for choice in (["typo*"], ["--include", "typo*"], ["--exclude", "*"], ["--include", "odd", "--exclude", "odd"]):
        assert "nothing was compared" in bad(NO, "diff", path, path, *choice)
        assert run("diff", path, path, *choice, "--json").returncode == NO


def test_diff_of_a_damaged_checkpoint_says_why(tmp_path):
    whole = GOLDEN / "direct_ocdbt_zarr2"
    shutil.copytree(whole, tmp_path / "ckpt")
    good("compact", tmp_path / "ckpt")
    data = max((tmp_path / "ckpt").glob("d/*"), key=lambda file: file.stat().st_size)
    data.write_bytes(data.read_bytes()[:-1])
    for sides, side in (([whole, tmp_path / "ckpt"], "in B: "), ([tmp_path / "ckpt", whole], "in A: ")):
        for json_option in ([], ["--json"]):
            done = run("diff", *sides, *json_option)
            message = done.stderr.decode()
            assert done.returncode == FAILURE and len(message.splitlines()) == 1, done
            assert "cannot be read, the first: " in message and side in message and data.name in message


# ---- targets that may be replaced ----


@pytest.fixture
def odd_targets(tmp_path):
    """Targets other than regular files. The name of each is the word that messages use for its kind."""
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "directory").mkdir()
    (folder / "file").write_bytes(b"precious")
    (folder / "symbolic link").symlink_to("file")
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.relpath(folder / "socket"))
    yield folder
    server.close()


def snapshot(folder):
    return {str(p.relative_to(folder)): (stat.S_IFMT(p.lstat().st_mode), p.lstat().st_ino, os.readlink(p) if p.is_symlink() else "") for p in folder.rglob("*")}


def test_only_regular_files_are_replaced(folder, odd_targets):
    source = folder / "a.safetensors"
    before = snapshot(odd_targets)
    targets = [(odd_targets / name, name) for name in ("directory", "symbolic link", "pipe", "socket")]
    targets += [(odd_targets / "dangling", "symbolic link"), (pathlib.Path("/dev/full"), "device"), (pathlib.Path("/dev/stdout"), "symbolic link")]
    for target, kind in targets:
        for args in (["cat", source, "odd", "--npy", "-o", target], ["cat", source, "odd", "--raw", "-o", target], *(["convert", source, target, "--to", to, "--force"] for to in ("npz", "msgpack", "safetensors")),
                     ["convert", source, target, "--to", "npz", "--force", "--dry-run"]):
            message = bad(FAILURE, *args)
            assert f"{target}: is a {kind}, not a regular file; it is not replaced" in message
    assert snapshot(odd_targets) == before and (odd_targets / "file").read_bytes() == b"precious"
    assert stat.S_ISCHR(os.lstat("/dev/full").st_mode) and os.path.islink("/dev/stdout")


def test_no_file_of_the_source_is_replaced(folder, tmp_path):
    shutil.copy(folder / "a.safetensors", tmp_path / "a.safetensors")
    os.link(tmp_path / "a.safetensors", tmp_path / "second-name")
    for target in ("a.safetensors", "second-name", "./a.safetensors", "../" + tmp_path.name + "/a.safetensors"):
        message = bad(FAILURE, "cat", tmp_path / "a.safetensors", "odd", "--npy", "-o", f"{tmp_path}/{target}")
        assert "is a file of the source checkpoint, so Cairn does not replace it" in message
    # A sharded set protects its shards and its index.
    sharded = tmp_path / "set"
    sharded.mkdir()
    good("convert", folder / "a.safetensors", sharded / "m.safetensors", "--shard-bytes", "4K")
    good("convert", folder / "a.safetensors", tmp_path / "tf", "--to", "tensorflow")
    for name in ("tiny_files_zarr2", "tiny_v1", "tiny_manager"):
        shutil.copytree(GOLDEN / name, tmp_path / name)
    (tmp_path / "tiny_v1" / "link").symlink_to(folder / "note.txt")
    checks = [(sharded / "m.safetensors.index.json", list(sharded.iterdir()), "odd"),
              (tmp_path / "tf", [*tmp_path.glob("tf.*"), tmp_path / "checkpoint"], "odd/.ATTRIBUTES/VARIABLE_VALUE"),
              (tmp_path / "tiny_files_zarr2", [p for p in (tmp_path / "tiny_files_zarr2").rglob("*") if p.is_file()], "w"),
              (tmp_path / "tiny_v1", [folder / "note.txt", *(p for p in (tmp_path / "tiny_v1").rglob("*") if p.is_file() and not p.is_symlink())], "w"),
              (tmp_path / "tiny_manager", [p for p in (tmp_path / "tiny_manager" / "4").rglob("*") if p.is_file()], "w")]
    for source, files, leaf in checks:
        assert len(files) >= 2
        contents = [file.read_bytes() for file in files]
        for file in files:
            assert "is a file of the source checkpoint" in bad(FAILURE, "cat", source, leaf, "--raw", "-o", file), (source, file)
            assert "is a file of the source checkpoint, so Cairn does not replace it" in bad(FAILURE, "convert", source, file, "--to", "npz", "--force", "--skip-unsupported")
        assert [file.read_bytes() for file in files] == contents
    # A regular file outside the source is replaced. A conversion may also replace its whole source.
    (tmp_path / "out").write_bytes(b"old")
    good("cat", tmp_path / "tf", "odd/.ATTRIBUTES/VARIABLE_VALUE", "--raw", "-o", tmp_path / "out")
    assert (tmp_path / "out").stat().st_size == 20
    good("convert", tmp_path / "a.safetensors", tmp_path / "a.safetensors", "--force", "--include", "odd")
    assert good("ls", "--names", tmp_path / "a.safetensors") == "odd\n"


# ---- permissions ----

# Tests often run as root, which ignores permission bits, so the command runs without that privilege.
UNPRIVILEGED = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def denied(*args):
    done = subprocess.run([*UNPRIVILEGED, CAIRN, *map(str, args)], capture_output=True, timeout=60)
    assert done.returncode == FAILURE, done
    assert b"Permission denied" in done.stderr and b"not a checkpoint" not in done.stderr and b"no such" not in done.stderr, done


def test_permission_denied_is_said(folder, tmp_path):
    shutil.copy(folder / "a.safetensors", tmp_path / "a.safetensors")
    shutil.copy(folder / "a.msgpack", tmp_path / "a.msgpack")
    np.savez(tmp_path / "a.npz", w=np.zeros(3))
    np.save(tmp_path / "a.npy", np.zeros(3))
    (tmp_path / "set").mkdir()
    good("convert", tmp_path / "a.safetensors", tmp_path / "set" / "m.safetensors", "--shard-bytes", "4K")
    (tmp_path / "set" / "m.safetensors.index.json").rename(tmp_path / "set" / "model.safetensors.index.json")
    (tmp_path / "tf").mkdir()
    good("convert", tmp_path / "a.safetensors", tmp_path / "tf" / "model", "--to", "tensorflow")
    for name in ("tiny_files_zarr2", "tiny_ocdbt_zarr2", "tiny_v1", "tiny_manager", "composite_one_item"):
        shutil.copytree(GOLDEN / name, tmp_path / name)
    other = folder / "a.msgpack"
    out = tmp_path / "out"
    cases = [(tmp_path / "a.safetensors", ""), (tmp_path / "a.msgpack", ""), (tmp_path / "a.npz", ""), (tmp_path / "a.npy", ""),
             (tmp_path / "set", "model.safetensors.index.json"), (tmp_path / "tf", "model.index"),
             (tmp_path / "tiny_files_zarr2", "_METADATA"), (tmp_path / "tiny_ocdbt_zarr2", "manifest.ocdbt"), (tmp_path / "tiny_v1", "state"),
             (tmp_path / "tiny_manager", "4"), (tmp_path / "tiny_manager", "4/default"), (tmp_path / "composite_one_item", "state")]
    for checkpoint, inner in cases:
        closed = {(checkpoint, 0)} | ({(checkpoint, mode) for mode in (0o111, 0o444)} if checkpoint.is_dir() else set()) | {(checkpoint / inner, 0)}
        for path, mode in sorted(closed):
            before = path.stat().st_mode
            path.chmod(mode)
            try:
                for command in [["ls"], ["info"], ["tree"], ["stats"], ["cat"]] if path == checkpoint else [["ls"]]:
                    denied(*command, checkpoint)
                denied("diff", checkpoint, other)
                denied("diff", other, checkpoint)
                denied("convert", checkpoint, out, "--to", "orbax")
                denied("reshard", checkpoint, out, "--chunk-bytes", "1K")
                if checkpoint.is_file():
                    denied("dump", checkpoint)
            finally:
                path.chmod(before)
            assert not out.exists()
    # The parent folder denies access.
    (tmp_path / "tf").chmod(0)
    try:
        for command in (["ls"], ["verify"], ["compact"], ["dump"]):
            denied(*command, tmp_path / "tf" / "model")
        denied("convert", other, tmp_path / "tf" / "new.npz", "--skip-unsupported")
        denied("convert", other, tmp_path / "tf" / "new", "--to", "orbax")
        denied("cat", other, "n", "--raw", "-o", tmp_path / "tf" / "n")
    finally:
        (tmp_path / "tf").chmod(0o755)


def test_stats_names_an_array_whose_metadata_is_damaged(folder, tmp_path):
    good("convert", folder / "a.safetensors", tmp_path / "files", "--to", "orbax-files")
    (tmp_path / "files" / "params.embed" / ".zarray").write_text('{"shape": [')
    done = run("stats", tmp_path / "files")
    assert done.returncode == FAILURE
    assert done.stderr.decode().startswith("cairn: params.embed: ") and b"params.layers.0.w" in done.stdout
    assert run("stats", tmp_path / "files", "params.layers.*").returncode == GOOD


def test_a_lost_structure_is_said_once_and_the_rest_is_there(tmp_path):
    checkpoint = tmp_path / "c"
    shutil.copytree(GOLDEN / "tiny_ocdbt_zarr2", checkpoint)
    assert run("ls", checkpoint).stderr == b""
    (checkpoint / "_METADATA").unlink()
    message = f"cairn: {checkpoint}/_METADATA".encode()
    for arguments in (["ls", checkpoint], ["convert", checkpoint, tmp_path / "c.npz"], ["stats", checkpoint]):
        done = run(*arguments)
        assert done.returncode == FAILURE, done
        assert done.stderr.startswith(message) and len(done.stderr.splitlines()) == 1, done
        done = run(*arguments, "--allow-missing")
        assert done.returncode == GOOD, done
        assert message[len("cairn: ") :] + b" is missing" in done.stderr, done
    assert not (tmp_path / "c").joinpath("_METADATA").exists()
    assert len(json.loads(run("info", checkpoint, "--json").stdout)["missing"]) == 1
