"""`cairn verify` refuses the text of a protocol buffer exactly when the real text_format finds no message type that could have it.

The real parser is asked with unknown fields allowed, so that only the syntax counts, and reads the file as Orbax's handler does.
"""

import json
import random
import subprocess

import pytest
from google.protobuf import empty_pb2, json_format, struct_pb2, text_format
import orbax.checkpoint as ocp
from orbax.checkpoint._src.handlers import proto_checkpoint_handler as proto

import cairn_cli

WRITTEN = text_format.MessageToString(json_format.ParseDict(
    {"layers": [1, 2.5, -3e-7, None, {"name": "a \"quoted\" 'text'\n\x01 é 漢 \\ end", "on": True}], "empty": {}}, struct_pb2.Struct()))
# What people write by hand.
BY_HAND = r"""# a model
name: "lay" 'er' "\x41\101\u00e9\U0001F600\n\q"  # in parts
sizes: [1, -2, 0x1F, 017, +4, 1_000]; rates: [.5, 1.f, -1e-3F, inf, -Infinity, nan], on: true
block < kind: RELU [a.b_c.d]: 3 12: "a number" inner { } list: [{ a: 1 }, < b: 2 >] >
"""
PIECES = ['"', "'", "{", "}", "<", ">", "[", "]", ":", ",", ";", "#", "\n", "\r", " ", "\\", "a", "name: ", "0", "9", "-", "+", ".", "_", "x", "e5", "f", "inf", "nan",
          "0x", "0b1", "0o7", "08", "00", "18446744073709551616", "-9223372036854775809", "0xfffffffffffffffff", "\\x", "\\u12", "\\ud800", "\\400", "\\N", "\0", "\x1c",
          "\u2003", "/", "@", "%"]


def damaged(text, count, seed):
    """The text with bits flipped, cut, with parts removed, doubled and put in."""
    rng = random.Random(seed)
    whole = text.encode()
    for _ in range(count):
        at, end = sorted(rng.choices(range(len(whole) + 1), k=2))
        end = min(end, at + rng.randrange(1, 9))
        kind = rng.randrange(5)
        if kind == 0 and at < len(whole):
            yield whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        elif kind == 1:
            yield whole[:at]
        elif kind == 2:
            yield whole[:at] + whole[end:]
        elif kind == 3:
            yield whole[:end] + whole[at:]
        else:
            yield whole[:at] + rng.choice(PIECES).encode() + whole[at:]


def is_syntax(path):
    try:
        text_format.Parse(path.read_text(encoding="utf-8"), empty_pb2.Empty(), allow_unknown_field=True)
    except (text_format.ParseError, UnicodeDecodeError):
        return False
    return True


@pytest.mark.parametrize("text", [WRITTEN, BY_HAND], ids=["written", "by_hand"])
def test_both_refuse_the_same_texts(scratch, text):
    cases = [text.encode(), *damaged(text, 1500, seed=7)]
    for i, case in enumerate(cases):
        (scratch / str(i)).write_bytes(case)
    names = [str(scratch / str(i)) for i in range(len(cases))]
    done = subprocess.run([cairn_cli.TOOLS / "proto_text_tool", *names], capture_output=True, text=True, check=True)
    faults = done.stdout.split("\n")[:-1]
    assert len(faults) == len(cases)
    wrong = [(case, fault) for i, (case, fault) in enumerate(zip(cases, faults)) if (fault == "") != is_syntax(scratch / str(i))]
    assert not wrong, wrong[:5]
    assert faults[0] == ""
    assert 300 < sum(fault != "" for fault in faults) < len(cases)


@pytest.mark.parametrize("content, offset", [(b'fields { key: "lay', 14), (b"\xff\xfe\x00", 0), (b'fields {\n  key: "a"\n', 20), (b"fields } ", 7)])
def test_verify_names_the_file_and_the_offset(scratch, content, offset):
    with ocp.CheckpointManager(scratch / "run") as manager:
        manager.save(1, args=ocp.args.Composite(message=proto.ProtoSaveArgs(json_format.ParseDict({"a": 1}, struct_pb2.Struct()))))
    assert cairn_cli.call("verify", scratch / "run").returncode == cairn_cli.GOOD
    file = scratch / "run" / "1" / "message" / "proto.pbtxt"
    file.write_bytes(content)
    report = cairn_cli.call("verify", scratch / "run", "--json")
    assert report.returncode == cairn_cli.NO
    [finding] = json.loads(report.stdout)["findings"]
    assert (finding["file"], finding["offset"], finding["severity"]) == (str(file), offset, "damage")
    with ocp.CheckpointManager(scratch / "run") as manager, pytest.raises((text_format.ParseError, UnicodeDecodeError)):
        manager.restore(1, args=ocp.args.Composite(message=proto.ProtoRestoreArgs(struct_pb2.Struct)))
