"""Records what Orbax stores for one step of a CheckpointManager on gs://: which objects, in which
order, of which content type. Writes orbax_gs_step.json beside this file. Start it with
`scripts/store-servers.sh run build/venv/bin/python tests/golden/stores/make_orbax_gs_step.py`.

"writes" has every object that was stored, by the end of its upload. One write was complete before
another began if its "ended" is lower than the other's "began". "objects" has what is there at the
end. Random names of data files are "*", and times are 0.
"""

import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys
import uuid

HERE = pathlib.Path(__file__).resolve().parent
TRACE = HERE / "orbax_gs_step.json"
sys.path.insert(0, str(HERE.parents[1] / "interop/stores"))

PROGRAM = """
import sys
import jax, orbax.checkpoint as ocp
manager = ocp.CheckpointManager(sys.argv[1], item_names=("state", "meta"))
state = {"w": jax.numpy.arange(8, dtype="float32"), "b": {"c": jax.numpy.ones(3, "int32")}}
manager.save(1, args=ocp.args.Composite(
    state=ocp.args.StandardSave(state), meta=ocp.args.JsonSave({"a": 1})))
manager.wait_until_finished()
manager.close()
"""
PACKAGES = ["orbax-checkpoint", "tensorstore", "gcsfs", "fsspec", "etils"]


def plain(text):
    """Without what differs from run to run."""
    text = re.sub(r"/d/[0-9a-f]{32}", "/d/*", text)
    return re.sub(r'("(?:init|commit)_timestamp_nsecs": )\d+', r"\g<1>0", text)


def writes_of(log, prefix):
    """The uploads of a proxy's log, by their end. A resumable one begins with its session."""
    begins, found = {}, []
    for request in sorted(log, key=lambda each: each.ended):
        upload = re.search(r"/upload/.*[?&]name=([^&]*)", request.key)
        if not upload or request.method not in ("POST", "PUT"):
            continue
        name = upload[1].removeprefix(prefix)
        if "uploadType=resumable" in request.key and "upload_id" not in request.key:
            begins[name] = request.began
            continue
        generation = re.search(r"ifGenerationMatch=(\d+)", request.key)
        condition = {"0": "absent"}.get(generation[1], "unchanged") if generation else ""
        found.append(
            {
                "name": plain(name),
                "condition": condition,
                "began": begins.pop(name, request.began),
                "ended": request.ended,
            }
        )
    return with_small_numbers(found)


def with_small_numbers(writes):
    """Counts the beginnings and ends of these writes alone."""
    events = sorted(event for each in writes for event in (each["began"], each["ended"]))
    for each in writes:
        each.update(began=events.index(each["began"]), ended=events.index(each["ended"]))
    return writes


def objects_of(store, prefix):
    import google.auth.credentials
    import google.cloud.storage

    client = google.cloud.storage.Client(
        "x",
        google.auth.credentials.AnonymousCredentials(),
        client_options={"api_endpoint": store.endpoint},
    )
    for blob in sorted(client.list_blobs(store.bucket, prefix=prefix), key=lambda each: each.name):
        found = {"name": plain(blob.name.removeprefix(prefix)), "type": blob.content_type}
        text = blob.download_as_bytes()
        if blob.name.endswith((".txt", "METADATA", "metadata", "_sharding", "process_0")):
            found["text"] = plain(text.decode()).replace(prefix, "")
        yield found


def record(store):
    """Lets Orbax save a step below the prefix of a store."""
    import fault_proxy

    prefix = f"{store.prefix}/"
    with fault_proxy.FaultProxy(store.port) as proxy:
        variables = store.through(proxy).variables()
        subprocess.run(
            [sys.executable, "-c", PROGRAM, f"{store.url}/run"], env=variables, check=True
        )
        writes = writes_of(proxy.log, prefix)
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"packages": versions, "writes": writes, "objects": list(objects_of(store, prefix))}


def as_text(recorded):
    """One line for each package, write and object."""
    parts = []
    for name, value in recorded.items():
        if isinstance(value, dict):
            lines = [f"  {json.dumps(key)}: {json.dumps(each)}" for key, each in value.items()]
        else:
            lines = ["  " + json.dumps(each) for each in value]
        marks = "{}" if isinstance(value, dict) else "[]"
        parts.append(f'"{name}": {marks[0]}\n' + ",\n".join(lines) + f"\n {marks[1]}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def main():
    import store_clients

    recorded = record(store_clients.gcs(f"trace-{uuid.uuid4().hex}"))
    store_clients.stop()
    TRACE.write_text(as_text(recorded))


if __name__ == "__main__":
    main()
