// support.h -- golden databases, and small ones built by hand, for the tests of OCDBT.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/io/file.h>
#include <cairn/ocdbt/format/btree.h>
#include <cairn/ocdbt/format/manifest.h>
#include <cairn/storage/kvstore.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/faulty_store.h"
#include "tests/support/hex.h"

namespace cairn::ocdbt::testing {

inline Bytes to_bytes(std::string_view text) {
  const ByteView view = as_bytes(text);
  return {view.begin(), view.end()};
}

// ---- golden databases: tests/golden/ocdbt/make_golden.py says what is in each ----

inline std::string golden_path(const std::string& name) {
  return std::string(CAIRN_GOLDEN_DIR) + "/ocdbt/tensorstore-0.1.86/" + name;
}

inline const std::vector<std::string>& golden_names() {
  static const std::vector<std::string> names = {
      "plain",     "limits",        "zstd_levels", "one_big_node",   "fast_zstd",
      "deep_raw",  "many_versions", "numbered",    "numbered_empty", "prefixes",
      "deletions", "emptied",       "merged",      "merged_levels",  "merged_twice"};
  return names;
}

// One version of a golden database as TensorStore reads it.
struct GoldenVersion {
  std::uint64_t generation = 0;
  std::uint64_t commit_time_ns = 0;
  std::map<std::string, std::string> items;
};
// A manifest or node, and TensorStore's dump of it.
struct GoldenObject {
  std::string file, base_path;
  std::optional<ByteRange> range;
  Json dump;
};
struct Golden {
  std::vector<GoldenVersion> versions;
  std::vector<GoldenObject> objects;
};

inline Golden load_golden(const std::string& name) {
  const Json json = parse_json(as_text(read_file(golden_path(name + ".json"))));
  Golden golden;
  for (const Json& v : *json.find("versions")->as_array()) {
    auto& version = golden.versions.emplace_back();
    version.generation = *v.find("generation")->as_uint64();
    version.commit_time_ns = *v.find("commit_time")->as_uint64();
    for (const Json& item : *v.find("items")->as_array())
      version.items[cairn::testing::text_from_hex(*(*item.as_array())[0].as_string())] =
          cairn::testing::text_from_hex(*(*item.as_array())[1].as_string());
  }
  for (const Json& o : *json.find("objects")->as_array()) {
    auto& object = golden.objects.emplace_back();
    object.file = *o.find("file")->as_string();
    object.base_path = *o.find("base")->as_string();
    if (const Json* offset = o.find("offset"))
      object.range = {*offset->as_uint64(), *o.find("length")->as_uint64()};
    object.dump = *o.find("dump");
  }
  return golden;
}

// Members sorted, so that two spellings of the same value are equal text.
inline Json sorted_members(const Json& json) {
  if (const auto* array = json.as_array()) {
    JsonArray out;
    for (const Json& e : *array) out.push_back(sorted_members(e));
    return out;
  }
  if (const auto* object = json.as_object()) {
    JsonObject out;
    for (const auto& [key, value] : *object) out.emplace_back(key, sorted_members(value));
    std::sort(out.begin(), out.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    return out;
  }
  return json;
}

// Everything in a store.
inline std::map<std::string, std::string> contents(const KvStore& store) {
  std::map<std::string, std::string> items;
  for (const auto& entry : store.list(""))
    items[entry.key] = std::string(as_text(store.read(entry.key, {}).value()));
  return items;
}

// ---- databases built by hand ----

// Puts objects into the files of a store, back to back, and says where they are.
class Builder {
 public:
  explicit Builder(StorePtr store) : store_(std::move(store)) {}

  // Appends to `file`; the reference's file index is 0.
  DataRef append(const std::string& file, ByteView bytes) {
    Bytes& content = files_[file];
    const DataRef ref{.file = 0, .offset = content.size(), .length = bytes.size()};
    content.insert(content.end(), bytes.begin(), bytes.end());
    store_->write(file, content);
    return ref;
  }
  DataRef append(const std::string& file, const BtreeNode& node) {
    return append(file, encode_btree_node(node, std::nullopt));
  }
  // A manifest.ocdbt whose only version has this root.
  void publish(const DataFile& file, const DataRef& root, std::uint8_t height) {
    Manifest manifest;
    manifest.files = {file};
    manifest.versions = {{.generation = 1,
                          .root_height = height,
                          .root = root,
                          .statistics = {},
                          .commit_time_ns = 1000}};
    store_->write(kManifestKey, encode_manifest(manifest));
  }

 private:
  StorePtr store_;
  std::map<std::string, Bytes> files_;
};

// ---- stores that watch, or interfere ----

using cairn::testing::ForwardingStore;

// Counts reads.
class CountingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    ++reads_;
    return ForwardingStore::read(key, range);
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    ++reads_;
    return ForwardingStore::read_at_most(key, most);
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    ++reads_;
    return ForwardingStore::read_into(key, offset, out);
  }
  // Since it was last asked.
  [[nodiscard]] std::size_t reads() { return reads_.exchange(0); }

 private:
  mutable std::atomic<std::size_t> reads_ = 0;
};

}  // namespace cairn::ocdbt::testing
