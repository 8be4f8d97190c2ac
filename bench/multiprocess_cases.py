"""The multiprocess cases: two Cairn processes save and restore together, compared with one process and with two Orbax processes."""

import sys

from cases import CAIRN, HERE, Aim, Case, Contender

BENCH = CAIRN.parent / "multiprocess_bench"
ONE = "Cairn, one process"


def cairn(mode, processes, files, *words, name="Cairn"):
    return Contender(name, [BENCH, mode, processes, files, *words], files)


def orbax(mode, processes, files, *words, name="Orbax"):
    return Contender(name, [sys.executable, HERE / "multiprocess_peers.py", mode, processes, files, *words], files)


def multiprocess_cases(data):
    large = data / "large"
    model, target, stored = large / "model.safetensors", data / "saved", large / "orbax_two"
    return [
        Case("multiprocess_save", "Save 1 GiB of float32 in eight arrays from two processes", "large", [
            cairn("save", 2, model, target), cairn("save", 1, model, target, name=ONE),
            orbax("save", 2, model, target), orbax("save", 1, model, target, name="Orbax, one process")], target=target),
        Case("multiprocess_restore", "Restore 1 GiB of float32 that two processes of Orbax saved, into two processes", "large", [
            cairn("restore", 2, stored), cairn("restore", 1, stored, name=ONE),
            orbax("restore", 2, stored, model), orbax("restore", 1, stored, model, name="Orbax, one process")]),
    ]


MULTIPROCESS_AIMS = [Aim(case, of, "Cairn", 1, least=True) for case in ("multiprocess_save", "multiprocess_restore") for of in ("Orbax", ONE)]
