// stream.h -- runs of a tensor's C-order bytes, however large the tensor, as boxes that a reader understands.
#pragma once

#include <cairn/reader.h>
#include <cairn/types.h>

#include <cstdint>
#include <vector>

namespace cairn {

// Elements [begin, end) of an array in C order as boxes that follow each other: at most 2 * rank - 1 of them.
std::vector<Box> boxes_of_run(std::span<const std::int64_t> shape, std::int64_t begin, std::int64_t end);

// How many elements of `box` one row of stored chunks holds along the first dimension that has more than one element
// inside: cutting there decodes no chunk twice. At least 1.
std::int64_t chunk_row_elements(const TensorInfo& tensor, const Box& box);

// Requests that read elements [begin, end) of `box` into the contiguous `out`.
void add_run_requests(std::size_t index, const TensorInfo& tensor, const Box& box, std::int64_t begin, MutableByteView out,
                      std::vector<ReadRequest>& requests);

}  // namespace cairn
