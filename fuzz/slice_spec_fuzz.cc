// slice_spec_fuzz.cc -- parses any text as a slice spec. A spec that parses must round-trip, and
// its tensor can be cut into shards of any size. Also parses any text as a device: it must be
// rejected or name a task.
#include <cairn/array/box.h>
#include <cairn/error.h>
#include <cairn/formats/tensorflow/sharding/slice_spec.h>
#include <cairn/tensorflow.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace {

using namespace cairn;

void cut(std::string_view text, const ShapeAndSlice& spec) {
  const Box box = slice_box(spec);
  const auto count = try_call([&] { return element_count(box.shape); });
  if (!count.ok() || count.value() > 10'000 || box.rank() > 254) return;
  const auto tensor = std::make_shared<const SaveSpec>(
      SaveSpec{.name = "x", .dtype = DType::kInt16, .shape = box.shape});
  const ShardableTensor one{
      .tensor = ShardTensor(tensor), .checkpoint_key = "x", .slice_spec = std::string(text)};
  // make_shards verifies that the parts cover the whole tensor.
  for (const std::int64_t max : {1, 2, 7, 64, 1000})
    (void)make_shards(MaxShardSizePolicy(max), {&one, 1});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& refused : {try_call([&] { return parse_slice_spec(text), true; }),
                              try_call([&] { return device_task(text), true; })})
    if (!refused.ok() && refused.error().code() != Code::kInvalidArgument) std::abort();
  const auto spec = try_call([&] { return parse_slice_spec(text); });
  if (!spec.ok()) return 0;
  const std::string again = slice_spec_text(spec.value());
  if (parse_slice_spec(again) != spec.value()) std::abort();
  const Box box = slice_box(spec.value());
  if (!contains(Box::whole(spec.value().full_shape), box)) std::abort();
  cut(again, spec.value());
  return 0;
}
