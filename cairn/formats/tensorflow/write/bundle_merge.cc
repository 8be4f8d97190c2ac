// bundle_merge.cc -- reads and merges the indexes, links the data files to their new names, and
// removes the parts.
#include <cairn/formats/tensorflow/write/bundle_merge.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/files/file_set.h>
#include <cairn/formats/files/output_lock.h>
#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <cairn/formats/tensorflow/index/sstable_writer.h>
#include <cairn/formats/tensorflow/write/bundle_place.h>
#include <cairn/formats/tensorflow/write/bundle_writer.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

BundleTable read_table(const File& file) {
  return read_bundle_table(
      file.size(), [&](std::uint64_t offset, MutableByteView out) { file.read_into(offset, out); });
}

// A key for messages: for a slice_key, only the name.
std::string shown(const std::string& key) {
  using namespace std::string_view_literals;
  return key.starts_with('\0') ? key.substr(1, key.find("\0\1"sv) - 1) : key;
}

class Merged {
 public:
  void add(const std::string& part, const std::string& prefix) {
    const File file = File::open(bundle_index_path(part));
    with_context([&] { return file.path(); },
                 [&] {
                   BundleTable table = read_table(file);
                   check_bundle_table(table);
                   check_header(table.header);
                   // from a shard of this part to a shard of the result
                   std::map<std::int32_t, std::int32_t> shards;
                   for (auto& [key, entry] : table.entries)
                     add_entry(key, std::move(entry), {part, table.header.shards, prefix}, shards);
                 });
  }

  // The current paths of the data files, in the order of the result.
  [[nodiscard]] const std::vector<std::string>& data() const { return data_; }

  // Throws data_loss for slices of different parts that do not fit together.
  void check() const {
    with_context(
        [] { return "the merged index"; },
        [&] {
          check_bundle_table({header_of(data_.size()), {entries_.begin(), entries_.end()}});
        });
  }

  void write(AtomicFile& file, std::size_t shards) const {
    SstableWriter table(file);
    table.add("", encode_bundle_header(header_of(shards)));
    for (const auto& [key, entry] : entries_) table.add(key, encode_bundle_entry(entry));
    table.finish();
  }

 private:
  [[nodiscard]] BundleHeader header_of(std::size_t shards) const {
    BundleHeader header = *header_;
    header.shards = static_cast<std::int32_t>(shards);
    return header;
  }

  struct From {
    const std::string& part;
    std::int32_t shards;
    const std::string& prefix;  // of the result, for messages
  };

  void check_header(const BundleHeader& header) {
    if (!header_) header_ = header;
    BundleHeader same = header;
    same.shards = header_->shards;
    if (same != *header_)
      throw Error(
          Code::kInvalidArgument,
          "its byte order or version differs from the previous parts, so they cannot be merged");
  }

  void add_entry(const std::string& key, BundleEntry entry, const From& from,
                 std::map<std::int32_t, std::int32_t>& shards) {
    const auto [shard, is_new] =
        shards.try_emplace(entry.shard, static_cast<std::int32_t>(data_.size()));
    if (is_new)
      data_.push_back(bundle_data_path(from.part, static_cast<std::uint64_t>(entry.shard),
                                       static_cast<std::uint64_t>(from.shards)));
    entry.shard = shard->second;
    const auto [at, first] = entries_.try_emplace(key, entry);
    if (first) return;
    if (at->second.slices.empty() || entry.slices.empty() || at->second.dtype != entry.dtype ||
        at->second.shape != entry.shape)
      throw Error(Code::kInvalidArgument, "Duplicate tensor keyed by " + shown(key) +
                                              " encountered, when merging prefix: " + from.prefix);
    at->second.slices.insert(at->second.slices.end(), entry.slices.begin(), entry.slices.end());
  }

  std::optional<BundleHeader> header_;
  std::map<std::string, BundleEntry> entries_;
  std::vector<std::string> data_;
};

// The real paths of the parts' data files, with links resolved.
std::vector<std::string> resolve(const std::vector<std::string>& files) {
  std::vector<std::string> resolved;
  for (const std::string& file : files) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(file, error);
    if (error == std::errc::no_such_file_or_directory)
      throw Error(Code::kNotFound, file + ": the data file is missing");
    if (error) fail_file_call(file, "resolve the path", error.value(), Code::kIo);
    if (!std::filesystem::is_regular_file(path, error))
      throw Error(Code::kIo, file + ": is not a file");
    resolved.push_back(path.string());
  }
  return resolved;
}

void remove_part(const std::string& part) {
  remove_file(bundle_index_path(part));
  for (const std::string& file : bundle_data_files(part)) remove_file(file);
}

std::vector<std::string> existing(std::span<const std::string> parts, bool allow_missing) {
  std::vector<std::string> found;
  for (const std::string& part : parts) {
    if (file_exists(bundle_index_path(part))) {
      found.push_back(part);
    } else if (!allow_missing) {
      throw Error(Code::kInvalidArgument,
                  "allow_missing_files was set to false and " + part + " did not exist.");
    }
  }
  if (found.empty())
    throw Error(Code::kInvalidArgument,
                "At least one prefix checkpoint file must exist, but none existed.");
  return found;
}

bool is_same_prefix(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return a == b || (std::filesystem::path(a).filename() == std::filesystem::path(b).filename() &&
                    std::filesystem::equivalent(parent_of(a), parent_of(b), ignored));
}

// Whether the checkpoint at the prefix already has these files in this order. This is so if an
// earlier merge was stopped while it removed the parts.
bool is_in_place(const std::vector<std::string>& files, const std::string& prefix) {
  if (files.empty() || !file_exists(bundle_index_path(prefix))) return false;
  const auto index = try_call(
      [&] { return check_bundle_table(read_table(File::open(bundle_index_path(prefix)))); });
  if (!index.ok()) return false;
  const auto shards = static_cast<std::uint64_t>(index.value().header.shards);
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < shards; ++i) {
    const std::string data = bundle_data_path(prefix, i, shards);
    if (!file_exists(data)) return false;
    std::error_code ignored;
    if (at < files.size() && std::filesystem::equivalent(files[at], data, ignored)) ++at;
  }
  return at == files.size();
}

// Removes the parts and, if requested, their folders.
void remove_parts(const std::vector<std::string>& parts, const std::string& prefix,
                  bool delete_old_dirs) {
  for (const std::string& part : parts) remove_part(part);
  if (!delete_old_dirs) return;
  for (const std::string& part : parts) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(parent_of(part), parent_of(prefix), ignored))
      std::filesystem::remove(parent_of(part), ignored);  // fails if it is not empty
  }
}

}  // namespace

void merge_bundles(std::span<const std::string> parts, const std::string& prefix,
                   const BundleMergeOptions& options) {
  check_bundle_prefix(prefix);
  const std::vector<std::string> found = existing(parts, options.allow_missing_files);
  const auto is_target = [&](const std::string& part) { return is_same_prefix(part, prefix); };
  if (std::any_of(found.begin(), found.end(), is_target))
    throw Error(Code::kInvalidArgument, prefix + ": is both a part and the merged checkpoint");
  Merged merged;
  for (const std::string& part : found) merged.add(part, prefix);

  const std::vector<std::string> files = resolve(merged.data());
  const auto in_place = [&] {
    return prefix + ": is in place, but not all of its parts are removed";
  };
  make_directories(parent_of(prefix));
  const OutputLock lock(bundle_index_path(prefix));
  if (is_in_place(files, prefix))
    return with_context(in_place, [&] { remove_parts(found, prefix, options.delete_old_dirs); });

  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(parent_of(prefix), error) /
                                     std::filesystem::path(prefix).filename();
  if (error) fail_file_call(prefix, "resolve the path", error.value(), Code::kIo);
  for (std::size_t i = 0; i < files.size(); ++i)
    if (prefix_of_data(files[i]) == real)
      throw Error(Code::kInvalidArgument, merged.data()[i] + ": is a link to a file of " + prefix +
                                              ", which is to be replaced");

  merged.check();
  const auto write_index = [&](AtomicFile& index, std::size_t shards) {
    merged.write(index, shards);
  };
  const auto place = [&](std::size_t i, const std::string& path) { name_also(files[i], path); };
  place_bundle(prefix, {.files = files.size(), .place = place, .write_index = write_index},
               IfExists::kReplace);
  with_context(in_place, [&] { remove_parts(found, prefix, options.delete_old_dirs); });
}

}  // namespace cairn::inline v0
