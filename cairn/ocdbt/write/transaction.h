// transaction.h -- the changes that an OcdbtTransaction collects.
#pragma once

#include <cairn/ocdbt/write/writer.h>
#include <cairn/storage/ocdbt.h>

#include <string>
#include <vector>

namespace cairn::inline v0 {
namespace ocdbt {

// The value that a key must have for a commit; nullopt: none.
struct Requirement {
  std::string key;
  std::optional<Bytes> value;
};
// Whether the store has exactly this value. Reads no value of another size.
bool is_met(const KvStore& store, const Requirement& requirement);

}  // namespace ocdbt

struct OcdbtTransaction::State {
  State(const StorePtr& base, ocdbt::WriterOptions options, std::string key_prefix)
      : prefix(std::move(key_prefix)), writer(base, std::move(options)), stream(writer.stream()) {}

  // The key in the database. Throws invalid_argument for an empty key.
  [[nodiscard]] std::string full(std::string_view key) const;

  std::string prefix;  // of all keys
  ocdbt::Writer writer;
  ocdbt::Writer::Stream& stream;
  std::vector<ocdbt::Requirement> requirements;
};

}  // namespace cairn::inline v0
