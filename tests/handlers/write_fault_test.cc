// write_fault_test.cc -- arrays written into a store of which any operation fails: the error comes
// through, no thread hangs, and writing them again makes them whole.
#include <cairn/array/box.h>
#include <cairn/handlers/array_writer.h>
#include <gmock/gmock.h>

#include <numeric>

#include "tests/support/faulty_store.h"
#include "tests/support/matchers.h"

namespace cairn::handlers {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::FaultyStore;
using cairn::testing::StoreFault;

// Two arrays of several chunks: one in memory, one that is fetched in parts.
class WriteFault : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  WriteFault() : values_(3000) { std::iota(values_.begin(), values_.end(), 0); }

  void write(const StorePtr& store) const {
    Executor executor(3);
    ArrayWriteOptions options;
    options.zarr_format = std::get<0>(GetParam());
    options.chunk_bytes = 4000;
    options.memory = 16000;
    options.executor = &executor;
    const auto* data = reinterpret_cast<const std::byte*>(values_.data());
    StoreArray given;
    given.name = "given";
    given.dtype = given.source_dtype = DType::kInt32;
    given.shape = {50, 60};
    StoreArray fetched = given;
    fetched.name = "fetched";
    given.data = data;
    ArrayWriter writer({&given, &fetched}, options);
    StoreSink sink(store);
    const ByteView bytes(data, 4 * values_.size());
    writer.write(sink, [&](std::span<ReadRequest> requests) {
      for (const ReadRequest& request : requests)
        copy_elements(subview(make_view(bytes, DType::kInt32, {50, 60}), request.box), request.out);
    });
  }
  void expect_whole(const StorePtr& store) const {
    for (const char* name : {"given", "fetched"}) {
      const auto array = zarr::ZarrArray::open(store, name, std::get<0>(GetParam()));
      std::vector<std::int32_t> read(values_.size());
      const MutableByteView out(reinterpret_cast<std::byte*>(read.data()), 4 * read.size());
      array.read(Box::whole({50, 60}), make_view(out, DType::kInt32, {50, 60}),
                 zarr::MissingChunk::kError);
      EXPECT_EQ(read, values_) << name;
    }
  }

  std::vector<std::int32_t> values_;
};

TEST_P(WriteFault, ComesThroughAndWritingAgainSucceeds) {
  for (int n = 0;; ++n) {
    SCOPED_TRACE(n);
    const StorePtr base = make_memory_store();
    const auto faulty = std::make_shared<FaultyStore>(
        base, StoreFault{.operation = n, .lasts = std::get<1>(GetParam())});
    if (const auto result = try_call([&] { return write(faulty), true; }); result.ok()) {
      EXPECT_FALSE(faulty->failed());
      EXPECT_GT(n, 8);
      return expect_whole(base);
    } else {
      EXPECT_THAT([&] { (void)result.value(); }, FailsWith(Code::kIo, "the disk is gone"));
    }
    write(base);
    expect_whole(base);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, WriteFault,
                         ::testing::Combine(::testing::Values(2, 3), ::testing::Bool()));

}  // namespace
}  // namespace cairn::handlers
