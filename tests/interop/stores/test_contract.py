"""What every store promises (cairn/storage/kvstore.h), on real servers: each step has the answer
that the store in memory gives."""

import concurrent.futures
import json
import os
import subprocess

import cairn_cli
import numpy as np
import pytest
import store_clients
from contract_steps import check, random_step, run

OPERATIONS = 1000 if store_clients.LONG else 100

# An opened value may keep the first bytes of its version. Bytes of the pattern that are text are at
# multiples of 251.
LARGE = 2 * 251 * 2000
# Reads, writes, listings and conditions, in an order that makes each see the changes before.
CONTRACT = [
    {"read": "a"},
    {"size": "a"},
    {"list": ""},
    {"level": ""},
    {"open": "a"},
    {"remove": "a"},
    {"write": ["a", "0123456789"]},
    {"write": ["empty", ""]},
    {"read": "a"},
    {"read": "empty"},
    {"size": "empty"},
    {"range": ["a", 2, 3]},
    {"range": ["a", 2, None]},
    {"range": ["a", 0, 0]},
    {"range": ["a", 10, None]},
    {"range": ["a", 11, None]},
    {"range": ["a", 8, 3]},
    {"range": ["empty", 0, None]},
    {"range": ["missing", 0, 1]},
    {"fill": ["a", 3, 4]},
    {"fill": ["a", 10, 0]},
    {"fill": ["a", 8, 4]},
    {"fill": ["missing", 0, 4]},
    {"most": ["a", 10]},
    {"most": ["a", 9]},
    {"most": ["missing", 9]},
    {"open": "a"},
    {"opened": [2, 5]},
    {"opened": [8, 3]},
    {"append": ["large", LARGE, 100_000]},
    {"open": "large"},
    {"opened": [LARGE // 2, 5]},
    {"write": ["large", "another value"]},
    {"opened": [LARGE - 9, 5]},
    {"append": ["large", LARGE, 100_000]},
    {"open": "large"},
    {"remove": "large"},
    {"opened": [LARGE - 9, 5]},
    {"remove": "a"},
    {"replace": ["a", None, "created"]},
    {"replace": ["a", None, "created twice"]},
    {"replace": ["a", "other", "no"]},
    {"replace": ["a", "created", "replaced"]},
    {"replace": ["missing", "created", "no"]},
    {"replace": ["a", "replaced", "replaced"]},
    {"read": "a"},
    {"append": ["parts", 100, 7]},
    {"append": ["nothing", 0, 7]},
    {"read": "parts"},
    {"read": "nothing"},
    *({"write": [f"p/{key}", key]} for key in ["a", "a-b", "a/b", "a0", "Z", "_", "é", "a/b/c"]),
    {"list": ""},
    {"list": "p/a"},
    {"list": "p/a/"},
    {"list": "q"},
    {"level": "p/"},
    {"level": "p/a"},
    {"level": "p/a/"},
    {"level": "q/"},
    {"values": ["p/", 100]},
    {"remove_all": ["p/a", "p/é", "missing", "p/a/b/c"]},
    {"remove_all": []},
    {"list": "p/"},
    {"remove": "p/a0"},
    {"remove": "p/a0"},
    {"list": "p/"},
    {"read": ""},
    {"write": ["", "x"]},
]


def test_contract(store):
    check(store, CONTRACT)


def test_random_operations(store):
    rng = np.random.default_rng(int(os.environ["CAIRN_SEED"]))
    check(store, [random_step(rng) for _ in range(OPERATIONS)])


def test_copies(store):
    steps = [
        {"write": ["é+%41 a", "value"]},
        {"copy": ["é+%41 a", "b/c d"]},
        {"read": "b/c d"},
        {"write": ["é+%41 a", "new"]},
        {"read": "b/c d"},
        {"copy": ["é+%41 a", "b/c d"]},
        {"read": "b/c d"},
        {"copy": ["missing", "b/c d"]},
        {"read": "b/c d"},
    ]
    wanted = [None, True, "value", None, "value", True, "new", False, "new"]
    assert run(store.url, steps, store.variables()) == wanted


READS = [{"read": "a"}, {"range": ["a", 1, 2]}, {"size": "a"}, {"most": ["a", 99]}, {"open": "a"}]
READS += [{"list": ""}, {"level": ""}, {"values": ["", 9]}, {"fill": ["a", 0, 1]}]
WRITES = [
    {"write": ["a", "new"]},
    {"write": ["b", "new"]},
    {"replace": ["b", None, "new"]},
    {"remove": "a"},
    {"remove_all": ["a", "b"]},
    {"copy": ["a", "b"]},
    {"append": ["b", 10, 5]},
    {"append": ["b", 40 << 20, 8 << 20]},
]


def refusals(s3, keys, steps):
    found = run(s3.url, steps, s3.variables(keys))
    for step, answer in zip(steps, found, strict=True):
        assert isinstance(answer, dict), f"{step}: {answer}"
        assert answer["code"] == "io", f"{step}: {answer}"
        assert keys.secret not in answer["error"] and "?" not in answer["error"], answer["error"]
    return [answer["error"] for answer in found]


@pytest.mark.parametrize(
    "code, keys",
    [
        ("SignatureDoesNotMatch", lambda s3: store_clients.Keys(s3.admin.access, "wrong-secret")),
        ("InvalidAccessKeyId", lambda s3: store_clients.Keys("nobody", "wrong-secret")),
    ],
    ids=["wrong", "unknown"],
)
def test_every_verb_refuses_keys_that_are_not_known(s3, code, keys):
    s3.put("a", b"value")
    errors = refusals(s3, keys(s3), READS + WRITES)
    # An answer to HEAD has no body, so it has no code.
    assert sum(code in error for error in errors) >= len(errors) - 3, errors
    assert s3.list() == ["a"] and s3.get("a") == b"value"


def test_a_reader_cannot_write(s3):
    s3.put("a", b"value")
    assert run(s3.url, READS, s3.variables(s3.reader)) == run(s3.url, READS, s3.variables())
    refusals(s3, s3.reader, WRITES)
    assert s3.list() == ["a"] and s3.get("a") == b"value"
    uploads = s3.client().list_multipart_uploads(Bucket=s3.bucket, Prefix=s3.prefix)
    assert not uploads.get("Uploads")


def test_a_bucket_that_is_missing(store):
    url = f"{store.url.split('://')[0]}://no-such-bucket-{store.prefix[-8:]}/p"
    steps = [{"list": ""}, {"level": ""}, {"read": "a"}, {"write": ["a", "x"]}]
    for answer in run(url, steps, store.variables()):
        assert answer["code"] == "not_found" and "bucket" in answer["error"], answer


def pattern(size):
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def test_a_large_value_comes_in_parts(s3, proxy):
    size = (36 << 20) + 12345
    through = proxy(s3)
    environment = s3.through(through).variables()
    steps = [{"append": ["large", size, 1 << 20]}, {"size": "large"}]
    assert run(s3.url, steps, environment) == [None, size]
    assert s3.get("large") == pattern(size)
    parts = [request for request in through.log if "partNumber" in request.key]
    assert len(parts) > 1
    uploads = s3.client().list_multipart_uploads(Bucket=s3.bucket, Prefix=s3.prefix)
    assert not uploads.get("Uploads")


def test_racing_creators_have_one_winner(store):
    def create(number):
        step = {"replace": ["marker", None, f"writer {number}"]}
        return run(store.url, [step], store.variables())[0]

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        won = list(pool.map(create, range(6)))
    assert sorted(won) == [False] * 5 + [True]
    stored = run(store.url, [{"read": "marker"}], store.variables())
    assert stored == [f"writer {won.index(True)}"]


def contract_tool(s3, keys, *command):
    """What kv_contract_tool says: a check or verb, and how it ended."""
    done = subprocess.run(
        [cairn_cli.TOOLS / "kv_contract_tool", *command],
        capture_output=True,
        env=s3.variables(keys),
        timeout=120,
    )
    return done.returncode, json.loads(done.stdout)


def test_checks_of_the_contract_tool(s3):
    status, checks = contract_tool(s3, s3.admin, "checks", s3.url)
    failed = {name: check for name, check in checks.items() if not check["ok"]}
    assert status == 0 and not failed and len(checks) > 10
