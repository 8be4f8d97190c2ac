// chunk_array.h -- one chunk of a tensor of a Distributed Checkpoint: a zip archive of torch.save
// inside a file, which holds one tensor.
#pragma once

#include <cairn/formats/pytorch/distributed/entry_decoder.h>
#include <cairn/formats/pytorch/distributed/saved_metadata.h>
#include <cairn/formats/pytorch/file/torch_file.h>
#include <cairn/formats/pytorch/tensors/element.h>
#include <cairn/formats/raw/deferred_array.h>
#include <cairn/types.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace cairn::inline v0::pytorch {

// Reads the archive in [offset, offset + length) of a file. Runs count from its beginning.
TorchFile read_archive_in(const File& file, std::uint64_t offset, std::uint64_t length);

// The elements `part` of a chunk. The archive is opened when they are first read.
class ChunkArray final : public DeferredArray {
 public:
  // `entry.file`: the reader's file. `part` is relative to the chunk, whose shape is `chunk`.
  // `pool` is for entries with transforms.
  ChunkArray(Entry entry, TorchElement element, Shape chunk, Box part,
             std::shared_ptr<DecoderPool> pool);
  [[nodiscard]] RawRun place() const override {
    return {entry_.file, entry_.offset, entry_.length};
  }

 private:
  // Throws data_loss if the archive holds anything but a tensor of this type and shape.
  [[nodiscard]] RawArray locate(const std::vector<File>& files) const override;
  // The archive, with the reader's places of its storages.
  [[nodiscard]] TorchFile archive(const File& file) const;

  Entry entry_;
  TorchElement element_;
  Shape chunk_;
  Box part_;
  std::shared_ptr<DecoderPool> pool_;
};

}  // namespace cairn::inline v0::pytorch
