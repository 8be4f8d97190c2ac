// completeness.cc -- compares the sizes of the data files with what the metadata names.
#include <cairn/formats/pytorch/distributed/completeness.h>

#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/distributed/metadata_files.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::inline v0::pytorch {
namespace {

// How many bytes of each file the metadata names.
std::vector<std::uint64_t> named_sizes(const DistributedMetadata& metadata) {
  std::vector<std::uint64_t> sizes(metadata.files.size());
  const auto add = [&](const std::optional<Entry>& entry) {
    if (entry) sizes[entry->file] = std::max(sizes[entry->file], entry->offset + entry->length);
  };
  for (const SavedValue& value : metadata.values) {
    add(value.entry);
    for (const SavedChunk& chunk : value.chunks) add(chunk.entry);
  }
  return sizes;
}

std::string first_flaw(const FileTree& tree, const std::string& folder, const FolderNames& names) {
  const FolderMetadata read = read_folder_metadata(tree, folder, names);
  if (!read.missing.empty()) return read.missing.front().text;
  const std::vector<std::uint64_t> sizes = named_sizes(read.metadata);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string& name = read.metadata.files[i];
    const auto file = tree.try_open(folder + "/" + name);
    if (!file) return name + ": the file is missing, and the metadata names it";
    if (file->size() < sizes[i])
      return fmt::format("{}: has {} bytes; the metadata names {}", name, file->size(), sizes[i]);
  }
  return "";
}

// Whether the code says that a file is absent or not what its name promises.
bool is_flaw(Code code) {
  return code == Code::kDataLoss || code == Code::kNotFound || code == Code::kFailedPrecondition ||
         code == Code::kInvalidArgument || code == Code::kUnimplemented;
}

}  // namespace

std::string why_incomplete(const FileTree& tree, const std::string& folder) {
  const FolderNames names = tree.names_in(folder);
  const bool has_data =
      std::ranges::any_of(names, [](const std::string& name) { return is_distributed_data(name); });
  if (!has_data && !has_distributed_metadata(tree, folder, names))
    return "the folder holds no Distributed Checkpoint of PyTorch";
  auto flaw = try_call([&] { return first_flaw(tree, folder, names); });
  if (flaw) return std::move(flaw).value();
  if (!is_flaw(flaw.error().code())) throw Error(flaw.error());
  std::string message = flaw.error().message();
  for (const std::string& prefix : {folder + "/", folder + ": "})
    if (message.starts_with(prefix)) message.erase(0, prefix.size());
  return message;
}

}  // namespace cairn::inline v0::pytorch
