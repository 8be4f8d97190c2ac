"""SeaweedFS as an S3 server, also with TLS."""

import json
import pathlib
import shutil
import sys

from processes import HOST, Missing, free_port
from s3_ready import ADMIN, READER, store_first

# SeaweedFS derives port + 10000 for gRPC unless every such port is given.
PARTS = ["master", "volume", "filer", "s3"]
MORE_RIGHTS = ["Admin", "Write", "Tagging"]


def identity(keys, actions):
    return {
        "name": keys[0],
        "actions": actions,
        "credentials": [{"accessKey": keys[0], "secretKey": keys[1]}],
    }


async def make_certificate(processes):
    """The options that name a key and a certificate; none if this system has no openssl."""
    if not shutil.which("openssl"):
        return []
    names = f"subjectAltName=DNS:localhost,DNS:*.s3.localhost,IP:{HOST}"
    await processes.output(
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        30,
        "-keyout",
        "key.pem",
        "-out",
        "ca.pem",
        "-subj",
        "/CN=localhost",
        "-addext",
        names,
    )
    return ["-s3.key.file=key.pem", "-s3.cert.file=ca.pem"]


async def start(processes):
    program = pathlib.Path(sys.executable).with_name("weed")
    if not program.exists():
        raise Missing(f"no {program}; run make venv")
    folder, sockets = processes.folder, pathlib.Path("/tmp")
    (folder / "data").mkdir()
    (folder / "s3.json").write_text(
        json.dumps(
            {
                "identities": [
                    identity(ADMIN, ["Read", "List", *MORE_RIGHTS]),
                    identity(READER, ["Read", "List"]),
                ]
            }
        )
    )
    options = []
    for part in PARTS:
        port, grpc = free_port(), free_port()
        options += [f"-{part}.port={port}", f"-{part}.port.grpc={grpc}"]
        processes.leftovers += [
            sockets / f"seaweedfs-{part}-{port}.sock",
            sockets / f"seaweedfs-{part}-grpc-{grpc}.sock",
        ]
    tls_port, tls = free_port(), await make_certificate(processes)
    options += [*tls, f"-s3.port.https={tls_port}"] if tls else []
    # It reports statistics to its makers by default. A bucket takes several volumes.
    await processes.start(
        "weed",
        program,
        "server",
        "-dir=data",
        f"-ip={HOST}",
        f"-ip.bind={HOST}",
        "-s3",
        f"-s3.ip.bind={HOST}",
        "-s3.config=s3.json",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.domainName=s3.localhost",
        "-s3.autoCreateBucket=false",
        "-master.telemetry=false",
        "-volume.max=500",
        "-master.volumeSizeLimitMB=512",
        *options,
    )
    endpoint = f"http://{HOST}:{port}"  # of the last part
    await store_first(processes, endpoint)
    found = {"ENDPOINT": endpoint}
    if tls:
        found |= {"TLS_ENDPOINT": f"https://localhost:{tls_port}", "CA_FILE": folder / "ca.pem"}
    return found
