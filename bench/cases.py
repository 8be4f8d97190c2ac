"""The benchmark definitions: contenders, the read cases, and the performance aims of Cairn. save_cases.py has the save cases."""

import dataclasses
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
CAIRN = pathlib.Path(os.environ.get("CAIRN_BIN", ROOT / "build" / "release" / "bin" / "cairn")).resolve()
BENCH = CAIRN.parent / "restore_bench"
PREAD, ZSTD, UNCOMPRESSED = "floor: pread into huge pages", "floor: libzstd alone", "Cairn uncompressed"
SCALES = {"full": 1, "quick": 16}  # divisors of the sizes


@dataclasses.dataclass
class Contender:
    name: str
    command: list
    files: pathlib.Path | None  # its input, which is brought into the page cache first


@dataclasses.dataclass
class Case:
    name: str
    title: str
    dataset: str
    contenders: list
    whole_process: bool = False  # measure the process from start to end, instead of the time that it reports
    target: pathlib.Path | None = None  # its output, which is removed before and after; its size is recorded


@dataclasses.dataclass
class Aim:
    """An aim: within `case`, the median of `of` / `to`, or of a figure of `of` alone, should be at most (or at least) `bound`."""

    case: str
    of: str
    to: str
    bound: float
    least: bool = False
    figure: str = "seconds"  # or "stored_bytes", "beyond_data", "written"


def cairn(mode, files, *args, name="Cairn"):
    return Contender(name, [BENCH, mode, files, *args], files)


def peer(name, module, mode, files, *args):
    return Contender(name, [sys.executable, HERE / "peers.py", module, mode, files, *args], files)


def load_case(name, title, data, form, floors):
    files = data / form
    contenders = [cairn("load", files), *(cairn(floor, files, name=f"floor: {text}") for floor, text in floors),
                  peer("Orbax", "orbax", "load", files), peer("TensorStore", "tensorstore", "load", files), peer("torch.load", "torch", "load", data / "torch.pt"),
                  peer("safetensors", "safetensors", "load", data / "model.safetensors"), cairn("load", data / "model.safetensors", name="Cairn (safetensors file)")]
    if data.name not in ("many", "small"):
        contenders.append(peer("np.load", "numpy", "load", data / "npy"))
    return Case(name, title, data.name, contenders)


def own_case(name, title, data):
    """Restores what Cairn saved: every checksum verified, and stored uncompressed without checksums."""
    files = data / "cairn"
    return Case(name, title, data.name, [
        cairn("load", files), cairn("load", data / "cairn_none", name=UNCOMPRESSED), cairn("floor-pread", files, name=PREAD),
        cairn("floor-memcpy", files, name="floor: memcpy"), peer("safetensors", "safetensors", "load", data / "model.safetensors"),
        peer("Orbax", "orbax", "load", files)])


def million_cases(data):
    """A tree of a million leaves. Orbax is missing: it takes hours."""
    files, model = data / "cairn", data / "model.safetensors"
    return [
        Case("load_million", "Restore 1,000,000 tensors of 64 bytes that Cairn saved", data.name, [
            cairn("load", files), cairn("load", model, name="Cairn (safetensors file)"), peer("safetensors", "safetensors", "load", model)]),
        Case("list_million", "Cold process to the list of 1,000,000 tensors", data.name, [
            Contender("Cairn", [CAIRN, "ls", files], files), Contender("Cairn (safetensors file)", [CAIRN, "ls", model], model),
            peer("safetensors in Python", "safetensors", "list", model)], whole_process=True),
        Case("diff_million", "Compare 1,000,000 tensors with those of a safetensors file", data.name, [Contender("Cairn", [CAIRN, "diff", files, model], files)],
             whole_process=True)]


def list_case(name, title, data):
    return Case(name, title, data.name, [
        Contender("Cairn", [CAIRN, "ls", data / "orbax"], data / "orbax"),
        Contender("Cairn (safetensors file)", [CAIRN, "ls", data / "model.safetensors"], data / "model.safetensors"),
        peer("Orbax metadata()", "orbax", "list", data / "orbax"), peer("TensorStore list", "tensorstore", "list", data / "orbax"),
        peer("safetensors in Python", "safetensors", "list", data / "model.safetensors")], whole_process=True)


def steps_case(data):
    run = data / "steps" / "run"
    return Case("steps_10000", "Cold process to the table of 10,000 steps with the sizes of all their files", "steps", [
        Contender("Cairn", [CAIRN, "steps", run], run), Contender("du", ["du", "--bytes", "--max-depth=1", run], run),
        peer("Orbax all_steps(), names alone", "orbax", "steps", run)], whole_process=True)


def manager_case(data):
    run = data / "steps" / "run"
    return Case("manager_10000", "Make a CheckpointManager for 10,000 steps", "steps", [
        cairn("manager", run), cairn("manager-best", run, name="Cairn, and the best step"),
        peer("Orbax", "orbax", "manager", run), peer("Orbax, and the best step", "orbax", "manager_best", run)])


def read_cases(data, scale):
    floors = [("floor-pread", "pread into huge pages"), ("floor-memcpy", "memcpy")]
    zstd = [("floor-zstd", "libzstd alone")]
    rows = 8192 // SCALES[scale]
    slices = ["w3", rows // 8, rows // 4]
    large, llama, many = data / "large", data / "llama", data / "many"
    return [
        list_case("list_300", "Cold process to the list of 300 tensors", data / "few"),
        list_case("list_10000", "Cold process to the list of 10,000 tensors", many),
        steps_case(data),
        manager_case(data),
        load_case("load_raw", "Restore 1 GiB of float32, stored uncompressed", large, "orbax_raw", floors),
        load_case("load_zstd", "Restore 1 GiB of float32, stored with Orbax's default zstd", large, "orbax", zstd),
        Case("load_cairn", "Restore 1 GiB of float32 that Cairn saved, every checksum verified", "large", [
            cairn("load", large / "cairn"), *(cairn(floor, large / "cairn", name=f"floor: {text}") for floor, text in floors),
            peer("safetensors", "safetensors", "load", large / "model.safetensors"), peer("Orbax", "orbax", "load", large / "cairn")]),
        Case("load_zarr3", "Restore 1 GiB of float32 that Cairn saved as Zarr v3, every checksum verified", "large", [
            cairn("load", large / "cairn_zarr3"), cairn("load", large / "cairn", name="Cairn, Zarr v2"),
            *(cairn(floor, large / "cairn_zarr3", name=f"floor: {text}") for floor, text in floors), peer("Orbax", "orbax", "load", large / "cairn_zarr3")]),
        own_case("load_one", "Restore 1 GiB of float32 in one array that Cairn saved", data / "one"),
        own_case("load_llama", "Restore a Llama of 1.24 billion bfloat16 parameters that Cairn saved", llama),
        own_case("load_own_small", "Restore 10,000 tensors of 1 KiB that Cairn saved", data / "small"),
        own_case("load_own_middle", "Restore 1,000 tensors of 1 MiB that Cairn saved", data / "middle"),
        *million_cases(data / "million"),
        load_case("llama_raw", "Restore a Llama of 1.24 billion bfloat16 parameters, uncompressed", llama, "orbax_raw", floors),
        load_case("llama_zstd", "Restore the same with Orbax's default zstd", llama, "orbax", zstd),
        load_case("load_many", "Restore 10,000 tensors of 4 KiB, Orbax's default zstd", many, "orbax", zstd),
        load_case("load_many_raw", "Restore 10,000 tensors of 4 KiB, uncompressed", many, "orbax_raw", floors),
        load_case("load_small", "Restore 10,000 tensors of 1 KiB, Orbax's default zstd", data / "small", "orbax", zstd),
        load_case("load_small_raw", "Restore 10,000 tensors of 1 KiB, uncompressed", data / "small", "orbax_raw", floors),
        Case("slice", "Open, then read 1/8 of one 128 MiB tensor", "large", [
            cairn("slice", large / "orbax_raw", *slices), peer("NumPy mmap", "numpy", "slice", large / "npy", *slices),
            peer("TensorStore", "tensorstore", "slice", large / "orbax_raw", *slices), peer("safetensors", "safetensors", "slice", large / "model.safetensors", *slices),
            cairn("slice", large / "model.safetensors", *slices, name="Cairn (safetensors file)")]),
        Case("some", "Open, then read 1 % of 10,000 tensors", "many", [
            cairn("some", many / "orbax_raw", 100), peer("NumPy mmap", "numpy", "some", many / "npy", 100),
            peer("TensorStore", "tensorstore", "some", many / "orbax_raw", 100), peer("safetensors", "safetensors", "some", many / "model.safetensors", 100),
            cairn("some", many / "model.safetensors", 100, name="Cairn (safetensors file)")]),
    ]


READ_AIMS = [
    Aim("list_300", "Cairn", "", 0.010), Aim("list_10000", "Cairn", "", 0.050), Aim("steps_10000", "Cairn", "", 0.050), Aim("manager_10000", "Cairn", "", 0.050),
    Aim("load_raw", "Cairn", PREAD, 1.3), Aim("load_raw", "Orbax", "Cairn", 10, least=True),
    Aim("load_zstd", "Cairn", ZSTD, 1.15), Aim("load_cairn", "Cairn", PREAD, 1.5), Aim("llama_raw", "Cairn", PREAD, 1.3), Aim("llama_zstd", "Cairn", ZSTD, 1.15),
    Aim("load_one", "Cairn", PREAD, 1.2), Aim("load_llama", "Cairn", UNCOMPRESSED, 1.2), Aim("load_own_small", "Cairn", "", 0.020),
    Aim("load_many", "Orbax", "Cairn", 150, least=True), Aim("load_many_raw", "Cairn", "safetensors", 1.0),
    *(Aim(case, "Cairn", "safetensors", 0.5) for case in ("load_small", "load_small_raw")),
    Aim("slice", "Cairn", "NumPy mmap", 1.0), Aim("some", "Cairn", "NumPy mmap", 1.0),
    *(Aim(case, "Cairn", "", 64 << 20, figure="beyond_data") for case in ("load_raw", "load_zstd", "llama_raw", "llama_zstd", "load_many", "load_many_raw")),
]
