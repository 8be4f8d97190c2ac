// scratch_copy.h -- a copy of a stored array in a scratch file, cut into cells of one shape. The
// elements of a cell lie together, in C order.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <cairn/io/scratch/scratch_file.h>

#include <cstdint>
#include <functional>
#include <string>

namespace cairn::inline v0 {

class ScratchCopy {
 public:
  // `cell` has the rank of the tensor; its extents are above 0. Throws io.
  ScratchCopy(const TensorInfo& tensor, Shape cell, const std::string& folder);

  [[nodiscard]] std::uint64_t free_space() const { return file_.free_space(); }
  // Both work on all cores. `values` and `out` have the box's shape. They throw io.
  void write(const Box& box, const ArrayView& values, Executor& executor);
  void read(const Box& box, const MutableArrayView& out, Executor& executor) const;

 private:
  // Calls `work` for boxes that together are `box`. Each lies in one cell and is small.
  void for_each_part(const Box& box, Executor& executor,
                     const std::function<void(const Box&)>& work) const;
  // The number of last axes of a part along which its elements lie together in the file; at most
  // `most`. run_bytes(): the length of such a run.
  [[nodiscard]] std::size_t run_axes(const Box& part, std::size_t most) const;
  [[nodiscard]] std::uint64_t run_bytes(const Box& part, std::size_t most_axes) const;
  // Calls `work` for each run: the index along the other axes, the position in the file, the length
  // in bytes.
  using RunFn = std::function<void(const Shape&, std::uint64_t, std::size_t)>;
  void for_each_run(const Box& part, std::size_t most_axes, const RunFn& work) const;

  Shape shape_, cell_;
  DType dtype_;
  std::size_t element_size_;
  ScratchFile file_;
};

}  // namespace cairn::inline v0
