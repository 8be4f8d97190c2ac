// part_checksums.cc -- sorts parts by offset and combines their checksums.
#include <cairn/formats/raw/part_checksums.h>

#include <cairn/base/byte_io.h>

#include <algorithm>

namespace cairn::inline v0 {

void PartChecksums::add(std::uint64_t offset, ByteView bytes) {
  const Part part{offset, bytes.size(), kind_.of(bytes)};
  const std::lock_guard lock(mutex_);
  parts_.push_back(part);
}

PartChecksums::Joined PartChecksums::joined() const {
  const std::lock_guard lock(mutex_);
  std::vector<Part> parts = parts_;
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.offset < b.offset; });
  Joined all;
  for (const Part& part : parts) {
    all.has_gap = all.has_gap || part.offset != all.bytes;
    all.checksum =
        all.bytes == 0 ? part.checksum : kind_.combine(all.checksum, part.checksum, part.length);
    all.bytes += part.length;
  }
  return all;
}

Bytes checksums_message(const std::deque<PartChecksums>& values) {
  ByteWriter out;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (const auto all = values[i].joined(); all.bytes > 0)
      out.u64(i).u32(all.checksum).u64(all.bytes);
  return std::move(out).take();
}

void join_checksums(const ChecksumKind& kind, std::span<const Bytes> messages,
                    const std::function<std::uint32_t&(std::size_t value)>& of) {
  for (const Bytes& message : messages)
    for (ByteReader in(message); !in.at_end();) {
      std::uint32_t& sum = of(in.u64());
      const std::uint32_t part = in.u32();
      sum = kind.combine(sum, part, in.u64());
    }
}

}  // namespace cairn::inline v0
