// bundle_merge.cc -- indexes read and joined, data files linked to their new names, and the parts removed.
#include <cairn/base/directory.h>
#include <cairn/base/file.h>
#include <cairn/error.h>
#include <cairn/formats/bundle_files.h>
#include <cairn/formats/bundle_index.h>
#include <cairn/formats/bundle_merge.h>
#include <cairn/formats/bundle_place.h>
#include <cairn/formats/bundle_writer.h>
#include <cairn/formats/sstable_writer.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn {
namespace {

class Merged {
 public:
  void add(const std::string& part, const std::string& prefix) {
    const File file = File::open(bundle_index_path(part));
    in([&] { return file.path(); },
       [&] {
         const auto read = [&](std::uint64_t offset, MutableByteView out) { file.read_into(offset, out); };
         const BundleHeader header = read_bundle_index(file.size(), read).header;  // checks all of it
         check_header(header);
         std::map<std::int32_t, std::int32_t> shards;  // of this part -> of the result
         read_sstable(file.size(), read, [&](std::string_view key, ByteView value) {
           if (!key.empty()) add_entry(std::string(key), parse_bundle_entry(value), {part, header.shards, prefix}, shards);
         });
       });
  }

  // Where each data file is now, in the order of the result.
  [[nodiscard]] const std::vector<std::string>& data() const { return data_; }

  void write(AtomicFile& file) const {
    SstableWriter table(file);
    BundleHeader header = *header_;
    header.shards = static_cast<std::int32_t>(data_.size());
    table.add("", encode_bundle_header(header));
    for (const auto& [key, entry] : entries_) table.add(key, encode_bundle_entry(entry));
    table.finish();
  }

 private:
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
      throw Error(Code::kInvalidArgument, "its byte order or version is not that of the parts before, so they cannot be merged");
  }

  void add_entry(const std::string& key, BundleEntry entry, const From& from, std::map<std::int32_t, std::int32_t>& shards) {
    const auto [shard, is_new] = shards.try_emplace(entry.shard, static_cast<std::int32_t>(data_.size()));
    if (is_new)
      data_.push_back(bundle_data_path(from.part, static_cast<std::uint64_t>(entry.shard), static_cast<std::uint64_t>(from.shards)));
    entry.shard = shard->second;
    const auto [at, first] = entries_.try_emplace(key, entry);
    if (first) return;
    if (at->second.slices.empty() || entry.slices.empty() || at->second.dtype != entry.dtype || at->second.shape != entry.shape)
      throw Error(Code::kInvalidArgument, "Duplicate tensor keyed by " + key + " encountered, when merging prefix: " + from.prefix);
    at->second.slices.insert(at->second.slices.end(), entry.slices.begin(), entry.slices.end());
  }

  std::optional<BundleHeader> header_;
  std::map<std::string, BundleEntry> entries_;
  std::vector<std::string> data_;
};

// The file under another name, too; where file systems have no links, under that name alone.
void link_to(const std::string& from, const std::string& to) {
  std::error_code error;
  std::filesystem::create_hard_link(from, to, error);
  if (error) std::filesystem::rename(from, to, error);
  if (error)
    throw Error(error == std::errc::no_such_file_or_directory ? Code::kNotFound : Code::kIo,
                from + ": cannot rename it to " + to + ": " + error.message());
}

void remove_part(const std::string& part) {
  remove_tree(bundle_index_path(part));
  for (const std::string& file : bundle_data_files(part)) remove_tree(file);
}

std::vector<std::string> existing(std::span<const std::string> parts, bool allow_missing) {
  std::vector<std::string> found;
  for (const std::string& part : parts) {
    if (file_exists(bundle_index_path(part))) {
      found.push_back(part);
    } else if (!allow_missing) {
      throw Error(Code::kInvalidArgument, "allow_missing_files was set to false and " + part + " did not exist.");
    }
  }
  if (found.empty()) throw Error(Code::kInvalidArgument, "At least one prefix checkpoint file must exist, but none existed.");
  return found;
}

}  // namespace

void merge_bundles(std::span<const std::string> parts, const std::string& prefix, const BundleMergeOptions& options) {
  const std::vector<std::string> found = existing(parts, options.allow_missing_files);
  Merged merged;
  for (const std::string& part : found) merged.add(part, prefix);
  if (std::find(found.begin(), found.end(), prefix) != found.end())
    throw Error(Code::kInvalidArgument, prefix + ": is one of the parts, and what they are to become");
  make_directories(bundle_folder(prefix));

  const std::size_t shards = merged.data().size();
  AtomicFile index(bundle_index_path(prefix));
  merged.write(index);
  index.finish();
  std::vector<std::string> made;
  try {
    std::vector<std::string> targets;
    for (std::size_t i = 0; i < shards; ++i) targets.push_back(bundle_data_path(prefix, i, shards));
    // No index ever names files of two checkpoints.
    if (std::any_of(targets.begin(), targets.end(), file_exists)) {
      remove_part(prefix);
      sync_path(bundle_folder(prefix));
    }
    for (std::size_t i = 0; i < shards; ++i) {
      link_to(merged.data()[i], targets[i]);
      made.push_back(targets[i]);
    }
    sync_path(bundle_folder(prefix));
    index.commit();
  } catch (const Error&) {
    for (std::size_t i = 0; i < made.size(); ++i)
      (void)try_call([&] {
        if (!file_exists(merged.data()[i])) std::filesystem::rename(made[i], merged.data()[i]);
        return remove_tree(made[i]), true;
      });
    throw;
  }
  in([&] { return prefix + ": is in place, but not all of its parts are removed"; },
     [&] {
       for (const std::string& old : bundle_data_files(prefix))
         if (std::find(made.begin(), made.end(), old) == made.end()) remove_tree(old);
       for (const std::string& part : found) remove_part(part);
       if (!options.delete_old_dirs) return;
       for (const std::string& part : found) {
         std::error_code ignored;
         if (absolute_path(bundle_folder(part)) != absolute_path(bundle_folder(prefix)))
           std::filesystem::remove(bundle_folder(part), ignored);  // if empty
       }
     });
}

}  // namespace cairn
