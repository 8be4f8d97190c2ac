"""The types of the options of cairn.save and others. Only type checkers read them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any, Literal, TypedDict


class StorageOptions(TypedDict, total=False):
    """Options of every save of an Orbax checkpoint."""

    use_ocdbt: bool
    use_zarr3: bool
    compression: str
    chunk_bytes: int | None
    target_file_bytes: int
    durability: Literal["synced", "unsynced"]
    support_rich_types: bool
    commit_protocol: Literal["atomic_rename", "commit_file"]
    save_timeout: float | None
    storage_options: StoreOptions | None
    threads: int | None
    memory: int | None


class SaveOptions(StorageOptions, total=False):
    """Options of cairn.save."""

    item: str | None
    v1: bool
    reuse_from: str | os.PathLike[str]


class AsyncSaveOptions(SaveOptions, total=False):
    """Options of cairn.save_async."""

    background_copy_bytes: int | None


class ManagerOptions(StorageOptions, total=False):
    """Options of CheckpointManager."""

    background_copy_bytes: int | None
    coordinator: Any
    timeout: float
    save_interval_steps: int
    save_on_steps: Collection[int] | None
    is_preempted: Callable[[int], bool] | None
    max_to_keep: int | None
    keep_period: int | None
    keep_time_interval: float | None
    best_metric: str | None
    best_fn: Callable[[dict[str, float]], float] | None
    best_mode: Literal["max", "min"]
    keep_checkpoints_without_metrics: bool
    step_prefix: str | None
    step_digits: int | None
    step_separator: str | None
    format: Literal["orbax", "dcp"]
    create: bool
    read_only: bool
    cleanup_tmp_directories: bool
    todelete_subdir: str | None
    root_metadata: str
    enable_background_delete: bool
    prevent_write_metrics: bool
    enable_async_checkpointing: bool
    reuse_unchanged: bool


class StoreOptions(TypedDict, total=False):
    """Options of object stores: storage_options of cairn.open, save and others."""

    endpoint: str | None
    region: str | None
    profile: str | None
    anonymous: bool | None
    access_key: str | None
    secret_key: str | None
    session_token: str | None
    bearer_token: str | None
    path_style: bool | None
    verify_tls: bool | None
    ca_file: str | None
    max_connections: int | None
    connect_timeout: float | None
    stall_timeout: float | None
    retry_time: float | None


class LoadOptions(TypedDict, total=False):
    """Options of cairn.load for a chosen step."""

    out: Any
    include: str | list[str] | None
    item: str | None
    partial: bool
    framework: Literal["numpy", "torch", "jax"] | None
    dtype: Any
    sharding: Any
    casting: Literal["checked", "unsafe"]
    allow_missing: bool
    progress: Any


class LoadBelowOptions(TypedDict, total=False):
    """Options of Group.load."""

    framework: Literal["numpy", "torch", "jax"] | None
    dtype: Any
    sharding: Any
    casting: Literal["checked", "unsafe"]
    progress: Any


class ReadOptions(TypedDict, total=False):
    """Options of functions that open a checkpoint and write it again."""

    storage_options: StoreOptions | None
    allow_uncommitted: bool
    metadata_key: str
    generation: int | None
    commit_time_ns: int | None
    dequantize: bool
    threads: int
    memory: int | None


class ReshardOptions(ReadOptions, total=False):
    """Options of cairn.reshard: how the new Orbax checkpoint is stored."""

    target_storage_options: StoreOptions | None
    compression: str
    chunk_bytes: int | None
    target_file_bytes: int | None
    as_item: str | None
    follow_links: bool
    durability: Literal["synced", "unsynced"]
    commit_protocol: Literal["atomic_rename", "commit_file"]


class ConvertOptions(ReshardOptions, total=False):
    """Options of cairn.convert."""

    shard_bytes: int | None
    dialect: Literal["flax", "orbax"] | None
    object_graph: bool
    latest: bool
