#include <cairn/tools/model_map/source_leaves.h>

#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>
#include <cairn/inspect.h>
#include <cairn/tree/transform/transform_keys.h>

namespace cairn::inline v0 {

SourceLeaves::SourceLeaves(const Checkpoint& source) {
  for (const TensorInfo& tensor : source.tensors()) {
    if (tensor.item) invalid_argument("the checkpoint has several items; choose one with --item");
    std::string key = transform_key(tensor.path);
    if (!valid_utf8(key)) key = printable_text(key);
    if (!places_.emplace(key, keys_.size()).second)
      invalid_argument("two leaves have the key '" + printable_text(key) + "'");
    keys_.push_back(std::move(key));
    shapes_.push_back(tensor.shape);
  }
}

std::optional<std::size_t> SourceLeaves::find(std::string_view key) const {
  const auto found = places_.find(std::string(key));
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace cairn::inline v0
