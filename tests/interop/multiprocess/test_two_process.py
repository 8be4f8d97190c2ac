"""Checkpoints saved by two real processes that meet through jax.distributed on the loopback device."""

import json
import os
import subprocess
import sys

import pytest

import cairn_cli
import test_golden
import two_process


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """All variants, saved once; (folder, {variant: leaf records})."""
    root = tmp_path_factory.mktemp("pair") / "saved"
    seed = os.environ["CAIRN_FRESH_SEED"]
    subprocess.run([sys.executable, two_process.__file__, "--root", str(root), "--seed", seed], check=True, timeout=300)
    return root, json.loads((root / "expected.json").read_text())


def test_every_variant(saved):
    root, expected = saved
    assert sorted(expected) == sorted(two_process.VARIANTS)
    for variant, records in expected.items():
        for _, record in cairn_cli.compare_names(cairn_cli.ls(root / variant), records):
            test_golden.check_bytes(root / variant, record)
        cairn_cli.verify(root / variant)


def test_both_processes_wrote(saved):
    """Otherwise the test above would not show what it claims."""
    root, _ = saved
    for process in (0, 1):
        data = list((root / "ocdbt_zarr2" / f"ocdbt.process_{process}" / "d").iterdir())
        assert sum(file.stat().st_size for file in data) > 1000
        assert list((root / "replica_folders" / f"ocdbt.process_replica_{process}" / "d").iterdir())
    assert sum(file.stat().st_size for file in (root / "controller" / "ocdbt.process_controller" / "d").iterdir()) > 5000
