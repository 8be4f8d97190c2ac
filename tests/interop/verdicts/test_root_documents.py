"""The metadata of a directory of steps is mutated, and read by Orbax's manager, `cairn verify` and Cairn's manager."""

import logging

import numpy as np
import orbax.checkpoint as ocp
import pytest

import mutations
import verdicts
from cairn import orbax as cairn_orbax

METADATA = {"lang": "en", "n": [1, {"d": None}]}
FILES = {"current": "_ROOT_METADATA", "legacy": "metadata"}


@pytest.fixture(autouse=True)
def no_log():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def save(path, file):
    with ocp.CheckpointManager(path, metadata=METADATA) as manager:
        manager.save(1, args=ocp.args.StandardSave({"a": np.arange(3.0)}))
        manager.wait_until_finished()
    (path / "metadata" / "_ROOT_METADATA").rename(path / "metadata" / file)


def metadata_of(package, path):
    with package.CheckpointManager(path, options=package.CheckpointManagerOptions(read_only=True)) as manager:
        metadata = manager.metadata()
    return {"custom": repr(metadata.custom_metadata), "internal": repr(metadata.internal_metadata)}


def read(path):
    return metadata_of(ocp, path)


EXCEPTIONS = [("loaded", "", "cairn.load returns the tree of the latest step")]


@pytest.mark.parametrize("form", FILES)
def test_verdicts(form, scratch):
    save(scratch / "c", FILES[form])
    path = scratch / "c" / "metadata" / FILES[form]
    verdicts.Table(scratch / "c", path, [read], mutations.of_document(path.read_bytes())).check(EXCEPTIONS, 130)


@pytest.mark.parametrize("form", FILES)
def test_cairns_manager_reads_what_orbax_reads(form, scratch):
    save(scratch / "c", FILES[form])
    path = scratch / "c" / "metadata" / FILES[form]
    wrong = []
    for name, content in mutations.of_document(path.read_bytes()):
        path.write_bytes(content)
        real, ours = (verdicts.attempt(metadata_of, package, scratch / "c") for package in (ocp, cairn_orbax))
        if isinstance(real, Exception) != isinstance(ours, Exception) or (real != ours and not isinstance(real, Exception)):
            wrong.append(f"{name} | {verdicts.short(real)} | {verdicts.short(ours)}")
    assert not wrong, "\n".join(wrong)
