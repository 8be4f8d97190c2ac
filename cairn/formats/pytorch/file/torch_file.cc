#include <cairn/formats/pytorch/file/torch_file.h>

#include <cairn/base/errors.h>
#include <cairn/base/hash.h>
#include <cairn/formats/pytorch/file/legacy_file.h>
#include <cairn/formats/pytorch/file/pickled_file.h>
#include <cairn/formats/zip/deflated_bytes.h>
#include <cairn/formats/zip/zip_directory.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

namespace cairn::inline v0::pytorch {
namespace {

constexpr std::string_view kPickle = "data.pkl";
constexpr std::string_view kStorages = "data/";

class TorchZip {
 public:
  TorchZip(std::uint64_t size, const ReadAtFn& read, Executor& executor)
      : read_(read), members_(read_zip_directory(size, read_)) {
    top_ = find_top();
    executor.for_each(members_.size(), [&](std::size_t i) {
      with_context([&] { return members_[i].name; },
                   [&] { locate_zip_member(members_[i], read_); });
    });
    check_no_overlap(members_);
  }

  TorchFile file() {
    TorchFile file{.layout = "PyTorch zip archive"};
    file.pickle = pickle();
    file.is_pickle_protected = find(kPickle)->crc != 0;
    file.big_endian = is_big_endian();
    std::uint64_t hash = members_.size();
    for (const ZipMember& member : members_) {
      hash = splitmix64(hash ^ member.crc);
      const std::string_view name = name_in_top(member);
      if (name.starts_with(kStorages) && name.size() > kStorages.size())
        file.storages.emplace(name.substr(kStorages.size()), storage(member));
    }
    file.revision.emplace_back("the checksums", fmt::format("{:016x}", hash));
    return file;
  }

 private:
  // The folder of all members: of "model/data.pkl" it is "model/".
  [[nodiscard]] std::string find_top() const {
    std::optional<std::string> top;
    for (const ZipMember& member : members_) {
      const std::size_t slash = member.name.find('/');
      if (slash == std::string::npos || member.name.substr(slash + 1) != kPickle) continue;
      if (top)
        data_loss(
            fmt::format("it has two objects, \"{}{}\" and \"{}\"", *top, kPickle, member.name));
      top = member.name.substr(0, slash + 1);
    }
    if (!top)
      throw Error(Code::kInvalidArgument,
                  "a zip archive without an object of PyTorch (a member .../data.pkl)");
    return *top;
  }

  [[nodiscard]] std::string_view name_in_top(const ZipMember& member) const {
    const std::string_view name = member.name;
    return name.starts_with(top_) ? name.substr(top_.size()) : std::string_view();
  }

  ZipMember* find(std::string_view name) {
    const auto found = std::ranges::find_if(
        members_, [&](const ZipMember& member) { return name_in_top(member) == name; });
    return found == members_.end() ? nullptr : &*found;
  }

  pickle::Pickle pickle() {
    ZipMember& member = *find(kPickle);
    return with_context([&] { return member.name; }, [&] { return member_pickle(member, read_); });
  }

  bool is_big_endian() {
    ZipMember* member = find("byteorder");
    if (member == nullptr) return false;
    return with_context([&] { return member->name; },
                        [&] {
                          constexpr std::uint64_t kMostBytes = 16;
                          if (member->size > kMostBytes) data_loss("it is neither little nor big");
                          const Bytes content = member_content(*member, read_);
                          const std::string_view order = as_text(content);
                          if (order != "little" && order != "big")
                            data_loss("it is neither little nor big");
                          return order == "big";
                        });
  }

  static RawArray storage(const ZipMember& member) {
    RawArray array;
    if (member.method == ZipMember::kDeflated) {
      array.stream = std::make_shared<DeflatedBytes>(member, 0);
      return array;
    }
    with_context([&] { return member.name; }, [&] { check_method(member); });
    array.runs.push_back({0, member.offset, member.size});
    // PyTorch can be told to store no checksums: 0.
    if (member.crc != 0 || member.size == 0)
      array.checksum = {.kind = &kCrc32, .before = 0, .whole = member.crc};
    return array;
  }

  const ReadAtFn& read_;
  std::vector<ZipMember> members_;
  std::string top_;
};

}  // namespace

TorchFile read_torch_file(const File& file, Executor& executor) {
  Bytes first(std::min<std::uint64_t>(file.size(), kLegacyProbe));
  file.read_into(0, first);
  if (looks_like_legacy(first)) return read_legacy_file(file);
  return read_torch_archive(
      file.size(), [&](std::uint64_t offset, MutableByteView out) { file.read_into(offset, out); },
      executor);
}

TorchFile read_torch_archive(std::uint64_t size, const ReadAtFn& read, Executor& executor) {
  return TorchZip(size, read, executor).file();
}

}  // namespace cairn::inline v0::pytorch
