"""Where the blocks of a TensorFlow index are: a sorted table of LevelDB's."""


def varint(content, at):
    value = shift = 0
    while True:
        value |= (content[at] & 0x7F) << shift
        shift += 7
        at += 1
        if content[at - 1] < 0x80:
            return value, at


def data_blocks(index):
    """(begin, end) of the data blocks of an index; the metaindex block follows the last one."""
    content = index.read_bytes()
    meta, at = varint(content, len(content) - 48)
    _, at = varint(content, at)
    at, _ = varint(content, at)
    blocks = []
    while not blocks or blocks[-1][1] < meta:
        shared, at = varint(content, at)
        key_size, at = varint(content, at)
        _, at = varint(content, at)
        begin, at = varint(content, at + key_size)
        size, at = varint(content, at)
        blocks.append((begin, begin + size + 5))
    return blocks
