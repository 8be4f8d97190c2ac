#include <cairn/io/tree/file_on_demand.h>

#include <cairn/io/tree/range_source.h>
#include <cairn/io/tree/read_ahead.h>

#include <memory>
#include <utility>

namespace cairn::inline v0 {
namespace {

class ReopenedFile final : public RangeSource {
 public:
  ReopenedFile(FileTree tree, const File& file)
      : tree_(std::move(tree)), path_(file.path()), state_(file.opened_state()) {}

  [[nodiscard]] std::uint64_t size() const override { return state_.size; }
  void read_into(std::uint64_t offset, MutableByteView out) const override {
    reopened().read_into(offset, out);
  }
  void read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const override {
    const File file = reopened();
    for (const MutableByteView& part : out) {
      if (part.data() != nullptr) file.read_into(offset, part);  // others are skipped
      offset += part.size();
    }
  }
  [[nodiscard]] std::int64_t modified_ns() const override { return state_.modified_ns; }
  [[nodiscard]] const std::string& version() const override { return version_; }

 private:
  [[nodiscard]] File reopened() const {
    auto file = tree_.try_open(path_);
    if (!file || file->opened_state() != state_)
      throw Error(Code::kUnavailable, path_ + ": was replaced or written to after it was opened");
    return *std::move(file);
  }

  FileTree tree_;
  std::string path_;
  FileState state_;
  std::string version_;  // none
};

}  // namespace

File file_on_demand(const FileTree& tree, const std::string& path) {
  File file = tree.open(path);
  if (!file.is_local()) return with_read_ahead(std::move(file));
  auto source = std::make_shared<ReopenedFile>(tree, file);
  return {path, std::move(source)};
}

}  // namespace cairn::inline v0
