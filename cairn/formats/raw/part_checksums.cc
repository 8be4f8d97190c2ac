// part_checksums.cc -- sorts parts by offset and combines their checksums.
#include <cairn/formats/raw/part_checksums.h>

#include <cairn/base/byte_io.h>

namespace cairn::inline v0 {

void PartChecksums::add(std::size_t item, std::uint64_t offset, ByteView bytes) {
  const std::uint32_t sum = kind_.of(bytes);
  const std::lock_guard lock(mutex_);
  parts_[item][offset] = {sum, bytes.size()};
}

Bytes PartChecksums::message() const {
  ByteWriter out;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    std::uint32_t sum = 0;
    std::uint64_t bytes = 0;
    for (const auto& [offset, part] : parts_[i]) {
      sum = kind_.combine(sum, part.first, part.second);
      bytes += part.second;
    }
    if (bytes > 0) out.u64(i).u32(sum).u64(bytes);
  }
  return std::move(out).take();
}

void join_checksums(const ChecksumKind& kind, std::span<const Bytes> messages,
                    const std::function<std::uint32_t&(std::size_t item)>& of) {
  for (const Bytes& message : messages)
    for (ByteReader in(message); !in.at_end();) {
      std::uint32_t& sum = of(in.u64());
      const std::uint32_t part = in.u32();
      sum = kind.combine(sum, part, in.u64());
    }
}

}  // namespace cairn::inline v0
