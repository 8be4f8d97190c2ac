"""Folders that a test may not write, also where it runs as root."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path


@contextlib.contextmanager
def folder_without_permission(**sources):
    """A folder with copies of these checkpoints, which this process may read, but not change."""
    folder = Path(tempfile.mkdtemp())
    try:
        for name, source in sources.items():
            shutil.copytree(source, folder / name)
        for file in [folder, *folder.rglob("*")]:
            file.chmod(0o555 if file.is_dir() else 0o444)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if is_root:
                os.seteuid(0)
    finally:
        for file in [folder, *folder.rglob("*")]:
            if file.is_dir():
                file.chmod(0o700)
        shutil.rmtree(folder)
