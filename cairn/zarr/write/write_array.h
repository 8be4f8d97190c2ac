// write_array.h -- writing boxes of arrays: many arrays as one plan, each chunk encoded once, in
// parallel and within a byte budget.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/compression.h>
#include <cairn/types.h>
#include <cairn/zarr/read/array.h>
#include <cairn/zarr/write/encode.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::zarr {

// Where stored values go. Safe to call from many threads.
class ValueSink {
 public:
  virtual ~ValueSink() = default;
  // The value is all pieces in a row; they are valid during the call only. It replaces an older
  // value.
  virtual void write(std::string_view key, std::span<const ByteView> pieces) = 0;
  // A value that need not be stored any more; perhaps there is none.
  virtual void remove(std::string_view key) = 0;
};

// Values go to the store of this sink one by one.
class StoreSink : public ValueSink {
 public:
  explicit StoreSink(StorePtr store) : store_(std::move(store)) {}
  void write(std::string_view key, std::span<const ByteView> pieces) override;
  void remove(std::string_view key) override { store_->remove(key); }

 private:
  StorePtr store_;
};

// Elements for a box of an array. Of any interpreted type: they are cast to the array's.
struct ArrayPart {
  Box box;
  ArrayView from;
};

// Boxes of one array that do not overlap. Chunks that they cover only in part keep their other
// elements, which are read from the array's store (nullptr, for a new array: they become the fill
// value).
struct ArrayWrite {
  ZarrArray array;
  std::vector<ArrayPart> parts;
  std::string label;  // put in front of errors: the parameter name
  EncodeOptions encode = {};
};

struct WriteContext {
  Executor* executor = nullptr;  // null: default_executor()
  ByteBudget* budget = nullptr;  // bounds the bytes held beside the sources; null: no bound
  // `done` grows by the bytes of the array's elements; `total` is the caller's to set
  Progress* progress = nullptr;
};

// Writes the chunks that the parts touch. A chunk that lies contiguously in its source is not
// copied on its way to the sink unless a codec changes its bytes. No two calls at a time may write
// to the same chunk. Metadata is the caller's to write.
void write_boxes(std::span<const ArrayWrite> writes, ValueSink& sink,
                 const WriteContext& context = {});

}  // namespace cairn::zarr
