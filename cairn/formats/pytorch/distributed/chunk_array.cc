#include <cairn/formats/pytorch/distributed/chunk_array.h>

#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
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

// The tensor without the elements outside of `part`.
TorchTensor narrowed(TorchTensor tensor, const Box& part) {
  for (std::size_t d = 0; d < part.rank(); ++d)
    tensor.offset += static_cast<std::uint64_t>(part.origin[d] * tensor.strides[d]);
  tensor.shape = part.shape;
  return tensor;
}

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

ChunkArray::ChunkArray(Entry entry, TorchElement element, Shape chunk, Box part)
    : entry_(std::move(entry)),
      element_(element),
      chunk_(std::move(chunk)),
      part_(std::move(part)) {}

RawArray ChunkArray::locate(const std::vector<File>& files) const {
  if (!entry_.transforms.empty())
    throw Error(Code::kUnimplemented,
                fmt::format("its bytes are transformed ({}), which Cairn does not read",
                            entry_.transforms));
  TorchFile torch = read_archive_in(files[entry_.file], entry_.offset, entry_.length);
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
  RawArray& array = storage->second;
  if (array.stream)
    throw Error(Code::kUnimplemented, "its storage is deflated, in a file of several archives");
  for (RawRun& run : array.runs) {
    run.file = entry_.file;
    run.offset += entry_.offset;
  }
  const StorageBytes storage_bytes{.bytes = std::make_shared<CommonBytes>(std::move(array)),
                                   .big_endian = torch.big_endian,
                                   .has_one_user = true};
  RawArray placed = place_tensor(*tensor, storage_bytes);  // checks all of it
  check_view(*tensor, storage_bytes);
  if (part_.shape != chunk_) placed = place_tensor(narrowed(*tensor, part_), storage_bytes);
  placed.is_protected = torch.is_pickle_protected;  // says that an empty chunk is empty
  return placed;
}

}  // namespace cairn::inline v0::pytorch
