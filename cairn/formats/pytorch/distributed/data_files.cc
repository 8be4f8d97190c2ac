#include <cairn/formats/pytorch/distributed/data_files.h>

#include <cairn/base/errors.h>
#include <cairn/io/tree/read_ahead.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::pytorch {

DataFiles::DataFiles(const FileTree& tree, std::string folder, std::vector<std::string> names)
    : tree_(tree), folder_(std::move(folder)), names_(std::move(names)) {
  for (const std::string& name : names_) {
    auto file = tree_.try_open(path_of(name));
    numbers_.push_back(file ? std::optional(static_cast<std::uint32_t>(files_.size()))
                            : std::nullopt);
    if (file) files_.push_back(with_read_ahead(*std::move(file)));
  }
}

void DataFiles::check(const Entry& entry) const {
  if (!is_there(entry.file)) data_loss(path(entry.file) + ": the file is missing");
  const std::uint64_t size = file(entry.file).size();
  if (entry.offset > size || entry.length > size - entry.offset)
    data_loss(fmt::format("{}: has {} bytes; the metadata names bytes {} to {}", path(entry.file),
                          size, entry.offset, entry.offset + entry.length));
}

std::uint64_t DataFiles::size() const {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50U;
  std::uint64_t sum = 0;
  for (const File& file : files_) sum += std::min(file.size(), kMost);
  return sum;
}

bool DataFiles::is_named(const std::string& name) const {
  return std::ranges::find(names_, name) != names_.end();
}

std::vector<File> DataFiles::reopened() const {
  std::vector<File> files;
  for (std::uint32_t i = 0; i < names_.size(); ++i)
    if (is_there(i)) files.push_back(with_read_ahead(tree_.open(path(i))));
  return files;
}

}  // namespace cairn::inline v0::pytorch
