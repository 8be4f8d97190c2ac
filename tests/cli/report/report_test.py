"""cairn report: what it writes, what it refuses, and its exit status."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy

from command import CAIRN, FAILURE, GOOD, NO, USAGE, bad, good, run as cairn


def data_of(page):
    """The data that the page shows."""
    text = page.read_text()
    begin = text.index('<script id="data" type="application/json">') + len('<script id="data" type="application/json">')
    return json.loads(text[begin:text.index("</script>", begin)])


def names_of(page):
    names = []
    for shared, rest in zip(data_of(page)["rows"]["shared"], data_of(page)["rows"]["rest"], strict=True):
        before = names[-1].encode("utf-16-le")[:2 * shared].decode("utf-16-le") if names else ""
        names.append(before + rest)
    return names


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "m.safetensors"
    safetensors.numpy.save_file({"a.w": np.arange(6, dtype=np.float32).reshape(2, 3), "a.b": np.zeros(2, np.float32)}, path)
    return path


def test_the_same_checkpoint_gives_the_same_page(source, tmp_path):
    for name in ("1.html", "2.html"):
        good("report", source, "-o", tmp_path / name)
    assert (tmp_path / "1.html").read_bytes() == (tmp_path / "2.html").read_bytes()
    (tmp_path / "plain").write_text("")
    assert os.stat(tmp_path / "1.html").st_mode == os.stat(tmp_path / "plain").st_mode, "others may read it as any file"


def test_report_as_json(source, tmp_path):
    page = tmp_path / "page.html"
    report = json.loads(good("report", source, source, "-o", page, "--json"))
    assert report == {"path": str(page), "bytes": page.stat().st_size, "tensors": 2, "unlisted": 0, "unreadable": 0, "verdict": "good", "different": 0}
    report = json.loads(good("report", source, "-o", page, "--json", "--no-verify", "--force"))
    assert (report["verdict"], report["different"]) == (None, None)


def test_an_existing_file_is_replaced_with_force_alone(source, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine")
    assert "already exists" in bad(FAILURE, "report", source, "-o", page)
    assert page.read_text() == "mine"
    page.chmod(0o640)
    good("report", source, "-o", page, "--force")
    assert names_of(page) == ["a.b", "a.w"]
    assert page.stat().st_mode & 0o777 == 0o640, "it keeps its permissions"
    assert sorted(os.listdir(tmp_path)) == ["m.safetensors", "page.html"]


@pytest.mark.parametrize("kind", ["folder", "link", "dangling link", "pipe", "source", "absent folder"])
def test_what_is_never_replaced(source, tmp_path, kind):
    page = tmp_path / "target"
    if kind == "folder":
        page.mkdir()
        (page / "file").write_text("mine")
    elif kind == "link":
        (tmp_path / "mine").write_text("mine")
        page.symlink_to(tmp_path / "mine")
    elif kind == "dangling link":
        page.symlink_to(tmp_path / "absent")
    elif kind == "pipe":
        os.mkfifo(page)
    elif kind == "source":
        page = source
    else:
        page = tmp_path / "absent" / "page.html"
    before = (sorted(os.listdir(tmp_path)), source.read_bytes())
    done = cairn("report", source, "-o", page, "--force")
    assert done.returncode in (FAILURE, USAGE) and done.stderr.startswith(b"cairn: ") and done.stdout == b""
    assert str(page).encode() in done.stderr
    assert (sorted(os.listdir(tmp_path)), source.read_bytes()) == before
    if kind == "link":
        assert (tmp_path / "mine").read_text() == "mine"


def test_a_page_never_lies_in_a_checkpoint(tmp_path):
    import cairn as package

    for name in ("a", "b"):
        package.save(tmp_path / name, {"w": np.ones(3)})
    before = sorted(p for p in tmp_path.rglob("*"))
    for folder in ("a", "b"):
        message = bad(USAGE, "report", tmp_path / "a", tmp_path / "b", "-o", tmp_path / folder / "page.html")
        assert "overlaps the source checkpoint" in message
    with pytest.raises(ValueError, match="overlaps"):
        package.open(tmp_path / "a").report(tmp_path / "a" / "page.html")
    assert sorted(p for p in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("arguments, message", [
    ([], "-o"), (["--steps", "0", "-o", "x"], "--steps: expected 1 to 100"), (["--steps", "101", "-o", "x"], "--steps"),
    (["--steps", "x", "-o", "x"], "not a whole number"), (["--step-b", "1", "-o", "x"], "need a second checkpoint"), (["-o", ""], "path is empty"),
    (["--include", "none*", "-o", "x"], "no tensor matches"), (["--exclude", "*", "-o", "x"], "no tensor matches"),
])
def test_wrong_usage(source, tmp_path, arguments, message):
    done = subprocess.run([CAIRN, "report", source, *arguments], cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == USAGE and message in done.stderr.decode()
    assert os.listdir(tmp_path) == ["m.safetensors"]


def test_steps_need_a_directory_of_steps(source, tmp_path):
    done = cairn("report", source, "--steps", 3, "-o", tmp_path / "x.html")
    assert done.returncode in (USAGE, FAILURE) and b"m.safetensors" in done.stderr
    assert os.listdir(tmp_path) == ["m.safetensors"]


def test_steps_with_other_items_have_the_same_curves(tmp_path):
    """A step with one item names its tensors without the item, a step with two names them with it."""
    import orbax.checkpoint as ocp

    run = tmp_path / "run"
    with ocp.CheckpointManager(run, item_names=("params", "opt_state")) as manager:
        for step in (1, 2, 3):
            tree = {"w": np.full(4, step, np.float32)}
            items = {"params": ocp.args.StandardSave(tree)}
            if step != 2:
                items["opt_state"] = ocp.args.StandardSave({"w": np.full(4, 10 * step, np.float32)})
            manager.save(step, args=ocp.args.Composite(**items))
            manager.wait_until_finished()
    params, opt_state = [[2, 4, 6]], [[20, None, 60]]
    for step, want in ((3, opt_state + params), (2, params)):
        page = tmp_path / f"{step}.html"
        good("report", run, "--step", step, "--steps", 3, "-o", page)
        steps = data_of(page)["steps"]
        assert steps["norm"] == want and len(steps["skipped"]) == (1 if step == 3 else 0), steps
    for item, want in (("params", params), ("opt_state", opt_state)):
        page = tmp_path / f"{item}.html"
        good("report", run, "--item", item, "--steps", 3, "-o", page)
        assert data_of(page)["steps"]["norm"] == want


def test_the_last_steps_and_their_gaps(run, tmp_path):
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    shutil.rmtree(folder / "3" / "default" / "d")  # the values of a step are gone
    for process in (folder / "3" / "default").glob("ocdbt.process_*"):
        shutil.rmtree(process)
    report = json.loads(good("report", folder, "--steps", 100, "-o", tmp_path / "all.html", "--json"))
    assert report["tensors"] == 13
    steps = data_of(tmp_path / "all.html")["steps"]
    assert steps["steps"] in ([0, 1, 2, 4], [0, 1, 2, 3, 4])
    if 3 in steps["steps"]:
        assert steps["norms"][3] is None and any("Step 3" in text for text in steps["skipped"])
    good("report", folder, "--steps", 2, "-o", tmp_path / "two.html")
    assert len(data_of(tmp_path / "two.html")["steps"]["steps"]) == 2
    names = names_of(tmp_path / "two.html")
    assert all(names[row].endswith(("kernel", "bias")) for row in data_of(tmp_path / "two.html")["steps"]["rows"]), "floating-point tensors alone"


def test_a_truncated_file_fails_before_it_writes(source, tmp_path):
    source.write_bytes(source.read_bytes()[:40])
    assert "m.safetensors" in bad(FAILURE, "report", source, "-o", tmp_path / "page.html")
    assert os.listdir(tmp_path) == ["m.safetensors"]


def test_what_cannot_be_read_has_an_exit_status_and_a_page(tmp_path):
    import cairn as package

    package.save(tmp_path / "ckpt", {"good": np.ones(4), "bad": np.random.default_rng(0).random((256, 256))}, compression="zstd")
    largest = max((p for p in (tmp_path / "ckpt").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    page = tmp_path / "page.html"
    assert cairn("report", tmp_path / "ckpt", "-o", page).returncode == NO
    assert cairn("report", tmp_path / "ckpt", "-o", page, "--force", "--no-verify").returncode == FAILURE
    data, names = data_of(page), names_of(page)
    assert list(data["values"]["errors"]) == [str(names.index("bad"))] and "bad" in data["values"]["errors"][str(names.index("bad"))]
    assert data["values"]["mean"][names.index("good")] == 1
    assert cairn("report", tmp_path / "ckpt", "-o", page, "--force", "--no-verify", "--no-values").returncode == GOOD


def test_more_tensors_than_a_page_lists(tmp_path):
    """The 20,000 largest are rows; the sums have all."""
    path = tmp_path / "many.safetensors"
    count = 20_500
    header, at = {}, 0
    for i in range(count):
        size = 8 if i % 41 == 0 else 4  # 500 are larger
        header[f"t{i:05}"] = {"dtype": "F32", "shape": [size // 4], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(at))
    page = tmp_path / "page.html"
    done = cairn("report", path, "-o", page)
    assert done.returncode == GOOD and b"500 smaller tensors are only in the sums" in done.stdout
    names, data = names_of(page), data_of(page)
    assert len(names) == 20_000 and names == sorted(names) and {f"t{i:05}" for i in range(0, count, 41)} <= set(names)
    assert data["totals"]["leaves"] == count and data["totals"]["bytes"] == at and len(data["notices"]) == 1
    assert page.stat().st_size < 2_000_000


def test_names_of_any_shape_come_back(tmp_path):
    names = ["", "é.ü", "é.ö", "😀a", "😀b", "😁", "a", "a.b", "a..b", "/", "a/b/c", "x" * 500, "x" * 501, "\ud7ff"]
    path = tmp_path / "n.safetensors"
    safetensors.numpy.save_file({name: np.zeros(1, np.float32) for name in names}, path)
    good("report", path, "-o", tmp_path / "page.html")
    shown = names_of(tmp_path / "page.html")
    assert sorted(shown) == sorted(n if len(n) <= 500 else "x" * 500 + "... (a text of 501 bytes)" for n in names)


def test_memory_is_bounded(tmp_path):
    """256 MiB of values, with 64 MiB of working memory."""
    path = tmp_path / "big.safetensors"
    safetensors.numpy.save_file({"big": np.zeros(1 << 26, np.float32)}, path)
    program = [CAIRN, "report", path, "-o", tmp_path / "page.html", "--memory", "64MiB", "--threads", "2"]
    # A small process starts it: a child is also charged with what its parent had.
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-S", "-c", code, *map(str, program)], check=True, stdout=subprocess.PIPE)
    peak = int(done.stdout.split()[-1])
    assert peak < 80 * 1024, f"{peak} KiB"
    assert data_of(tmp_path / "page.html")["values"]["zeros"] == [1 << 26]


def test_progress_and_quiet(source, tmp_path):
    done = cairn("report", source, "-o", tmp_path / "1.html", "--progress=always")
    assert done.returncode == GOOD and b"100" in done.stderr
    done = cairn("report", source, "-o", tmp_path / "2.html", "-q")
    assert (done.stdout, done.stderr) == (b"", b"") and (tmp_path / "2.html").exists()


def test_a_full_disk_leaves_nothing(source, tmp_path):
    """A file size limit stands for it."""
    program = f"ulimit -f 8; exec '{CAIRN}' report '{source}' -o '{tmp_path}/page.html'"
    done = subprocess.run(["bash", "-c", program], capture_output=True, timeout=60)
    assert done.returncode == FAILURE and b"page.html" in done.stderr
    assert os.listdir(tmp_path) == ["m.safetensors"]


def test_quantised_weights_on_request(tmp_path):
    golden = next(p for p in (os.path.join(os.path.dirname(__file__), "../../golden/quantized"),) if os.path.isdir(p))
    sources = [os.path.join(golden, name) for name in sorted(os.listdir(golden))]
    shown = 0
    for number, path in enumerate(sources):
        page = tmp_path / f"{number}.html"
        done = cairn("report", path, "--dequantize", "-o", page)
        if done.returncode != GOOD:
            continue
        names = names_of(page)
        listed = json.loads(good("ls", path, "--dequantize", "--json"))
        assert names == [tensor["name"] for tensor in listed]
        shown += 1
    assert shown > 0


def test_the_page_names_no_other_place(source, tmp_path):
    """No URL but the name spaces of the page's own elements."""
    good("report", source, "-o", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert set(re.findall(r"\w+://[^\s\"'<]*", text)) == {"http://www.w3.org/2000/svg"}
    assert re.search(r"default-src 'none'; style-src 'sha256-[\w+/]{43}='; script-src 'sha256-[\w+/]{43}='", text)
