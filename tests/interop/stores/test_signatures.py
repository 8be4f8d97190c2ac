"""Signatures of random requests are those of botocore, step by step."""

import datetime
import os
from unittest import mock

import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials
import cairn_cli
import numpy as np

REQUESTS = 1000
ORIGINS = [
    "http://127.0.0.1:9000",
    "https://bucket.s3.eu-west-1.amazonaws.com",
    "http://localhost:80",
    "https://storage.example:443",
    "https://storage.example:80",
    "http://[::1]:9000",
]
LETTERS = [
    *"abzAZ09-._~/ +%&=?#:@!$'()*,;<>[]{}|\\^`\"",
    "é",
    "世",
    "😀",
    "%41",
    "//",
    "\x01",
    "\x7f",
]
NAMES = ["prefix", "delimiter", "list-type", "uploads", "partNumber", "X-Amz-x", "a b", "é", "+"]
HEADERS = [
    "range",
    "If-Match",
    "if-none-match",
    "Content-Type",
    "x-amz-meta-cairn",
    "X-Amz-Copy-Source",
]


def text(rng, most, letters=LETTERS):
    return "".join(rng.choice(letters, rng.integers(most + 1)))


def random_headers(rng):
    chosen = rng.choice(HEADERS, rng.integers(len(HEADERS) + 1), replace=False)
    values = [*'aZ0"*=-,;:/', " ", "  "]
    return [[str(name), text(rng, 12, values)] for name in chosen]


def random_job(rng):
    # Other services than S3 encode the path twice; Cairn has no such path but "/".
    is_s3 = rng.random() < 0.9
    return {
        "method": str(rng.choice(["GET", "HEAD", "PUT", "POST", "DELETE"])),
        "origin": str(rng.choice(ORIGINS)),
        "path": "/" + text(rng, 20) if is_s3 else "/",
        "query": [[str(rng.choice(NAMES)), text(rng, 8)] for _ in range(rng.integers(5))],
        "headers": random_headers(rng),
        "body": text(rng, 30),
        "unsigned": bool(rng.random() < 0.3),
        "access_key": "AKIA" + text(rng, 16, [*"ABCXYZ019"]),
        "secret_key": text(rng, 40, [*"abcXYZ09/+="]),
        "session_token": text(rng, 60, [*"abcXYZ09/+="]) if rng.random() < 0.3 else "",
        "region": str(rng.choice(["us-east-1", "eu-central-2", "auto", ""])),
        "service": "s3" if is_s3 else "sts",
        "seconds": int(rng.integers(10**9, 4 * 10**9)),
    }


def expected(job, url):
    """The steps of botocore's signature for the request that Cairn sends to `url`."""
    signer = {"s3": botocore.auth.S3SigV4Auth, "sts": botocore.auth.SigV4Auth}[job["service"]]
    keys = botocore.credentials.Credentials(
        job["access_key"], job["secret_key"], job["session_token"] or None
    )
    auth = signer(keys, job["service"], job["region"])
    request = botocore.awsrequest.AWSRequest(
        method=job["method"], url=url, headers=dict(job["headers"]), data=job["body"].encode()
    )
    signed = not job["unsigned"]
    config = botocore.config.Config(s3={"payload_signing_enabled": signed})
    request.context.update(client_config=config)
    auth._should_sha256_sign_payload = lambda _: signed
    now = datetime.datetime.fromtimestamp(job["seconds"], datetime.timezone.utc)
    with mock.patch.object(botocore.auth, "get_current_datetime", lambda: now):
        auth.add_auth(request)
    sent = request.headers["Authorization"]
    del request.headers["Authorization"]
    canonical = auth.canonical_request(request)
    return {
        "url": url,
        "canonical_request": canonical,
        "string_to_sign": auth.string_to_sign(request, canonical),
        "authorization": sent,
    }


def test_signatures_are_those_of_botocore():
    rng = np.random.default_rng(int(os.environ["CAIRN_SEED"]))
    jobs = [random_job(rng) for _ in range(REQUESTS)]
    answers = cairn_cli.answers("signature_tool", jobs)
    for job, answer in zip(jobs, answers, strict=True):
        wanted = expected(job, answer["url"])
        for step, value in wanted.items():
            assert answer[step] == value, f"{step} of {job}"
