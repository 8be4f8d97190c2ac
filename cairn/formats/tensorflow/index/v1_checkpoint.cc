// v1_checkpoint.cc -- reads the first entry of a table.
#include <cairn/formats/tensorflow/index/v1_checkpoint.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/formats/tensorflow/index/sstable.h>

#include <optional>
#include <string_view>

namespace cairn::inline v0 {
namespace {

constexpr std::byte kMetaField{0x0a};  // field 1, which has a length
// The state file names a set of files by this pattern.
constexpr std::string_view kAnyShard = "-?\?\?\?\?-of-";

// Whether the name is that of a file of the set: "<prefix>-00000-of-00002".
bool is_shard_of(std::string_view name, std::string_view prefix) {
  constexpr std::string_view kShape = "-00000-of-00000";
  if (!name.starts_with(prefix) || name.size() != prefix.size() + kShape.size()) return false;
  name.remove_prefix(prefix.size());
  return name.starts_with('-') && name.substr(6, 4) == "-of-" &&
         consists_of(name.substr(1, 5), kDecimalDigits) &&
         consists_of(name.substr(10), kDecimalDigits);
}

// The first file of the set with this prefix; nullopt if there is none.
std::optional<File> first_shard(const FileTree& tree, const std::string& path) {
  const std::string folder = parent_of(path);
  std::string_view prefix = name_of(path);
  prefix = prefix.substr(0, prefix.find(kAnyShard));
  for (const std::string& name : tree.names_in(folder))
    if (is_shard_of(name, prefix)) return tree.try_open(folder + "/" + name);
  return std::nullopt;
}

}  // namespace

bool is_v1_checkpoint(const File& file) {
  const auto found = try_look(file.is_local(), [&] {
    if (!is_sstable(file)) return false;
    const auto first = first_sstable_entry(
        file.size(),
        [&](std::uint64_t offset, MutableByteView out) { file.read_into(offset, out); });
    return first && first->first.empty() && !first->second.empty() &&
           first->second.front() == kMetaField;
  });
  return found.ok() && found.value();
}

void refuse_v1_checkpoint(const FileTree& tree, const std::string& path) {
  auto found = try_look(tree.is_local(), [&] {
    auto file = tree.try_open(path);
    return file ? std::move(file) : first_shard(tree, path);
  });
  if (!found.ok() || !found.value() || !is_v1_checkpoint(*found.value())) return;
  throw Error(Code::kUnimplemented,
              found.value()->path() +
                  " is a checkpoint of TensorFlow's V1 Saver, which Cairn does not read; restore "
                  "it with TensorFlow and save it with tf.compat.v1.train.Saver, whose default is "
                  "the current format");
}

}  // namespace cairn::inline v0
