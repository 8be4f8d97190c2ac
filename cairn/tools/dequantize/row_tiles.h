// row_tiles.h -- fills a strided array of any floating type with rows that are computed as float32,
// on all threads.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace cairn::inline v0 {

// A part of a row along the last axis.
struct RowPart {
  std::vector<std::int64_t> row;  // its indices along the other axes
  std::int64_t begin = 0;         // along the last axis; an array of rank 0 has one element
  std::int64_t count = 0;
};

// Calls `compute` for parts of rows, from many threads; it fills `count` numbers. They are rounded
// to the type of `out` and stored there.
void fill_row_tiles(const MutableArrayView& out, Executor& executor,
                    const std::function<void(const RowPart&, float*)>& compute);

}  // namespace cairn::inline v0
