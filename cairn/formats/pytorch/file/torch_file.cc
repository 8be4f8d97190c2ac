#include <cairn/formats/pytorch/file/torch_file.h>

#include <cairn/base/errors.h>
#include <cairn/base/hash.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/pytorch/file/legacy_file.h>
#include <cairn/formats/pytorch/file/pickled_file.h>
#include <cairn/formats/pytorch/file/tar_file.h>
#include <cairn/formats/pytorch/file/tar_members.h>
#include <cairn/formats/zip/deflated_bytes.h>
#include <cairn/formats/zip/zip_directory.h>
#include <cairn/formats/zip/zip_scan.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace cairn::inline v0::pytorch {
namespace {

constexpr std::string_view kPickle = "data.pkl";
constexpr std::string_view kStorages = "data/";
// In an archive of torch.export.
constexpr std::string_view kArchiveFormat = "archive_format";
constexpr std::string_view kWeights = "data/weights/model_weights_config.json";
constexpr std::string_view kConstants = "data/constants/model_constants_config.json";
constexpr std::uint64_t kMostConfig = std::uint64_t{64} << 20U;  // bytes

class TorchZip {
 public:
  TorchZip(std::uint64_t size, const ReadAtFn& read, Executor& executor, ZipReading reading)
      : read_(read) {
    if (reading == ZipReading::kLocalHeaders) {
      members_ = scan_zip(size, read_).members;
      // A damaged header may say anything. PyTorch only stores or deflates.
      std::erase_if(members_, [](const ZipMember& member) {
        return !try_call([&] {
                  check_method(member);
                  return true;
                }).ok();
      });
      find_top();
      return;
    }
    members_ = read_zip_directory(size, read_);
    find_top();
    executor.for_each(members_.size(), [&](std::size_t i) {
      HeadReads head(read_, size);
      with_context([&] { return members_[i].name; },
                   [&] { locate_zip_member(members_[i], std::ref(head)); });
    });
    check_no_overlap(members_);
  }

  TorchFile file() {
    TorchFile file{.layout = "PyTorch zip archive"};
    if (is_export_) {
      file.layout = "PyTorch exported program";
      file.program = program();
      for (const std::string_view name : {kWeights, kConstants})
        if (const ZipMember* member = find(name)) file.is_pickle_protected = member->crc != 0;
    } else {
      file.pickle = pickle();
      file.is_pickle_protected = find(kPickle)->crc != 0;
    }
    file.big_endian = is_big_endian();
    std::uint64_t hash = members_.size();
    for (const ZipMember& member : members_) {
      hash = splitmix64(hash ^ member.crc);
      const std::string_view name = name_in_top(member);
      if (name.starts_with(kStorages) && name.size() > kStorages.size() && is_storage(name))
        file.storages.emplace(name.substr(kStorages.size()), storage(member));
    }
    file.revision.emplace_back("the checksums", fmt::format("{:016x}", hash));
    return file;
  }

 private:
  // The folder of the member with this name: of "model/data.pkl" it is "model/".
  [[nodiscard]] std::optional<std::string> top_of(std::string_view wanted) const {
    std::optional<std::string> top;
    for (const ZipMember& member : members_) {
      const std::size_t slash = member.name.find('/');
      if (slash == std::string::npos || member.name.substr(slash + 1) != wanted) continue;
      if (top)
        data_loss(
            fmt::format("it has two objects, \"{}{}\" and \"{}\"", *top, wanted, member.name));
      top = member.name.substr(0, slash + 1);
    }
    return top;
  }

  // Finds the folder of all members, and what kind of archive this is.
  void find_top() {
    auto top = top_of(kPickle);
    if (!top) {
      top = top_of(kArchiveFormat);
      is_export_ = top.has_value();
    }
    if (!top)
      throw Error(Code::kInvalidArgument,
                  "a zip archive without an object of PyTorch (a member .../data.pkl)");
    top_ = *std::move(top);
  }

  // Whether data/... has elements.
  [[nodiscard]] bool is_storage(std::string_view name) const {
    if (!is_export_) return true;
    return (name.starts_with("data/weights/") || name.starts_with("data/constants/")) &&
           !name.ends_with(".json");
  }

  ExportedProgram program() {
    if (find(kWeights) == nullptr && find(kConstants) == nullptr)
      throw Error(Code::kUnimplemented,
                  "an archive of torch.export without weights: it has only compiled code, or an "
                  "older version of PyTorch wrote it");
    return {.weights = config_text(kWeights), .constants = config_text(kConstants)};
  }

  std::string config_text(std::string_view name) {
    const ZipMember* member = find(name);
    if (member == nullptr) return "";
    return with_context([&] { return member->name; },
                        [&] {
                          if (member->size > kMostConfig)
                            data_loss(fmt::format("it has {} bytes", member->size));
                          const Bytes content = member_content(*member, read_);
                          return std::string(as_text(content));
                        });
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
  bool is_export_ = false;
};

}  // namespace

TorchFile read_torch_file(const File& file, Executor& executor, ZipReading reading) {
  Bytes first(std::min<std::uint64_t>(file.size(), kTarBlock));
  file.read_into(0, first);
  if (begins_as_torch_legacy(as_text(first))) return read_legacy_file(file, reading);
  const ReadAtFn read = [&](std::uint64_t offset, MutableByteView out) {
    file.read_into(offset, out);
  };
  if (looks_like_tar(first)) return read_tar_file(file.size(), read);
  return read_torch_archive(file.size(), read, executor, reading);
}

TorchFile read_torch_archive(std::uint64_t size, const ReadAtFn& read, Executor& executor,
                             ZipReading reading) {
  return TorchZip(size, read, executor, reading).file();
}

}  // namespace cairn::inline v0::pytorch
