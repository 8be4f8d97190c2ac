// scratch_copy.h -- a copy of a stored array in a scratch file, cut into cells of one shape. The
// elements of a cell lie together, in C order.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <cairn/io/scratch_file.h>

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
  // Calls `work` with the position in the file and the length of each run of a part's elements.
  void for_each_run(const Box& part,
                    const std::function<void(std::uint64_t, std::size_t)>& work) const;

  Shape shape_, cell_;
  DType dtype_;
  std::size_t element_size_;
  ScratchFile file_;
};

}  // namespace cairn::inline v0
