// distributed_file.h -- DistributedFile, the data file that one process writes of a Distributed
// Checkpoint: archives of torch.save one behind the other, each with one object or one chunk of a
// tensor.
#pragma once

#include <cairn/base/work_partition.h>
#include <cairn/formats/output/framed_file.h>
#include <cairn/formats/pytorch/write/state_entries.h>
#include <cairn/formats/pytorch/write/state_pickler.h>
#include <cairn/formats/pytorch/write/torch_archive.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tensor_source.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::pytorch {

// Where an object or a chunk lies in the file.
struct WrittenPart {
  std::size_t entry = 0;     // index into the entries
  std::optional<Box> box;    // the chunk; nullopt: an object
  std::uint64_t offset = 0;  // of the archive, in the file
  std::uint64_t length = 0;  // bytes of the archive
};

// How tensors are cut into chunks.
struct ChunkRules {
  // Cuts larger tensors along their first dimension.
  std::uint64_t chunk_bytes = std::uint64_t{256} << 20U;
  // By source: the shape of its chunks, instead; empty: by chunk_bytes. Chunks at the end of a
  // dimension may be smaller.
  std::vector<Shape> shapes = {};
};

// What of the checkpoint this process writes. Of a ShardedArray, each process writes the shards
// whose first replica it holds.
struct WriterShare {
  WorkShare sources = {};  // of the chunks of sources, which every process can fetch
  bool has_values = true;  // the objects, and the arrays in the tree
};

class DistributedFile final : public FramedFile {
 public:
  // Borrows everything. Throws invalid_argument, naming the leaf, for leaves that PyTorch cannot
  // load.
  DistributedFile(std::span<const StateEntry> entries, std::span<const TensorSource> sources,
                  const std::vector<DictKeyTypes>& key_types, const ChunkRules& rules,
                  WriterShare share = {});

  // Objects first, then chunks, as PyTorch writes them.
  [[nodiscard]] std::span<const WrittenPart> parts() const { return parts_; }
  // The tensor of an entry, also of one of which other processes write all chunks.
  [[nodiscard]] DType dtype_of(std::size_t entry) const { return tensors_[entry].dtype; }
  [[nodiscard]] const Shape& shape_of(std::size_t entry) const { return tensors_[entry].shape; }

  [[nodiscard]] std::span<const Placement> tensors() const override { return placements_; }
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  [[nodiscard]] bool frames_need_next() const override { return false; }
  [[nodiscard]] Bytes frame(std::size_t number,
                            std::span<const std::uint32_t> checksums) const override;

  // Fetches placements, whose `tensor` is not the number of a source; `fetch` fetches sources.
  void fetch(std::span<const TensorPiece> pieces, const FetchFn& fetch) const;

 private:
  // The elements of a tensor entry.
  struct Elements {
    std::size_t source = 0;  // index into the sources, and behind them into the arrays
    DType dtype = DType::kOpaque;
    Shape shape;
    std::uint64_t cut = 0;
    const ShardedArray* sharded = nullptr;  // in place of the source
  };
  // What a placement fetches.
  struct Stored {
    std::size_t source = 0;
    std::optional<Box> box;  // nullopt: all of it
    const ShardedArray* sharded = nullptr;
  };

  // An archive, and where the bytes of its storages begin in it.
  struct PartArchive {
    TorchArchive archive;
    std::vector<std::uint64_t> begins;
  };

  Elements elements_of(const Tree& value);
  void add_object(std::size_t entry);
  void add_shards(std::size_t entry);
  // Adds the chunks of a box of the tensor that are this process's.
  void add_chunks(std::size_t entry, const Box& whole);
  [[nodiscard]] bool is_mine(const Elements& elements, std::uint64_t nbytes);
  void add_part(std::size_t entry, std::optional<Box> box, const PartArchive& made);
  void add_storage(const Stored& stored, DType dtype, std::uint64_t nbytes, std::uint64_t cut,
                   std::uint64_t begin);
  [[nodiscard]] Shape chunk_shape(const Elements& elements, const Shape& whole) const;
  [[nodiscard]] PickledState pickle_object(std::size_t entry) const;
  static PartArchive archive_of_object(PickledState state);
  [[nodiscard]] PartArchive archive_of_chunk(std::size_t entry, const Box& box) const;
  // The archive of a part. It is made again when it is written: a model may have a million parts.
  [[nodiscard]] PartArchive archive_of(const WrittenPart& part) const;

  std::span<const StateEntry> entries_;
  std::span<const TensorSource> sources_;
  const std::vector<DictKeyTypes>& key_types_;
  const ChunkRules& rules_;
  WriterShare share_;
  WorkPartition sources_line_;     // the chunks of sources, in order
  std::vector<Elements> tensors_;  // by entry; of tensors
  std::vector<Array> arrays_;      // those in the tree
  std::vector<WrittenPart> parts_;
  std::vector<std::size_t> first_storage_;  // by part; and the number of all at the end
  std::vector<Placement> placements_;
  std::vector<Stored> stored_;  // by placement
  std::uint64_t size_ = 0;
};

}  // namespace cairn::inline v0::pytorch
