// encoded_entry_fuzz.cc -- decodes any bytes as an entry of a Distributed Checkpoint that went
// through zstd, as often as the first byte says, and reads its storages, whole and in part.
#include "fuzz/array_file_fuzz.h"

#include <cairn/formats/pytorch/distributed/encoded_archive.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

using cairn::pytorch::Entry;

// Decoded bytes, so that a run takes less than a second.
constexpr std::uint64_t kMostDecoded = std::uint64_t{16} << 20U;

void read_storages(const std::vector<cairn::File>& files, const Entry& entry) {
  const auto pool = std::make_shared<cairn::pytorch::DecoderPool>();
  std::uint64_t left = kMostDecoded;
  const auto torch = cairn::pytorch::read_encoded_archive(files.front(), entry, left, pool);
  if (left > kMostDecoded) std::abort();
  for (const auto& [key, array] : torch.storages) {
    const std::uint64_t size = array.stored_bytes();
    if (size > kMostDecoded) std::abort();
    cairn::Bytes whole(size), part(size - size / 2);
    array.stream->read(files, size / 2, part);
    array.stream->read(files, 0, whole);
    array.stream->check_whole(files);
    if (!std::equal(part.begin(), part.end(),
                    whole.begin() + static_cast<std::ptrdiff_t>(size / 2)))
      std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint8_t kTransforms = 6;  // more than Cairn undoes
  if (size == 0 || data[0] % kTransforms == 0) return 0;
  const int fd = memfd_create("input", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data + 1, size - 1) != static_cast<ssize_t>(size - 1)) std::abort();
  try {
    std::vector<cairn::File> files;
    files.push_back(cairn::File::open("/proc/self/fd/" + std::to_string(fd)));
    Entry entry{.length = size - 1};
    entry.transforms.assign(data[0] % kTransforms, "stream.zstd/1");
    read_storages(files, entry);
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  close(fd);
  return 0;
}
