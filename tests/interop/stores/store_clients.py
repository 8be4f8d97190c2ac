"""The stores of scripts/store-servers.sh as tests see them, and botocore to fill and read them."""

import dataclasses
import functools
import http.client
import json
import os
import pathlib
import shlex
import subprocess
import urllib.parse
from urllib.parse import urlsplit

import pytest

import botocore.config
import botocore.session

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts/store-servers.sh"
S3_SERVERS = ["SEAWEEDFS", "RADOSGW"]
SERVERS = [*S3_SERVERS, "GCS"]
LONG = bool(os.environ.get("CAIRN_LONG"))  # make test-long


@functools.cache
def environment():
    """What build/stores/env says, as a dictionary. Starts the servers if they do not run."""
    subprocess.run([SCRIPT, "start"], check=True, capture_output=True, timeout=600)
    lines = subprocess.run([SCRIPT, "env"], check=True, capture_output=True, timeout=600)
    return dict(line.split("=", 1) for line in shlex.split(lines.stdout.decode()))


def stop():
    if environment.cache_info().currsize:
        subprocess.run([SCRIPT, "stop"], check=True, capture_output=True, timeout=60)


@dataclasses.dataclass(frozen=True)
class Keys:
    access: str
    secret: str


@dataclasses.dataclass(frozen=True)
class S3:
    """One S3 server, and a prefix that no other test uses."""

    name: str
    endpoint: str
    bucket: str
    region: str
    prefix: str  # without a '/' at the end
    admin: Keys
    reader: Keys  # may list and read

    @property
    def url(self):
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def port(self):
        return urlsplit(self.endpoint).port

    def through(self, proxy):
        """The same store behind a proxy."""
        return dataclasses.replace(self, endpoint=proxy.endpoint)

    def variables(self, keys=None):
        """The environment of a program that uses this server."""
        keys = keys or self.admin
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return {
            **kept,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": keys.access,
            "AWS_SECRET_ACCESS_KEY": keys.secret,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def tensorstore(self, path=""):
        """The spec of TensorStore's driver for the prefix."""
        return {
            "driver": "s3",
            "bucket": self.bucket,
            "path": f"{self.prefix}/{path}",
            "endpoint": self.endpoint,
            "aws_region": self.region,
            "aws_credentials": {"type": "environment"},
        }

    def client(self, keys=None):
        return client(self.endpoint, self.region, keys or self.admin)

    def put(self, name, body):
        self.client().put_object(Bucket=self.bucket, Key=f"{self.prefix}/{name}", Body=body)

    def get(self, name):
        found = self.client().get_object(Bucket=self.bucket, Key=f"{self.prefix}/{name}")
        return found["Body"].read()

    def list(self):
        """The keys below the prefix, without it, sorted bytewise."""
        pages = (
            self.client()
            .get_paginator("list_objects_v2")
            .paginate(Bucket=self.bucket, Prefix=f"{self.prefix}/")
        )
        keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
        return sorted((key[len(self.prefix) + 1 :] for key in keys), key=str.encode)


@functools.cache
def client(endpoint, region, keys):
    config = botocore.config.Config(
        connect_timeout=5,
        read_timeout=60,
        retries={"total_max_attempts": 1},
        proxies={},
        s3={"addressing_style": "path"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return botocore.session.Session().create_client(
        "s3",
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=keys.access,
        aws_secret_access_key=keys.secret,
        config=config,
    )


@dataclasses.dataclass(frozen=True)
class Gcs:
    """The emulator behind its strict proxy, and a prefix that no other test uses."""

    name: str
    endpoint: str
    bucket: str
    prefix: str

    @property
    def url(self):
        return f"gs://{self.bucket}/{self.prefix}"

    @property
    def port(self):
        return urlsplit(self.endpoint).port

    def through(self, proxy):
        """The same store behind a proxy."""
        return dataclasses.replace(self, endpoint=proxy.endpoint)

    def tensorstore(self, path=""):
        """The spec of TensorStore's driver for the prefix."""
        return {"driver": "gcs", "bucket": self.bucket, "path": f"{self.prefix}/{path}"}

    def put(self, name, body):
        name = urllib.parse.quote(f"{self.prefix}/{name}", safe="")
        where = f"/upload/storage/v1/b/{self.bucket}/o?uploadType=media&name={name}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("POST", where, body, {"Content-Type": "application/octet-stream"})
        assert connection.getresponse().status == 200
        connection.close()

    def list(self):
        """The keys below the prefix, without it, sorted bytewise."""
        keys, page = [], ""
        while page is not None:
            query = urllib.parse.urlencode({"prefix": f"{self.prefix}/", "pageToken": page})
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
            connection.request("GET", f"/storage/v1/b/{self.bucket}/o?{query}")
            answer = json.loads(connection.getresponse().read())
            connection.close()
            keys += [item["name"] for item in answer.get("items", [])]
            page = answer.get("nextPageToken")
        return sorted((key[len(self.prefix) + 1 :] for key in keys), key=str.encode)

    def variables(self):
        """The environment of Orbax, TensorStore, gcsfs and Cairn for the emulator."""
        return {
            **os.environ,
            "STORAGE_EMULATOR_HOST": self.endpoint,
            "TENSORSTORE_GCS_HTTP_URL": self.endpoint,
            "EPATH_USE_TF": "0",
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "x",
            "NO_GCE_CHECK": "true",  # no question to a metadata server
        }


def store(name, prefix):
    return gcs(prefix) if name == "GCS" else s3(name, prefix)


def upload(store, folder):
    """Stores the files below a folder under the prefix. Empty folders have no object."""
    for file in sorted(pathlib.Path(folder).rglob("*")):
        if file.is_file():
            store.put(file.relative_to(folder).as_posix(), file.read_bytes())


def s3(name, prefix):
    found = environment()
    admin = Keys(found["S3_ADMIN_KEY"], found["S3_ADMIN_SECRET"])
    reader = Keys(found["S3_READER_KEY"], found["S3_READER_SECRET"])
    return S3(
        name, found[f"{name}_ENDPOINT"], found["BUCKET"], found["S3_REGION"], prefix, admin, reader
    )


def gcs(prefix):
    found = environment()
    return Gcs("GCS", found["GCS_ENDPOINT"], found["BUCKET"], prefix)


def running(name):
    reason = environment().get(f"{name}_MISSING")
    if reason:
        pytest.skip(f"{name.lower()}: {reason}")
    return name
