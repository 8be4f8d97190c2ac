"""Stores of metadata: files of one JSON object each."""

from cairn.orbax._impl.stored.metadata_store import MetadataStore, metadata_store

__all__ = ["MetadataStore", "metadata_store"]
