"""Sharding of checkpoints, beside TensorFlow's own policies, its validate_shards, and what its save operation says of slice specs."""

import dataclasses
import itertools
import json
import os
import re
import subprocess

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.python.checkpoint import functional_saver
from tensorflow.python.checkpoint.sharding import sharding_policies, sharding_util

import cairn_cli

TOOL = str(cairn_cli.TOOLS / "checkpoint_sharding_tool")
FRESH = int(os.environ["CAIRN_SEED"])
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# TensorFlow puts these together again from parts, and can cut them; those, but not put together again; the others it cannot cut.
JOINED = ["float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "complex128", "qint8"]
NOT_JOINED = ["float16", "uint16", "uint32", "uint64", "float8_e5m2", "float8_e4m3fn"]
NOT_CUT = ["int4", "uint4", "qint16", "float8_e4m3fnuz"]


def ask(questions):
    done = subprocess.run([TOOL], input="".join(json.dumps(q) + "\n" for q in questions), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(questions)
    return answers


def dtype_of(name):
    return getattr(tf.dtypes, name, None) or getattr(tf.dtypes.experimental, name)


def tensor(key, dtype, shape, spec="", strings=None, device="", name=None):
    """As the tool takes it; strings: the lengths of all."""
    sizes = None if strings is None else [sum(strings), max(strings, default=0)]
    return {"key": key, "spec": spec, "dtype": dtype, "size": 0 if dtype == "string" else dtype_of(dtype).size, "shape": list(shape),
            "device": device, "name": name or key + ":0", "strings": sizes, "lengths": strings}


def shardable(t, value):
    return sharding_util.ShardableTensor(_tensor_save_spec=None, tensor=value, dtype=value.dtype, device=tf.DeviceSpec.from_string(t["device"]),
                                         name=t["name"], shape=value.shape, slice_spec=t["spec"], checkpoint_key=t["key"], trackable=None)


def eager(t):
    if t["dtype"] == "string":
        texts = np.array([b"x" * n for n in t["lengths"]], dtype=object).reshape(t["shape"])
        return shardable(t, tf.constant(texts, dtype=tf.string, shape=t["shape"]))
    count = int(np.prod(t["shape"], dtype=int))
    proto = tensor_pb2.TensorProto(dtype=dtype_of(t["dtype"]).as_datatype_enum, tensor_content=bytes(count * t["size"]),
                                   tensor_shape=tf.TensorShape(t["shape"]).as_proto())
    return shardable(t, tf.io.parse_tensor(proto.SerializeToString(), dtype_of(t["dtype"])))


def tensorflow_shards(tensors, limit):
    shards = sharding_policies.MaxShardSizePolicy(limit)([eager(t) for t in tensors])
    return [[[key, [[spec, list(part.shape)] for spec, part in slices.items()]] for key, slices in shard.items()] for shard in shards]


def without_places(answer):
    """[spec, shape] of every part; where it is of its tensor must be what its spec says."""
    return [[[key, [[spec, shape] for spec, _, _, shape in slices]] for key, slices in shard] for shard in answer["shards"]]


def check_places(tensors, answer):
    for key, slices in itertools.chain.from_iterable(answer["shards"]):
        for spec, number, origin, shape in slices:
            t = tensors[number]
            assert t["key"] == key
            if origin is None:
                assert shape == t["shape"]
            if not spec:
                assert origin is None
                continue
            begins = [int(pair.split(",")[0]) for pair in spec.rsplit(" ", 1)[1].split(":")]
            base = [int(pair.split(",")[0]) for pair in t["spec"].rsplit(" ", 1)[1].split(":")] if t["spec"] else [0] * len(shape)
            assert [b - a for a, b in zip(base, begins)] == (origin or [0] * len(shape)), (spec, t)


def never_ends(t, limit):
    """Whether no part along one axis fits an empty shard. What is left of a tensor is smaller, but no better to cut than all of it."""
    if not t["shape"] or t["key"] == GRAPH:
        return False
    item = max(t["lengths"], default=0) if t["dtype"] == "string" else t["size"]
    total = sum(t["lengths"]) if t["dtype"] == "string" else item * int(np.prod(t["shape"]))
    if t["dtype"] == "string":
        return item > limit  # the rest of it is reckoned as if all were as long
    return total > limit and total // max(t["shape"]) > limit


def draw(rng, dtypes, strings=True, empty=False):
    tensors = []
    for i in range(rng.integers(1, 7)):
        rank = int(rng.choice([0, 1, 2, 3, 4], p=[0.15, 0.25, 0.25, 0.2, 0.15]))
        shape = [int(n) for n in rng.integers(0 if empty and rng.random() < 0.3 else 1, [0, 41, 12, 8, 6][rank] or 1, rank)]
        key = f"k{i}/.ATTRIBUTES/VARIABLE_VALUE"
        if strings and rank < 2 and rng.random() < 0.2:
            lengths = [int(n) for n in rng.integers(0, rng.choice([2, 8, 40]), int(np.prod(shape, dtype=int)))]
            tensors.append(tensor(key, "string", shape, strings=lengths))
            continue
        spec = ""
        if rank and 0 not in shape and rng.random() < 0.25:  # a slice of something larger
            origin = [int(n) for n in rng.integers(0, 5, rank)]
            full = [o + n + int(rng.integers(0, 3)) for o, n in zip(origin, shape)]
            spec = " ".join(map(str, full)) + " " + ":".join(f"{o},{n}" for o, n in zip(origin, shape))
            if tensors and tensors[-1]["spec"] and rng.random() < 0.5 and tensors[-1]["spec"] != spec:
                key = tensors[-1]["key"]
        tensors.append(tensor(key, str(rng.choice(dtypes)), shape, spec))
    if rng.random() < 0.5:
        tensors.append(tensor(GRAPH, "string", [], strings=[int(rng.integers(1, 300))]))
    return tensors


def draw_limit(rng, tensors):
    total = sum(sum(t["lengths"]) if t["dtype"] == "string" else t["size"] * int(np.prod(t["shape"], dtype=int)) for t in tensors)
    return int(rng.integers(1, max(2, total * 5 // 4))) if rng.random() < 0.5 else int(2 ** (rng.random() * np.log2(total + 2)))


def question(tensors, limit, like_tensorflow):
    return {"ask": "max_size", "max": max(limit, 1), "like_tensorflow": like_tensorflow, "tensors": tensors}


@pytest.mark.covers("sharding.ShardableTensor", "sharding.Shard")
@pytest.mark.covers(
    "sharding.MaxShardSizePolicy",
    note=(
        "Types that TensorFlow cuts and cannot join again are kept whole. `like_tensorflow` gives"
        " TensorFlow's exact result."
    ),
)
@pytest.mark.parametrize("first", [1000, FRESH], ids=["fixed", "fresh"])
def test_random_tensors_are_sharded_as_tensorflow_shards_them(first):
    cases = []
    for seed in range(first, first + 400):
        rng = np.random.default_rng([seed, 1])
        tensors = draw(rng, JOINED + NOT_JOINED)
        limit = draw_limit(rng, tensors)
        while any(never_ends(t, limit) for t in tensors):  # TensorFlow would eat all memory
            limit = limit * 2 + 1
        cases.append((seed, tensors, limit))
    exact = ask([question(tensors, limit, True) for _, tensors, limit in cases])
    ours = ask([question(tensors, limit, False) for _, tensors, limit in cases])
    cut = same = 0
    for (seed, tensors, limit), like, own in zip(cases, exact, ours):
        theirs = tensorflow_shards(tensors, limit)
        assert "error" not in like, (seed, limit, like)
        assert without_places(like) == theirs, (seed, limit, tensors)
        check_places(tensors, like)
        check_places(tensors, own)
        cut += any(len(slices) > 1 for shard in theirs for _, slices in shard) or len(theirs) > 1
        # What TensorFlow restores is cut as it cuts it.
        parts = [number for shard in like["shards"] for _, slices in shard for _, number, _, _ in slices]
        if not any(parts.count(i) > 1 and t["dtype"] in [*NOT_JOINED, "string"] for i, t in enumerate(tensors)):
            same += 1
            assert without_places(own) == theirs, (seed, limit, tensors)
        else:
            assert without_places(own) != theirs
    assert cut > 200 and same > 150, (cut, same)


def check_rule(tensors, limit, answer):
    """What the documentation promises of our own cuts, whatever the tensors."""
    seen = {}
    for shard in answer["shards"]:
        sizes, whole = [], True
        for key, slices in shard:
            for spec, number, origin, shape in slices:
                t = tensors[number]
                box = (tuple(origin or [0] * len(shape)), tuple(shape))
                seen.setdefault(number, []).append(box)
                if key == GRAPH:
                    continue
                if t["dtype"] == "string":
                    assert shape == t["shape"]
                    sizes.append(sum(t["lengths"]))
                else:
                    sizes.append(t["size"] * int(np.prod(shape, dtype=int)))
                    whole = whole and (shape == t["shape"] and t["dtype"] not in JOINED + ["int4", "uint4"] or sizes[-1] == t["size"])
        # Larger is the shard of one tensor that cannot be cut.
        assert sum(sizes) <= limit or (len(sizes) == 1 and (whole or not tensors[slices[0][1]]["shape"])), (limit, shard)
    assert sorted(seen) == list(range(len(tensors)))
    for number, boxes in seen.items():
        t = tensors[number]
        if len(boxes) > 1:
            assert t["dtype"] in JOINED + ["int4", "uint4"]
        covered = np.zeros(t["shape"], dtype=int)
        for origin, shape in boxes:
            covered[tuple(slice(o, o + n) for o, n in zip(origin, shape))] += 1
        assert (covered == 1).all()


@pytest.mark.parametrize("first", [2000, FRESH], ids=["fixed", "fresh"])
def test_policies_that_fail_in_tensorflow_work(first):
    cases = []
    for seed in range(first, first + 400):
        rng = np.random.default_rng([seed, 2])
        tensors = draw(rng, JOINED + NOT_JOINED + NOT_CUT, empty=True)
        if rng.random() < 0.3:
            shape = [int(n) for n in rng.integers(1, 5, 2)]
            tensors.append(tensor("texts", "string", shape, strings=[int(n) for n in rng.integers(0, 30, shape[0] * shape[1])]))
        cases.append((seed, tensors, max(1, draw_limit(rng, tensors))))
    endless = 0
    for (seed, tensors, limit), ours in zip(cases, ask([question(tensors, limit, False) for _, tensors, limit in cases])):
        assert "error" not in ours, (seed, limit, ours)
        check_places(tensors, ours)
        check_rule(tensors, limit, ours)
        endless += any(never_ends(t, limit) for t in tensors)
    assert endless > 30
    # What they are together passes the validation, too.
    validated = ask([{"ask": "validate", "tensors": tensors, "originals": len(tensors), "shards": ours["shards"], "description": "d"}
                     for (_, tensors, limit), ours in zip(cases, ask([question(tensors, limit, False) for _, tensors, limit in cases]))])
    assert validated == [{}] * len(cases)


@pytest.mark.covers(
    "sharding.MaxShardSizePolicy", alone=True,
    note=(
        "Tensors on which TensorFlow does not end are sharded; with `like_tensorflow` they are an"
        " error."
    ),
)
def test_where_tensorflow_never_ends_an_error_says_so():
    for t, limit in [(tensor("x", "float32", [4]), 2), (tensor("x", "float32", [3, 2]), 4), (tensor("x", "string", [3], strings=[2, 500, 4]), 10)]:
        assert never_ends(t, limit)
        [ours] = ask([question([t], limit, True)])
        assert ours["error"].startswith("x: TensorFlow's policy would never end")


@pytest.mark.covers(
    "sharding.MaxShardSizePolicy",
    note="Tensors on which TensorFlow fails are sharded; with `like_tensorflow` they are an error.",
)
@pytest.mark.parametrize("t, limit", [
    (tensor("x", "string", [2, 2], strings=[1, 2, 3, 4]), 100), (tensor("x", "string", [1, 2], strings=[1, 2]), 100),
    (tensor("x", "string", [0], strings=[]), 100), (tensor("x", "string", [0, 2], strings=[]), 100), (tensor("x", "string", [2, 0], strings=[]), 100),
    (tensor("x", "string", [3, 1], strings=[3, 3, 3]), 4), (tensor("x", "int4", [4]), 100), (tensor("x", "qint16", [4]), 100),
    (tensor("x", "uint4", [2, 3]), 2), (tensor("x", "float8_e4m3fnuz", [4]), 100)])
def test_where_tensorflow_fails_so_do_we_if_asked_to(t, limit):
    with pytest.raises(Exception):
        tensorflow_shards([t], limit)
    exact, ours = ask([question([t], limit, True), question([t], limit, False)])
    assert exact["error"].startswith("x: TensorFlow's policy fails: ")
    check_rule([t], limit, ours)


@pytest.mark.covers("sharding.MaxShardSizePolicy")
@pytest.mark.parametrize("t", [tensor("x", "string", [3, 1], strings=[3, 1, 2]), tensor("x", "string", [1, 1], strings=[3]),
                               tensor("x", "string", [2, 1, 1], strings=[3, 3]), tensor("x", "float32", [0, 3]), tensor("x", "qint16", []),
                               tensor("x", "qint16", [0])])
def test_odd_tensors_that_tensorflow_takes(t):
    tensors = [tensor("a", "float32", [2]), t, tensor("b", "float32", [2])]
    exact, ours = ask([question(tensors, 100, True), question(tensors, 100, False)])
    assert without_places(exact) == tensorflow_shards(tensors, 100)
    check_rule(tensors, 100, ours)


@pytest.mark.covers("sharding.MaxShardSizePolicy")
def test_warnings_are_tensorflows(caplog):
    tensors = [tensor("a", "float32", [2]), tensor("s", "string", [], strings=[40]), tensor("c", "complex128", [])]
    with caplog.at_level("WARNING", logger="absl"):
        tensorflow_shards(tensors, 10)
    theirs = [record.getMessage() for record in caplog.records]
    assert len(theirs) == 2
    assert ask([question(tensors, 10, True)])[0]["warnings"] == theirs
    assert ask([question(tensors, 10, False)])[0]["warnings"] == theirs


@pytest.mark.covers(
    "sharding.ShardableTensor",
    note=(
        "A callback gets no values: `tensor` refers to the tensor or a part of it. Strings come "
        "with their sizes."
    ),
)
def test_sizes_that_are_not_known_count_as_nothing():
    """As in a tf.function, where TensorFlow cannot see strings."""
    tensors = [tensor("a", "float32", [2]), tensor("s", "string", [3], strings=[40, 1, 1]), tensor("t", "string", [], strings=[40])]
    for t in tensors:
        t["strings"] = None
    with tf.Graph().as_default():
        graph = [shardable(t, tf.compat.v1.placeholder(t["dtype"], t["shape"])) for t in tensors]
        shards = sharding_policies.MaxShardSizePolicy(10)(graph)
    exact = ask([question(tensors, 10, True)])[0]
    assert without_places(exact) == [[[k, [[spec, list(v.shape)] for spec, v in slices.items()]] for k, slices in shard.items()] for shard in shards]
    assert [w[:45] for w in exact["warnings"]] == ["The checkpoint sharding policy is being exec"+"u"]


# ---- validate_shards ----
DEVICES = ["", "/job:worker/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:1/device:CPU:0", "/job:ps/replica:0/task:1/device:GPU:2"]


def draw_validation(rng):
    """Tensors, of which the last few are none that should be saved, and shards of them in which something may be wrong."""
    device = str(rng.choice(DEVICES))
    tensors = []
    for i in range(rng.integers(2, 6)):
        shape = [[], [2], [2, 1], [3, 2]][rng.integers(4)]
        spec = " ".join(str(2 * n) for n in shape) + " " + ":".join(f"0,{n}" for n in shape) if shape and rng.random() < 0.3 else ""
        key = tensors[-1]["key"] if tensors and rng.random() < 0.3 and (tensors[-1]["key"], spec) not in {(t["key"], t["spec"]) for t in tensors} else f"key {i}"
        tensors.append(tensor(key, str(rng.choice(["float32", "int64", "string"])), shape, spec, name=f"n{i}:0",
                              device=device if rng.random() < 0.9 else str(rng.choice(DEVICES))))
    originals = len(tensors) - int(rng.random() < 0.3)
    shards = [[] for _ in range(rng.integers(1, 4))]
    for i in range(len(tensors) if rng.random() < 0.5 else originals):
        if rng.random() < 0.08:
            continue
        for _ in range(2 if rng.random() < 0.08 else 1):
            number = i if rng.random() < 0.9 else int(rng.integers(len(tensors)))
            spec = tensors[i]["spec"] if rng.random() < 0.95 else f" {tensors[i]['spec']} "
            entry = [spec, number, None, tensors[number]["shape"]]
            shard = shards[rng.integers(len(shards))]
            slices = next((s for key, s in shard if key == tensors[i]["key"]), None)
            if slices is None:
                shard.append([tensors[i]["key"], [entry]])
            elif entry[0] not in [s[0] for s in slices]:
                slices.append(entry)
    return tensors, originals, shards


def ask_validate(tensors, originals, shards, description):
    with tf.Graph().as_default():
        made = []
        for t in tensors:
            with tf.device(t["device"] or None):
                made.append(shardable(t, tf.compat.v1.placeholder(t["dtype"], t["shape"], name=t["name"].removesuffix(":0"))))
        theirs = [{key: {spec: made[number].tensor for spec, number, _, _ in slices} for key, slices in shard} for shard in shards]
        try:
            sharding_util.validate_shards(theirs, made[:originals], description)
        except (RuntimeError, KeyError) as e:
            return e
    return None


@pytest.mark.covers("sharding.ShardableTensor")
@pytest.mark.covers(
    "sharding.validate_shards",
    note=(
        "A part of a known tensor is allowed if all parts cover the tensor. TensorFlow raises "
        "KeyError."
    ),
)
@pytest.mark.covers(
    "sharding.validate_shards",
    note="Another tensor of the same shape is refused. TensorFlow accepts it.",
)
@pytest.mark.parametrize("first", [3000, FRESH], ids=["fixed", "fresh"])
def test_validation_says_what_tensorflow_says(first):
    cases = [draw_validation(np.random.default_rng([seed, 3])) for seed in range(first, first + 1500)]
    answers = ask([{"ask": "validate", "tensors": tensors, "originals": originals, "shards": shards, "description": "It's mine."}
                   for tensors, originals, shards in cases])
    kinds = {}
    for seed, ((tensors, originals, shards), ours) in enumerate(zip(cases, answers), first):
        theirs = ask_validate(tensors, originals, shards, "It's mine.")
        if isinstance(theirs, KeyError):  # a slice spec that the key does not have
            assert "altered" not in ours["error"], (seed, ours)
            kind = "KeyError"
        elif theirs is not None:
            assert ours == {"error": str(theirs), "code": "failed_precondition"}, (seed, tensors, originals, shards)
            kind = str(theirs).split("\n")[0]
        else:
            swapped = any(tensors[number] not in tensors[:originals] or (tensors[number]["key"], tensors[number]["spec"]) != (key, spec.strip())
                          for shard in shards for key, slices in shard for spec, number, _, _ in slices)
            assert ("in the place of one of the same shape" in ours["error"]) if swapped else ours == {}, (seed, ours)
            kind = "swapped" if swapped else "good"
        kinds[kind] = kinds.get(kind, 0) + 1
    assert kinds["good"] > 20, kinds
    if first == 3000:  # of others, the rarest may be in none
        assert len([kind for kind in kinds if kind.startswith("After executing")]) == 7 and kinds["swapped"], kinds


# ---- slice specs ----
@pytest.fixture
def save_says(scratch):
    def say(text, shape):
        try:
            tf.raw_ops.SaveV2(prefix=str(scratch / "x"), tensor_names=["w"], shape_and_slices=[text], tensors=[tf.zeros(shape)])
        except tf.errors.OpError as e:
            said = re.sub(r"^\{\{.*?\}\} ", "", e.message, flags=re.S)
            said = re.sub(r" \[Op:SaveV2\].*$", "", said, flags=re.S)
            return None if said.startswith("Slice in shape_and_slice specification does not match") else said
        return None

    return say


def draw_spec(rng):
    """Mostly good ones, with a character of it changed."""
    rank = rng.integers(1, 4)
    full = [int(n) for n in rng.integers(1, 6, rank)]
    parts = []
    for n in full:
        start = int(rng.integers(0, n))
        parts.append("-" if rng.random() < 0.2 else f"{start},{rng.integers(1, n - start + 1)}")
    text = " ".join(map(str, full)) + " " + ":".join(parts)
    for _ in range(rng.integers(0, 3)):
        at = int(rng.integers(0, len(text)))
        text = text[:at] + str(rng.choice([*"0123456789,:- +x\t", ""])) + text[at + int(rng.integers(0, 2)):]
    return text


@pytest.mark.covers("sharding.ShardableTensor")
@pytest.mark.parametrize("first", [4000, FRESH], ids=["fixed", "fresh"])
def test_slice_specs_are_read_as_tensorflow_reads_them(first, save_says):
    texts = ["4", "4 3 5", "4  3 -:-", "4 x -:-", "4 0,0", "4 -1,2", "4 0", "4 0,1,2", "4 a,2", "4 :-", " 4 -", "4 - ", "+4 -", "4 +0,4", "4 4,1", "4 3,2", "4 -:-",
             "4 3 -", " ", "  ", "4 ", "0 -", "4 0,,4", "4 ,0,4", "4 ,", "4 -\t", "4 0\t,4", "4 ++0,4", "4 -0,4", "99999999999999999999 -", "4 99999999999999999999,1"]
    for seed in range(first, first + 1500):
        text = draw_spec(np.random.default_rng([seed, 4]))
        # TensorFlow aborts the process for a negative extent of the whole, and for numbers whose sum or product is too large.
        if text.strip() and not re.search(r"-\d", text.rpartition(" ")[0]):
            texts.append(text)
    refused, taken = 0, []
    for text, ours in zip(texts, ask([{"ask": "spec", "text": text} for text in texts])):
        said = save_says(text, [1])
        assert ours.get("error") == said, text
        refused += said is not None
        if said is None:
            taken.append(ours)
    assert ask([{"ask": "spec", "text": ours["text"]} for ours in taken]) == taken
    assert 100 < refused < len(texts) - 300


class Holder:
    """An object that holds tensors of a checkpoint."""

    def _restore_from_tensors(self, tensors): ...


@pytest.mark.covers(
    "sharding.validate_shards",
    note="Two tensors of one key and slice are refused before the callback is called.",
)
@pytest.mark.parametrize("first, second", [(("a", ""), ("a", "")), (("a", "4 0,2"), ("a", "4 0,2")), (("a", ""), ("a", "4 0,2")), (("a", ""), ("b", "")), (("a", "4 0,2"), ("a", "4 2,2"))])
def test_two_tensors_of_one_key_and_slice(first, second):
    """TensorFlow's saver refuses them before it calls a callback."""
    value = tf.zeros([4], tf.int8)
    try:
        functional_saver.MultiDeviceSaver({Holder(): {key: {spec: value}} for key, spec in (first, second)})
        error = None
    except ValueError as raised:
        error = str(raised)
    [ours] = ask([{"ask": "by_task", "tensors": [tensor(key, "int8", [4], spec) for key, spec in (first, second)]}])
    assert (error is not None) == ("two tensors have the checkpoint key" in ours.get("error", "")) == (first == second), (error, ours)
    assert error is None or "Received multiple tensors with the same checkpoint key and slice spec" in error


# ---- hashes, devices ----
@pytest.mark.covers("sharding.ShardingCallback", "sharding.ShardByTaskPolicy")
def test_policies_are_described_and_compared_as_tensorflows():
    [ours] = ask([{"ask": "policies"}])
    one, other = sharding_policies.MaxShardSizePolicy(100), sharding_policies.MaxShardSizePolicy(100)
    assert ours == {"by_task": sharding_policies.ShardByTaskPolicy().description, "max_size": one.description, "equal": [one == one, one == other]}


@pytest.mark.covers(
    "sharding.ShardingCallback",
    note="The function `kwargs()` names the arguments of a callback.",
)
def test_callbacks_hash_alike_where_tensorflows_do():
    class Callback(sharding_util.ShardingCallback):
        def __init__(self, text, kwargs):
            self.__dict__.update(kwargs)
            self.__dict__["_text"] = text

        @property
        def description(self):
            return self._text

        def __call__(self, tensors):
            return []

    rng = np.random.default_rng([FRESH, 5])
    values = [1, 2, 8, 2.0, 0.5, True, "x", "y", "1", [1], [2], {"x": 1}]  # of whose hashes no few cancel each other out in Python
    asked = [("d", {}), ("e", {}), ("d", {"a": 1, "b": 2}), ("d", {"b": 2, "a": 1}), ("d", {"a": 2, "b": 1}), ("d", {"a": [1]}), ("d", {"a": [2]}),
             ("d", {"a": 1}), ("d", {"a": 1.0}), ("d", {"a": True}), ("d", {"b": 1})]
    for _ in range(150):
        names = [str(name) for name in rng.permutation(["a", "b", "c"])[: rng.integers(0, 4)]]
        asked.append((str(rng.choice(["d", "e"])), {name: values[rng.integers(len(values))] for name in names}))
    ours = [answer["hash"] for answer in ask([{"ask": "hash", "description": text, "kwargs": list(map(list, kwargs.items()))} for text, kwargs in asked])]
    made = [Callback(text, kwargs) for text, kwargs in asked]
    theirs = [hash(c) ^ hash("_text") ^ hash(c._text) for c in made]
    alike = 0
    for i, j in itertools.combinations(range(len(asked)), 2):
        assert (ours[i] == ours[j]) == (theirs[i] == theirs[j]), (asked[i], asked[j])
        alike += ours[i] == ours[j]
    assert alike > 10
    assert hash(sharding_policies.MaxShardSizePolicy(5)) == hash(sharding_policies.MaxShardSizePolicy(5))


@pytest.mark.covers(
    "sharding.ShardableTensor",
    note=(
        "Two are equal if they refer to the same tensor and part. TensorFlow compares the "
        "elements, or fails."
    ),
)
@pytest.mark.covers(
    "sharding.ShardableTensor",
    note=(
        "`text()` is TensorFlow's repr without Python's objects: a tensor is its number, a "
        'trackable is "an object".'
    ),
)
def test_shardable_tensors_are_compared_and_printed_as_tensorflows():
    """Pairs that differ in few members: which are equal, which hashes are, and the members that their text names."""
    rng = np.random.default_rng([FRESH, 6])
    pick = lambda of: of[rng.integers(len(of))]
    tensors = []
    for _ in range(60):
        made = tensor(str(pick(["k", "l/.ATTRIBUTES"])), str(pick(["float32", "qint8", "string"])), pick([[], [2], [2, 1]]), pick(["", "4 1 0,2:0,1"]), device=pick(DEVICES[:3] + ["/device:gpu:*", "/cpu:1"]), name=pick(["n:0", "m:0"]))
        tensors.append(made | {"trackable": pick([None, 1, 2])})
    tensors += tensors[:5]  # chance alone makes few equal pairs, at times none
    values, trackables = {}, {}

    def theirs(t):
        alike = (t["name"], t["dtype"], t["device"], tuple(t["shape"]))
        if alike not in values:  # no two have equal elements
            values[alike] = tf.constant([str(len(values))] * int(np.prod(t["shape"], dtype=int)), tf.string, t["shape"])
        own = trackables.setdefault(t["trackable"], t["trackable"] and tf.train.Checkpoint())
        return dataclasses.replace(shardable(t, values[alike]), dtype=dtype_of(t["dtype"]), trackable=own)

    def equal(a, b):
        try:
            return a == b
        except ValueError:  # TensorFlow compares the elements of two tensors, and has no truth for more than one
            return False

    made = [theirs(t) for t in tensors]
    [ours] = ask([{"ask": "compare", "tensors": tensors, "share": True}])
    assert ours["equal"] == [[equal(a, b) for b in made] for a in made]
    assert ours["same_hash"] == [[hash(a) == hash(b) for b in made] for a in made]
    assert sum(map(sum, ours["equal"])) > len(made) and sum(map(sum, ours["same_hash"])) < len(made) ** 2
    for one, text in zip(made, ours["texts"]):
        members = lambda of: dict(re.findall(r"^  (\w+)=(.*)", of, re.M))
        want, got = members(repr(one)), members(text)
        assert list(got) == [name for name in want if name != "_tensor_save_spec"]
        assert text.startswith("\nShardableTensor:\n") and repr(one).startswith("\nShardableTensor:\n")
        same = ["dtype", "device", "name", "shape", "slice_spec", "checkpoint_key"]
        assert [got[name] for name in same] == [want[name] for name in same]
        assert (got["trackable"] == "None") == (want["trackable"] == "None")


@pytest.mark.covers("sharding.ShardableTensor")
def test_devices():
    texts = ["", "/job:a/task:1", "/task:x", "/cpu:0", "/foo:1", "/device:CPU:0/cpu:0", "/device:CPU:x", "job:a", "/task:-3", "/TASK:1", "/job:a:b", "//",
             "/device:XYZ:*", "/replica:q", "/gpu", "/task:", "/xla_cpu:1", "/cpu:*", "/task:1/task:2", "/device:CPU:", "/custom:3/task:12"]
    for text, ours in zip(texts, ask([{"ask": "task", "device": text} for text in texts])):
        try:
            assert ours == {"task": tf.DeviceSpec.from_string(text).task}, text
        except ValueError as e:
            assert ours == {"error": str(e), "code": "invalid_argument"}, text
