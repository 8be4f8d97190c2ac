// torch_archive.h -- TorchArchive, the layout of a zip archive as torch.save writes it.
//
//   local header | padding | content | descriptor        of each member
//   ...
//   central directory | zip64 end record | its locator | end record
//
// Contents begin at multiples of 64, counted from the archive's begin. Readers may compute where
// each storage lies (`.format_version` promises it), so the layout is that of PyTorch to the byte.
// Checksums stand behind the contents: an archive can be written from front to back.
#pragma once

#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::pytorch {

class TorchArchive {
 public:
  // All members lie in the folder `top`.
  explicit TorchArchive(std::string top);

  // Adds the pickle and the other members with which PyTorch begins an archive. Call it first.
  void begin(Bytes pickle);
  // Adds the next storage, of `size` bytes. Returns where they begin.
  std::uint64_t add_storage(std::uint64_t size);
  // Adds the members with which PyTorch ends an archive. Call it last.
  void finish();

  // Bytes of the whole archive.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::size_t storages() const { return storages_.size(); }
  // The bytes between storage `number` - 1 and storage `number`; those behind the last storage, if
  // there are `number` storages. Needs the CRC-32 of the storages before it.
  [[nodiscard]] Bytes between(std::size_t number, std::span<const std::uint32_t> checksums) const;

 private:
  struct Member {
    std::string name;  // with the folder
    Bytes content;     // unless `storage`
    std::optional<std::size_t> storage;
    std::uint64_t header = 0;  // offset of the local header
    std::uint64_t begin = 0;   // offset of the content
    std::uint64_t size = 0;    // of the content
    std::uint32_t crc = 0;     // of the content, unless `storage`
  };

  Member& add_member(std::string_view name, std::uint64_t size);
  void add(std::string_view name, Bytes content);
  // Local header up to the content.
  static Bytes front(const Member& member);
  static Bytes descriptor(const Member& member, std::uint32_t crc);
  [[nodiscard]] Bytes end(std::span<const std::uint32_t> checksums) const;

  std::string top_;
  std::vector<Member> members_;
  std::vector<std::size_t> storages_;  // their numbers among the members
  std::uint64_t at_ = 0;               // where the next member begins
  std::uint64_t size_ = 0;
};

}  // namespace cairn::inline v0::pytorch
