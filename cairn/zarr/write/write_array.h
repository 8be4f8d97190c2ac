// write_array.h -- writes boxes of many arrays as one plan: encodes each chunk once, in parallel
// and within a byte budget.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/compression.h>
#include <cairn/kvstore/reusable_values.h>
#include <cairn/kvstore/value_fingerprints.h>
#include <cairn/kvstore/value_sink.h>
#include <cairn/types.h>
#include <cairn/zarr/read/array.h>
#include <cairn/zarr/write/encode.h>

#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::zarr {

// Elements for a box of an array. They may have any interpreted type; they are cast to the array's
// type.
struct ArrayPart {
  Box box;
  ArrayView from;
};

// Boxes of one array that do not overlap. A chunk that they cover only in part keeps its other
// elements, which are read from the array's store. For a new array, whose store is null, they
// become the fill value.
struct ArrayWrite {
  ZarrArray array;
  std::vector<ArrayPart> parts;
  std::string label;  // prefix of error messages: the parameter name
  EncodeOptions encode = {};
};

// The resources of a write.
struct WriteContext {
  Executor* executor = nullptr;  // null: default_executor()
  ByteBudget* budget = nullptr;  // bounds the bytes held in addition to the sources; null: no bound
  // `done` grows by the bytes of the array's elements; the caller sets `total`
  Progress* progress = nullptr;
  // write_boxes() does not write values that it has; null: none
  const ReusableValues* reusable = nullptr;
  // Receives the fingerprints of values whose elements are contiguous; null: none are made.
  SavedFingerprints* fingerprints = nullptr;
};

// Writes the chunks that the parts touch. A chunk that is contiguous in its source reaches the sink
// without a copy unless a codec changes its bytes. Two concurrent calls must not write to the same
// chunk. The caller writes the metadata.
void write_boxes(std::span<const ArrayWrite> writes, ValueSink& sink,
                 const WriteContext& context = {});

// The same, but keeps the values of `earlier` that decode to exactly the elements of a chunk, and
// writes only the other chunks. A value that is damaged, or gone, is one to write. The arrays'
// metadata must be equal in both saves. Does not report progress.
void write_changed(std::span<const ArrayWrite> writes, ReusableValues& earlier, ValueSink& sink,
                   const WriteContext& context);

}  // namespace cairn::inline v0::zarr
