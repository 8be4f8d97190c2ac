"""The metadata of torch_checkpointing in version 1.0, which 0.1.1 reads and does not write."""

import json

from torch_checkpointing.distributed_metadata import DistributedMetadata


def version_1(metadata):
    """What `metadata`, of version 2.0, says. The package reads both as the same."""
    items = metadata["metadata"]
    old = {
        "metadata": {
            json.dumps([name, *json.loads(path)], separators=(",", ":")): groups
            for name, item in items.items() for path, groups in item["nested_path_to_metadata"].items()},
        "rank_to_layout_info_mappings": {
            rank: {name: item["rank_to_layout_info"][rank] for name, item in items.items()} for rank in range(metadata["world_size"])},
        "world_size": metadata["world_size"], "version": "1.0"}
    assert DistributedMetadata.from_dict(old) == DistributedMetadata.from_dict(metadata)
    return old
