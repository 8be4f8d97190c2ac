// strided_bytes.h -- gathers the elements of a tensor that do not lie one behind the other: every
// second row, a row repeated.
#pragma once

#include <cairn/formats/pytorch/tensors/meaning.h>
#include <cairn/formats/raw/raw_read.h>
#include <cairn/types.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace cairn::inline v0::pytorch {

// The bytes of a tensor in C order of some order of its axes. Reads at any place; a read that goes
// forward through the storage is fast if the strides of these axes fall. The caller has checked
// that the tensor lies inside its storage, and checks the storage.
class StridedBytes final : public SequentialBytes {
 public:
  StridedBytes(std::shared_ptr<const CommonBytes> storage, const TorchTensor& tensor,
               const std::vector<std::uint8_t>& axes);
  [[nodiscard]] std::uint64_t size() const override;
  void read(const std::vector<File>& files, std::uint64_t offset,
            MutableByteView out) const override;
  // About how many bytes a read of all moves, with each read counted as at least 4 KiB. In a
  // storage that is a stream, a read that goes back counts as the whole storage.
  [[nodiscard]] double bytes_read() const;

 private:
  void read_box(const std::vector<File>& files, const Box& box, MutableByteView out) const;
  // Whether the elements of a box of this shape lie one behind the other.
  [[nodiscard]] bool is_run(const Shape& shape) const;
  void read_storage(const std::vector<File>& files, std::uint64_t offset,
                    MutableByteView out) const;

  std::shared_ptr<const CommonBytes> storage_;
  std::uint64_t first_;                // byte of the first element in the storage
  std::uint64_t element_;              // bytes
  Shape shape_;                        // in the order of the axes
  std::vector<std::int64_t> strides_;  // bytes, parallel to shape_
};

}  // namespace cairn::inline v0::pytorch
