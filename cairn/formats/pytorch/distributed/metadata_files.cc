#include <cairn/formats/pytorch/distributed/metadata_files.h>

#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/file/pickled_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

constexpr std::string_view kMetadata = ".metadata";
constexpr std::string_view kDataEnding = ".distcp";
constexpr std::uint64_t kMostMetadata = std::uint64_t{1} << 30U;  // bytes
constexpr std::size_t kMostListed = 10;                           // ranks in a message

// 3 of "__3.metadata"; nullopt for any other name.
std::optional<std::uint64_t> rank_of(std::string_view name) {
  if (!name.starts_with("__") || !name.ends_with(kMetadata)) return std::nullopt;
  const std::string_view digits = name.substr(2, name.size() - 2 - kMetadata.size());
  std::uint64_t rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size() &&
                         (digits == "0" || !digits.starts_with('0'));
  return is_number ? std::optional(rank) : std::nullopt;
}

std::map<std::uint64_t, std::string> ranks_in(const FolderNames& names) {
  std::map<std::uint64_t, std::string> ranks;
  for (const std::string& name : names)
    if (const auto rank = rank_of(name)) ranks.emplace(*rank, name);
  return ranks;
}

DistributedMetadata parse_file(const File& file) {
  return with_context(
      [&] { return file.path(); },
      [&] {
        const std::uint64_t size = file.size();
        if (size > kMostMetadata) data_loss(fmt::format("it has {} bytes", size));
        const ReadAtFn read = [&](std::uint64_t at, MutableByteView out) {
          file.read_into(at, out);
        };
        pickle::Pickle pickle = pickle_at(0, size, read);
        if (pickle.end() != size)
          data_loss(fmt::format("its pickle ends at byte {} of {}", pickle.end(), size));
        return parse_distributed_metadata(std::move(pickle));
      });
}

// Whether a file may be a pickle: another program may have a file of this name.
bool begins_as_pickle(const FileTree& tree, const std::string& path) {
  const auto probe = try_look(tree.is_local(), [&] {
    const auto file = tree.try_open(path);
    Bytes first(file ? std::min<std::uint64_t>(file->size(), 2) : 0);
    if (file) file->read_into(0, first);
    return first.size() < 2 ? file.has_value() : looks_like_pickle(first);
  });
  return !probe.ok() || probe.value();
}

// Ranks are numbered without gaps.
void add_missing_ranks(const std::map<std::uint64_t, std::string>& ranks, const std::string& folder,
                       std::vector<MissingPart>& missing) {
  std::uint64_t next = 0;
  for (const auto& [rank, name] : ranks) {
    for (; next < rank && missing.size() < kMostListed; ++next) {
      const std::string path = fmt::format("{}/__{}{}", folder, next, kMetadata);
      missing.push_back({.item = "",
                         .path = path,
                         .record = "",
                         .text = fmt::format("{}: the file is missing; there are files of later "
                                             "ranks, such as {}",
                                             path, name)});
    }
    next = rank + 1;
  }
}

}  // namespace

bool has_distributed_metadata(const FileTree& tree, const std::string& folder,
                              const FolderNames& names) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    const std::string path = folder + "/" + name;
    return (name == kMetadata || rank_of(name)) && !tree.is_folder(path) &&
           begins_as_pickle(tree, path);
  });
}

bool is_distributed_data(std::string_view name) { return name.ends_with(kDataEnding); }

FolderMetadata read_folder_metadata(const FileTree& tree, const std::string& folder,
                                    const FolderNames& names) {
  const auto ranks = ranks_in(names);
  const bool has_one = names.contains(kMetadata);
  if (!has_one && ranks.empty())
    throw Error(Code::kFailedPrecondition,
                folder +
                    ": is an unfinished Distributed Checkpoint of PyTorch: it has data files, but "
                    "no .metadata, which is written last");
  if (has_one && !ranks.empty())
    throw Error(Code::kFailedPrecondition,
                fmt::format("{}: has the metadata of two saves, .metadata and {}; remove that of "
                            "the older one",
                            folder, ranks.begin()->second));
  FolderMetadata read{.ranks = ranks.size()};
  if (has_one) {
    read.files.push_back(tree.open(fmt::format("{}/{}", folder, kMetadata)));
    read.metadata = parse_file(read.files.back());
    return read;
  }
  for (const auto& [rank, name] : ranks) {
    read.files.push_back(tree.open(folder + "/" + name));
    DistributedMetadata of_rank = parse_file(read.files.back());
    with_context([&] { return read.files.back().path(); },
                 [&] { add_metadata(read.metadata, std::move(of_rank)); });
  }
  add_missing_ranks(ranks, folder, read.missing);
  return read;
}

}  // namespace cairn::inline v0::pytorch
