"""The annotations: of the package itself, and as a user's program sees them."""

import ast
import inspect
import pathlib
import subprocess
import sys

import cairn
from cairn import _cairn

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = pathlib.Path(cairn.__file__).parent

USER = """
import pathlib
import cairn

def restore(path: pathlib.Path) -> tuple[str, int | None]:
    cairn.save(path, {"a": 1}, overwrite=True, compression="zstd:3", durability="unsynced", threads=2)
    cairn.save_async(path, {"a": 1}, overwrite=True, background_copy_bytes=None, save_timeout=60).wait()
    checkpoint = cairn.open(path, step=3)
    shape: tuple[int, ...] = checkpoint.tensors["w"].shape
    with cairn.CheckpointManager(path, max_to_keep=3, best_mode="min", best_fn=lambda m: m["loss"]) as manager:
        saved: bool = manager.save(1, {"a": 1}, metrics={"loss": 0.5})
        latest = manager.latest_step()
        manager.restore(latest, framework="torch", casting="unsafe")
    report = cairn.convert(path, path, to="orbax", transform={"rules": []}, metadata={"format": "pt"}, shard_bytes=1 << 30, compression="none",
                           dialect="flax", object_graph=True, latest=False, as_item="a", threads=2, memory=None, durability="unsynced")
    cairn.reshard(path, path, mesh={"x": 2}, specs={"*": (None, "x", ("y", "z"))}, chunk_bytes=5, generation=3, commit_protocol="commit_file")
    files: list[str] = report["files"] + [step["path"] for step in cairn.prune(path, keep_last=2, best="loss", best_mode="min", dry_run=True)]
    cairn.clean(path, dry_run=True)
    cairn.compact(path, step=3, item=None, remove_orphans=True)
    cairn.load("s3://bucket/c", storage_options={"endpoint": "http://localhost:9000", "anonymous": True, "retry_time": 2.5})
    cairn.stats("gs://bucket/c", "*", storage_options={"bearer_token": "x"})
    if cairn.du(checkpoint, include="a*", exclude=["b"], depth=3)["unreadable"] == len(files):
        raise ValueError
    if not cairn.verify(path) or shape == () or not saved:
        raise cairn.CorruptionError("damaged")
    return checkpoint.tree(), latest
"""
WRONG = """
import cairn

cairn.load(5)
text: int = cairn.open("c").tree()
cairn.verify("c", nonsense=True)
cairn.open("s3://bucket/c", storage_options={"endpont": "http://localhost:9000"})
cairn.save("c", {}, overwrit=True)
cairn.save("c", {}, compression=3)
cairn.save("c", {}, background_copy_bytes=1)
cairn.save_async("c", {}, durability="none")
cairn.CheckpointManager("c", max_to_keep="2")
cairn.CheckpointManager("c", item="state")
cairn.CheckpointManager("c").restore(1, framework="numppy")
cairn.open("c").load(nonsense=1)
cairn.convert("c", "d", compression=3)
cairn.convert("c", "d", reuse_from="c")
cairn.convert("c", "d", transform=5)
cairn.convert("c", "d", dialect="json")
cairn.reshard("c", "d", mesh={"x": "2"})
cairn.reshard("c", "d", shard_bytes=5)
cairn.reshard("c", "d", specs={"*": (3,)})
cairn.prune("c", keep_last="2")
cairn.prune("c", keep_last=2, best_mode="mean")
cairn.clean("c", True)
cairn.compact("c", orphans=True)
cairn.du("c", depth="2")
"""
LINES_OF_WRONG = range(4, 28)


def check(tool, text, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(text)
    command = {"mypy": ["-m", "mypy", "--strict", "--no-incremental"],
               "pyright": ["-m", "basedpyright", "--level", "error", "--pythonpath", sys.executable]}[tool]
    return subprocess.run([sys.executable, *command, program], capture_output=True, text=True, cwd=tmp_path,
                          env={"MYPYPATH": "", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


def test_the_package_is_strictly_typed_and_clean():
    for command in (["mypy"], ["ruff", "check", "python"], ["ruff", "format", "--check", "python"]):
        ended = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_users_program(tmp_path):
    for tool in ("mypy", "pyright"):
        good = check(tool, USER, tmp_path)
        assert good.returncode == 0, good.stdout + good.stderr
        wrong = check(tool, WRONG, tmp_path)
        assert wrong.returncode == 1 and all(f":{line}:" in wrong.stdout for line in LINES_OF_WRONG), wrong.stdout


def test_the_stub_names_what_the_module_has():
    tree = ast.parse((PACKAGE / "_cairn.pyi").read_text())
    stub = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            stub[node.name] = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            stub[node.name] = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
    native = {name: value for name, value in vars(_cairn).items() if not name.startswith("_") and name != "version"}
    assert set(stub) == set(native)
    for name, value in native.items():
        if inspect.isclass(value):
            members = {member for member in vars(value) if not member.startswith("_")}
            assert members == {member for member in stub[name] if not member.startswith("_")}, name
        else:
            arguments = [part.split(":")[0].strip() for part in value.__doc__.split("(", 1)[1].split(")")[0].split(",") if ":" in part]
            assert arguments == stub[name], name
