"""The save cases: the trees of the read cases and some more, durable and not, compared with the peers and with the disk itself."""

import sys

from cases import CAIRN, HERE, SCALES, UNCOMPRESSED, Aim, Case, Contender

BENCH = CAIRN.parent / "save_bench"
FLOOR, MEMCPY, FRESH = "floor: O_DIRECT, 8 threads, crc32c, synced", "floor: memcpy", "floor: memcpy to new memory"
UNSYNCED = ", not synced"
BUDGET = 256 << 20


def cairn(data, target, *words, name="Cairn"):
    return Contender(name, [BENCH, "save", data, target, *words], data)


def peer(name, module, data, target, *words):
    return Contender(name, [sys.executable, HERE / "save_peers.py", module, data, target, *words], data)


def one_chunk(*given):
    return cairn(*given, f"chunk={1 << 30}", name="Cairn, one chunk")


def floor(name, mode, data, target):
    return Contender(name, [BENCH, mode, data, target], data)


def save_case(name, title, data, target, more=()):
    model = data / "model.safetensors"
    given = (model, target)
    contenders = [
        cairn(*given), cairn(*given, "none", name=UNCOMPRESSED), floor(FLOOR, "floor-direct", *given),
        peer("Orbax", "orbax", *given), peer("Orbax uncompressed", "orbax", *given, "raw"), peer("Orbax zarr3", "orbax", *given, "zarr3"),
        peer("torch.save + fsync", "torch", *given, "sync"), peer("torch DCP", "dcp", *given),
        peer("safetensors + fsync", "safetensors", *given, "sync"), *(make(*given) for make in more)]
    if data.name not in ("many", "small"):  # direct TensorStore calls take minutes for that case
        contenders.append(peer("TensorStore", "tensorstore", *given))
    return Case(name, title, data.name, contenders, target=target)


def unsynced(*given):
    return cairn(*given, "unsynced", name="Cairn" + UNSYNCED)


def zarr3(*given):
    return cairn(*given, "zarr3", name="Cairn, Zarr v3")


UNSYNCED_CASE = [
    unsynced, lambda *given: peer("safetensors" + UNSYNCED, "safetensors", *given), lambda *given: peer("torch.save" + UNSYNCED, "torch", *given),
    lambda *given: floor(MEMCPY, "floor-memcpy", *given)]


def folders(*given):
    return cairn(*given, "folders", name="Cairn, a folder per parameter")


def async_case(name, title, data, target):
    given = (data / "model.safetensors", target)
    runs = [Contender(name, [BENCH, "async", *given, *words], given[0]) for name, words in (("Cairn", []), ("Cairn, second save", ["again"]), ("Cairn, memory lent", ["lent"]))]
    return Case(name, title, data.name, [*runs, floor(MEMCPY, "floor-memcpy", *given), floor(FRESH, "floor-copy", *given), peer("Orbax", "orbax_async", *given),
                                         peer("torch DCP", "dcp_async", *given)], target=target)


def step_case(data, target):
    given = (data / "large" / "model.safetensors", target)

    def ours(name, *words):
        return Contender(name, [BENCH, "save-step", *given, *words], given[0])

    return Case("save_step", "Save a step of 1 GiB of float32 of which 1 % has changed", "large", [
        ours("Cairn", "reuse"), ours("Cairn, a new manager", "reuse", "restart"), ours("Cairn, everything"), peer("Orbax", "orbax_step", *given)], target=target)


def generated_case(target, scale):
    data = f"generated:{(4 << 30) // SCALES[scale]}"
    runs = [Contender(name, [BENCH, "save", data, target, f"memory={BUDGET}", *words], None) for name, words in (("Cairn", []), ("Cairn zstd 1", ["zstd"]))]
    return Case("save_memory", "Save 4 GiB of float32 within 256 MiB", "", runs, target=target)


def save_cases(data, scale):
    target = data / "saved"
    small = data / "compressible"
    million = data / "million" / "model.safetensors"
    return [
        save_case("save_large", "Save 1 GiB of float32 in eight arrays", data / "large", target, [zarr3, *UNSYNCED_CASE]),
        save_case("save_one", "Save 1 GiB of float32 in one array", data / "one", target, [one_chunk]),
        save_case("save_llama", "Save a Llama of 1.24 billion bfloat16 parameters", data / "llama", target),
        save_case("save_many", "Save 10,000 tensors of 4 KiB", data / "many", target, [unsynced, folders]),
        save_case("save_small", "Save 10,000 tensors of 1 KiB", data / "small", target, [unsynced]),
        Case("save_million", "Save 1,000,000 tensors of 64 bytes", "million", [
            cairn(million, target), cairn(million, target, "none", name=UNCOMPRESSED), peer("safetensors + fsync", "safetensors", million, target, "sync")], target=target),
        Case("save_compressible", "Save 512 MiB that compress well", "compressible", [
            cairn(small / "model.safetensors", target), cairn(small / "model.safetensors", target, "zstd", name="Cairn zstd 1"),
            cairn(small / "model.safetensors", target, "reproducible", name="Cairn reproducible"),
            cairn(small / "model.safetensors", target, "none", name=UNCOMPRESSED), peer("Orbax", "orbax", small / "model.safetensors", target)], target=target),
        async_case("async_large", "Start to save 1 GiB of float32 in the background", data / "large", target),
        async_case("async_many", "Start to save 10,000 tensors of 4 KiB in the background", data / "many", target),
        step_case(data, target),
        generated_case(target, scale),
    ]


UNCOMPRESSED_PEERS = ("Orbax uncompressed", "TensorStore", "torch.save + fsync", "torch DCP", "safetensors + fsync")
SAVE_AIMS = [
    Aim("async_large", "Cairn", FRESH, 1.1), Aim("async_large", "Cairn, second save", MEMCPY, 1.1), Aim("async_large", "Cairn, memory lent", "", 0.001, figure="seconds"),
    *(Aim(case, name, "Cairn", 1, least=True) for case in ("async_large", "async_many") for name in ("Orbax", "torch DCP")),
    Aim("save_step", "Cairn", "Cairn, everything", 0.1), Aim("save_step", "Cairn", "Cairn, everything", 0.02, figure="written"),
    *(Aim(case, "Cairn", FLOOR, 1.2) for case in ("save_large", "save_one", "save_llama")),
    Aim("save_large", "Orbax", "Cairn", 5, least=True), *(Aim("save_large", name, "Cairn", 1, least=True) for name in UNCOMPRESSED_PEERS),
    Aim("save_large", "Cairn", UNCOMPRESSED, 1.02, figure="stored_bytes"),
    Aim("save_many", "Orbax", "Cairn", 150, least=True), Aim("save_many", "safetensors + fsync", "Cairn", 1, least=True),
    Aim("save_one", "Cairn", UNCOMPRESSED, 1.05), Aim("save_small", "safetensors + fsync", "Cairn", 2, least=True), Aim("save_small", UNCOMPRESSED, "Cairn", 1.1),
    Aim("save_compressible", "Cairn reproducible", "Cairn zstd 1", 1.1, figure="stored_bytes"),
    *(Aim("save_compressible", "Cairn", name, 1.1) for name in ("Cairn zstd 1", UNCOMPRESSED)), Aim("save_llama", "Cairn", UNCOMPRESSED, 1.1),
    *(Aim("save_memory", name, "", BUDGET + (64 << 20), figure="beyond_data") for name in ("Cairn", "Cairn zstd 1")),
]
