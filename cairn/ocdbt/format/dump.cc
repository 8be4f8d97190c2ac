// dump.cc -- converts manifests, B+tree nodes and version nodes to JSON.
#include <cairn/ocdbt/format/dump.h>

#include <cairn/base/utf8.h>
#include <cairn/ocdbt/format/btree.h>
#include <cairn/ocdbt/format/envelope.h>
#include <cairn/ocdbt/format/manifest.h>
#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0::ocdbt {
namespace {

Json text_or_hex(std::string_view bytes) {
  if (valid_utf8(bytes)) return std::string(bytes);
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return JsonObject{{"hex", Json(std::move(hex))}};
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// Formats references as "btreenode:<base path>:<relative path>:<offset>:<length>".
struct References {
  const DataFileTable& files;
  std::string_view base_path;

  [[nodiscard]] Json text(std::string_view kind, const DataRef& ref) const {
    const DataFile& file = files[ref.file];
    return fmt::format("{}:{}{}:{}:{}:{}", kind, percent_encoded(base_path),
                       percent_encoded(file.base_path), percent_encoded(file.relative_path),
                       ref.offset, ref.length);
  }
};

Json dump_statistics(const Statistics& s) {
  return JsonObject{{"num_indirect_value_bytes", s.num_indirect_value_bytes},
                    {"num_keys", s.num_keys},
                    {"num_tree_bytes", s.num_tree_bytes}};
}

Json dump_version(const Version& v, const References& refs) {
  JsonObject root;
  if (!v.root.missing()) root.emplace_back("location", refs.text("btreenode", v.root));
  root.emplace_back("statistics", dump_statistics(v.statistics));
  return JsonObject{{"generation_number", v.generation},
                    {"commit_time", v.commit_time_ns},
                    {"root_height", int{v.root_height}},
                    {"root", Json(std::move(root))}};
}

Json dump_version_ref(const VersionNodeRef& r, const References& refs) {
  return JsonObject{{"generation_number", r.generation},
                    {"commit_time", r.commit_time_ns},
                    {"height", int{r.height}},
                    {"num_generations", r.num_generations},
                    {"location", refs.text("versionnode", r.location)}};
}

template <class Entries, class Dump>
JsonArray dump_all(const Entries& entries, Dump dump, const References& refs) {
  JsonArray array;
  array.reserve(entries.size());
  for (const auto& e : entries) array.push_back(dump(e, refs));
  return array;
}

// Omits the same defaults as TensorStore.
Json dump_config(const Config& config) {
  JsonObject out{{"uuid", config.uuid_text()}};
  if (config.manifest_kind == ManifestKind::kNumbered)
    out.emplace_back("manifest_kind", "numbered");
  out.emplace_back("max_inline_value_bytes", std::uint64_t{config.max_inline_value_bytes});
  out.emplace_back("max_decoded_node_bytes", std::uint64_t{config.max_decoded_node_bytes});
  out.emplace_back("version_tree_arity_log2", int{config.version_tree_arity_log2});
  Json compression;
  if (config.zstd_level) {
    compression.set("id", "zstd");
    if (*config.zstd_level != 0) compression.set("level", int{*config.zstd_level});
  }
  out.emplace_back("compression", std::move(compression));
  return out;
}

Json dump_leaf_entry(const BtreeNode& node, std::size_t i, const References& refs) {
  const LeafValue& value = node.values[i];
  JsonObject entry{{"key", text_or_hex(node.keys[i])}};
  if (value.is_inline())
    entry.emplace_back("inline_value", text_or_hex(as_text(node.inline_value(value))));
  else
    entry.emplace_back(
        "indirect_value",
        refs.text("value", {.file = value.file, .offset = value.offset, .length = value.length}));
  return entry;
}

Json dump_interior_entry(const BtreeNode& node, std::size_t i, const References& refs) {
  const ChildNode& child = node.children[i];
  return JsonObject{{"key", text_or_hex(node.keys[i])},
                    {"subtree_common_prefix",
                     text_or_hex(node.keys[i].substr(0, child.subtree_common_prefix_length))},
                    {"location", refs.text("btreenode", child.location)},
                    {"statistics", dump_statistics(child.statistics)}};
}

Json dump_btree_node(ByteView encoded, std::string_view base_path) {
  const BtreeNode node = decode_btree_node(encoded);
  const References refs{node.files, base_path};
  JsonArray entries;
  for (std::size_t i = 0; i < node.keys.size(); ++i)
    entries.push_back(node.height == 0 ? dump_leaf_entry(node, i, refs)
                                       : dump_interior_entry(node, i, refs));
  return JsonObject{{"height", int{node.height}}, {"entries", Json(std::move(entries))}};
}

Json dump_version_node(ByteView encoded, std::string_view base_path) {
  const VersionNode node = decode_version_node(Bytes(encoded.begin(), encoded.end()));
  const References refs{node.files, base_path};
  JsonArray entries = node.height == 0 ? dump_all(node.versions, dump_version, refs)
                                       : dump_all(node.children, dump_version_ref, refs);
  return JsonObject{{"height", int{node.height}},
                    {"version_tree_arity_log2", int{node.arity_log2}},
                    {"entries", Json(std::move(entries))}};
}

[[noreturn]] void refuse_unknown(ByteView encoded) {
  std::string start;
  for (const auto byte : encoded.first(std::min<std::size_t>(encoded.size(), 4)))
    start += fmt::format("{:02x}", static_cast<unsigned>(byte));
  throw Error(Code::kDataLoss, fmt::format("not an OCDBT manifest (0cdb3a2a), b+tree node "
                                           "(0cdb20de) or version tree node (0cdb1234): it "
                                           "starts with {}",
                                           start.empty() ? "nothing" : start));
}

}  // namespace

Json dump_manifest(ByteView encoded) {
  const Manifest manifest = decode_manifest(Bytes(encoded.begin(), encoded.end()));
  JsonObject out{{"config", dump_config(manifest.config)}};
  if (manifest.config.manifest_kind == ManifestKind::kNumbered) return out;
  const References refs{manifest.files, {}};
  out.emplace_back("versions", dump_all(manifest.versions, dump_version, refs));
  out.emplace_back("version_tree_nodes", dump_all(manifest.version_nodes, dump_version_ref, refs));
  return out;
}

Json dump_node(ByteView encoded, std::string_view base_path) {
  const auto kind = sniff_object(encoded);
  if (kind == ObjectKind::kBtreeNode) return dump_btree_node(encoded, base_path);
  if (kind == ObjectKind::kVersionNode) return dump_version_node(encoded, base_path);
  refuse_unknown(encoded);
}

Json dump_object(ByteView encoded, std::string_view base_path) {
  return sniff_object(encoded) == ObjectKind::kManifest ? dump_manifest(encoded)
                                                        : dump_node(encoded, base_path);
}

}  // namespace cairn::inline v0::ocdbt
