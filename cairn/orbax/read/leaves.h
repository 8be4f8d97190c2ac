// leaves.h -- the leaves of a pytree: from `_METADATA`, from the legacy msgpack file, or from the
// names of the arrays.
#pragma once

#include <cairn/orbax/read/pytree_item.h>

#include <string>

namespace cairn::inline v0::orbax {

// Reads `_METADATA` and adds its leaves. Where there are very many, another thread makes their
// tensors while this one parses the rest of the file.
void read_tree_metadata(PytreeItem& out, const std::string& file, std::size_t threads);

// Adds the leaves of the aggregate file. Its values take precedence over stored arrays. Its
// placeholders only state that an array exists. If `_METADATA` exists, an aggregate file with only
// placeholders is ignored.
void add_aggregate_leaves(PytreeItem& out, const File& file);

// If no structure is recorded: adds a leaf for each array. Splits their names at the separator with
// which the writer joined them. `metadata_key` as in OpenOptions.
void add_named_leaves(PytreeItem& out, const std::string& metadata_key);

}  // namespace cairn::inline v0::orbax
