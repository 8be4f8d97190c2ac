"""The bytes of TensorFlow checkpoints, taken apart and put together without TensorFlow: to make what it does not write (big-endian data,
compressed and small blocks), and to damage what it does."""

import struct

import google_crc32c

MAGIC = 0xDB4775248B80FB57


def masked(data):
    crc = google_crc32c.value(bytes(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def take_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def block_entries(data, offset, size):
    contents = data[offset : offset + size]
    assert data[offset + size] == 0, "compressed"
    restarts = struct.unpack("<I", contents[-4:])[0]
    end = len(contents) - 4 - 4 * restarts
    at, key, found = 0, b"", []
    while at < end:
        shared, at = take_varint(contents, at)
        new, at = take_varint(contents, at)
        length, at = take_varint(contents, at)
        key = key[:shared] + contents[at : at + new]
        at += new
        found.append((key, contents[at : at + length]))
        at += length
    return found


def read_table(path):
    """[(key, value)] of an index without compression."""
    data = path.read_bytes()
    at = len(data) - 48
    _, at = take_varint(data, at)
    _, at = take_varint(data, at)
    offset, at = take_varint(data, at)
    size, at = take_varint(data, at)
    found = []
    for _, handle in block_entries(data, offset, size):
        start, used = take_varint(handle, 0)
        length, _ = take_varint(handle, used)
        found += block_entries(data, start, length)
    return found


def block(entries, restart_interval):
    out, restarts, last = bytearray(), [], b""
    for i, (key, value) in enumerate(entries):
        shared = 0
        if i % restart_interval == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    restarts = restarts or [0]
    return bytes(out) + b"".join(struct.pack("<I", r) for r in restarts) + struct.pack("<I", len(restarts))


def write_table(path, entries, per_block=10**9, restart_interval=16):
    out = bytearray()

    def add(contents):
        handle = varint(len(out)) + varint(len(contents))
        out.extend(contents + b"\0" + struct.pack("<I", masked(contents + b"\0")))
        return handle

    blocks = []
    for start in range(0, len(entries), per_block):
        part = entries[start : start + per_block]
        blocks.append((part[-1][0], add(block(part, restart_interval))))
    meta = add(block([], 1))
    index = add(block(blocks, 1))
    path.write_bytes(bytes(out) + (meta + index).ljust(40, b"\0") + struct.pack("<Q", MAGIC))


def fields(message):
    """[(number, wire type, value)] of a protobuf message."""
    at, found = 0, []
    while at < len(message):
        tag, at = take_varint(message, at)
        if tag & 7 == 0:
            value, at = take_varint(message, at)
        elif tag & 7 == 5:
            value, at = struct.unpack("<I", message[at : at + 4])[0], at + 4
        else:
            length, at = take_varint(message, at)
            value, at = message[at : at + length], at + length
        found.append((tag >> 3, tag & 7, value))
    return found


def message(found):
    out = bytearray()
    for number, wire, value in found:
        out += varint(number << 3 | wire)
        out += varint(value) if wire == 0 else struct.pack("<I", value) if wire == 5 else varint(len(value)) + value
    return bytes(out)


# How many bytes of an element a foreign byte order reverses at a time, by TensorFlow's number of the type.
COMPONENT = {1: 4, 2: 8, 3: 4, 4: 1, 5: 2, 6: 1, 8: 4, 9: 8, 10: 1, 14: 2, 17: 2, 18: 8, 19: 2, 22: 4, 23: 8}


def to_big_endian(prefix, target):
    """A checkpoint of one data file with its tensors in the other byte order: of the types in COMPONENT, and strings."""
    data = prefix.with_name(prefix.name + ".data-00000-of-00001").read_bytes()
    out, entries = bytearray(data), []
    for key, value in read_table(prefix.with_name(prefix.name + ".index")):
        if not key:
            entries.append((key, message([(1, 0, 1), (2, 0, 1)] + [f for f in fields(value) if f[0] > 2])))
            continue
        known = dict((number, found) for number, _, found in fields(value))
        start, size = known.get(4, 0), known.get(5, 0)
        stored = data[start : start + size]
        if known[1] == 7:
            stored, crc = big_endian_strings(stored, known)
        else:
            width = COMPONENT[known[1]]
            stored = b"".join(stored[i : i + width][::-1] for i in range(0, size, width))
            crc = masked(stored)
        out[start : start + size] = stored
        entries.append((key, message([f if f[0] != 6 else (6, 5, crc) for f in fields(value)])))
    write_table(target.with_name(target.name + ".index"), entries)
    target.with_name(target.name + ".data-00000-of-00001").write_bytes(out)


def big_endian_strings(stored, entry):
    count = 1
    for number, _, value in fields(entry[2]):
        if number == 2:
            count *= dict((n, v) for n, _, v in fields(value)).get(1, 0)
    at, lengths = 0, []
    for _ in range(count):
        length, at = take_varint(stored, at)
        lengths.append(length)
    summed = b"".join(struct.pack(">I", length) for length in lengths)
    checksum = struct.pack(">I", masked(summed))
    strings = stored[at + 4 :]
    return stored[:at] + checksum + strings, masked(summed + checksum + strings)
