// data_files.h -- the data files that the metadata of a Distributed Checkpoint names.
#pragma once

#include <cairn/formats/pytorch/distributed/saved_metadata.h>
#include <cairn/io/file.h>
#include <cairn/io/tree/file_tree.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch {

// A file that is missing leaves a gap in the numbers.
class DataFiles {
 public:
  // Opens the files `names` in `folder`.
  DataFiles(const FileTree& tree, std::string folder, std::vector<std::string> names);

  [[nodiscard]] std::string path(std::uint32_t name) const { return path_of(names_[name]); }
  [[nodiscard]] std::size_t count() const { return names_.size(); }
  [[nodiscard]] bool is_there(std::uint32_t name) const { return numbers_[name].has_value(); }
  [[nodiscard]] const File& file(std::uint32_t name) const { return files_[*numbers_[name]]; }
  // The number that the next file behind those of take() has.
  [[nodiscard]] std::uint32_t next_number() const {
    return static_cast<std::uint32_t>(files_.size());
  }

  // The entry with the number of its file in take().
  [[nodiscard]] Entry placed(Entry entry) const {
    entry.file = *numbers_[entry.file];
    return entry;
  }
  // Throws data_loss unless the file is there and long enough.
  void check(const Entry& entry) const;
  // Of all files together, in bytes.
  [[nodiscard]] std::uint64_t size() const;
  [[nodiscard]] bool is_named(const std::string& name) const;

  [[nodiscard]] std::vector<File> reopened() const;
  [[nodiscard]] std::vector<File> take() && { return std::move(files_); }

 private:
  [[nodiscard]] std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

  const FileTree& tree_;
  std::string folder_;
  std::vector<std::string> names_;
  std::vector<std::optional<std::uint32_t>> numbers_;  // parallel to names_
  std::vector<File> files_;
};

}  // namespace cairn::inline v0::pytorch
