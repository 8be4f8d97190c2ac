// dump.h -- encoded objects as JSON, for people who look into a database. Member names are those of
// TensorStore's ocdbt.dump; keys and inline values that are not UTF-8 text become {"hex": "..."}.
#pragma once

#include <cairn/base/json.h>
#include <cairn/bytes.h>

#include <string_view>

namespace cairn::ocdbt {

// All throw data_loss for damaged bytes. {"config": {...}, "versions": [...], "version_tree_nodes":
// [...]}; a numbered database's manifest.ocdbt: config alone.
Json dump_manifest(ByteView encoded);
// A B+tree node {"height", "entries"} or version node {"height", "version_tree_arity_log2",
// "entries"}, told apart by their magic. `base_path` is that of the reference to the node; it
// stands before the base paths of the node's own.
Json dump_node(ByteView encoded, std::string_view base_path);
// Any of them.
Json dump_object(ByteView encoded, std::string_view base_path);

}  // namespace cairn::ocdbt
