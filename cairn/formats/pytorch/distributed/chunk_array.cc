#include <cairn/formats/pytorch/distributed/chunk_array.h>

#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
#include <cairn/formats/pytorch/distributed/encoded_archive.h>
#include <cairn/formats/pytorch/tensors/meaning.h>
#include <cairn/formats/pytorch/tensors/place.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>

namespace cairn::inline v0::pytorch {
namespace {

constexpr std::uint64_t kMostChunk = std::uint64_t{1} << 50U;  // bytes

// The ends of an archive, which hold all but the elements: the pickle comes first, the directory
// last. An archive of one tensor needs two reads in place of about ten.
class ArchiveEnds {
 public:
  ArchiveEnds(const File& file, std::uint64_t offset, std::uint64_t length)
      : file_(file),
        offset_(offset),
        first_(std::min(kEnd, length)),
        last_(std::min(kEnd, length - first_.size())),
        last_begin_(length - last_.size()) {
    file.read_into(offset, first_);
    file.read_into(offset + last_begin_, last_);
  }

  void read(std::uint64_t at, MutableByteView out) const {
    if (at + out.size() <= first_.size())
      std::memcpy(out.data(), first_.data() + at, out.size());
    else if (at >= last_begin_)
      std::memcpy(out.data(), last_.data() + (at - last_begin_), out.size());
    else
      file_.read_into(offset_ + at, out);
  }

 private:
  static constexpr std::uint64_t kEnd = 2048;

  const File& file_;
  std::uint64_t offset_;
  Bytes first_, last_;
  std::uint64_t last_begin_;
};

// PyTorch stores views as tensors of their own. Others may show a few bytes any number of times, or
// elements that lie far apart.
void check_view(const TorchTensor& tensor, const StorageBytes& storage) {
  constexpr std::uint64_t kMostTimes = 4, kMore = std::uint64_t{16} << 20U;
  const std::uint64_t stored = storage.bytes->all().stored_bytes();
  const double reads = bytes_read_for(tensor, storage);
  if (memory_of(tensor) > kMostTimes * stored + kMore ||
      reads > static_cast<double>(kMostTimes * stored + 16 * kMore))
    throw Error(Code::kUnimplemented,
                "its chunk is a view that shows its storage many times, or elements far apart");
}

// PyTorch stores a chunk as a storage of its own. An archive that decodes to much more is a bomb.
std::uint64_t most_of_archive(const TorchElement& element, const Shape& chunk) {
  constexpr std::uint64_t kMostBytes = 4, kMoreBytes = std::uint64_t{16} << 20U;
  TorchTensor whole;
  whole.element = element;
  whole.shape = chunk;
  return kMostBytes * std::min(memory_of(whole), kMostChunk) + kMoreBytes;
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

TorchFile read_archive_in(const File& file, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t size = file.size();
  if (offset > size || length > size - offset)
    data_loss(
        fmt::format("it ends at byte {} of the file, which has {} bytes", offset + length, size));
  const ArchiveEnds ends(file, offset, length);
  Executor here(1);  // an archive has few members
  return read_torch_archive(
      length, [&](std::uint64_t at, MutableByteView out) { ends.read(at, out); }, here);
}

ChunkArray::ChunkArray(Entry entry, TorchElement element, Shape chunk, Box part,
                       std::shared_ptr<DecoderPool> pool)
    : entry_(std::move(entry)),
      element_(element),
      chunk_(std::move(chunk)),
      part_(std::move(part)),
      pool_(std::move(pool)) {}

TorchFile ChunkArray::archive(const File& file) const {
  if (!entry_.transforms.empty()) {
    std::uint64_t left = most_of_archive(element_, chunk_);
    return read_encoded_archive(file, entry_, left, pool_);
  }
  TorchFile torch = read_archive_in(file, entry_.offset, entry_.length);
  for (auto& [key, array] : torch.storages) {
    if (array.stream)
      throw Error(Code::kUnimplemented, "its storage is deflated, in a file of several archives");
    for (RawRun& run : array.runs) {
      run.file = entry_.file;
      run.offset += entry_.offset;
    }
  }
  return torch;
}

RawArray ChunkArray::locate(const std::vector<File>& files) const {
  TorchFile torch = archive(files[entry_.file]);
  const Meaning meaning = meaning_of(torch.pickle, torch.pickle.root());
  const auto* tensor = std::get_if<TorchTensor>(&meaning);
  if (tensor == nullptr) throw Error(Code::kUnimplemented, "its chunk is not a plain tensor");
  if (tensor->element.name != element_.name)
    data_loss(fmt::format("its chunk has elements of torch.{}, the metadata says torch.{}",
                          tensor->element.name, element_.name));
  if (tensor->shape != chunk_)
    data_loss(fmt::format("its chunk has the shape {}, the metadata says {}",
                          shape_text(tensor->shape), shape_text(chunk_)));
  const auto storage = torch.storages.find(tensor->storage.key);
  if (storage == torch.storages.end())
    data_loss(fmt::format("its storage \"{}\" is missing", tensor->storage.key));
  const StorageBytes storage_bytes{.bytes = std::make_shared<CommonBytes>(storage->second),
                                   .big_endian = torch.big_endian,
                                   .has_one_user = true};
  RawArray placed = place_tensor(*tensor, storage_bytes);  // checks all of it
  check_view(*tensor, storage_bytes);
  if (part_.shape != chunk_) placed = place_tensor(narrowed(*tensor, part_), storage_bytes);
  placed.is_protected = torch.is_pickle_protected;  // says that an empty chunk is empty
  return placed;
}

}  // namespace cairn::inline v0::pytorch
