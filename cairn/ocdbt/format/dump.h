// dump.h -- converts encoded objects to JSON, for inspecting a database. Member names match
// TensorStore's ocdbt.dump. Keys and inline values that are not UTF-8 text become {"hex": "..."}.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/bytes.h>

#include <string_view>

namespace cairn::inline v0::ocdbt {

// All functions throw data_loss for damaged bytes. Returns {"config": {...}, "versions": [...],
// "version_tree_nodes": [...]}; for the manifest.ocdbt of a numbered database only the config.
Json dump_manifest(ByteView encoded);
// Returns a B+tree node as {"height", "entries"}, or a version node as {"height",
// "version_tree_arity_log2", "entries"}; the magic number tells them apart. `base_path` is the base
// path of the reference to the node. It precedes the base paths of the node's own references.
Json dump_node(ByteView encoded, std::string_view base_path);
// Converts an object of any kind.
Json dump_object(ByteView encoded, std::string_view base_path);

}  // namespace cairn::inline v0::ocdbt
