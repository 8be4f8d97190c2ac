// read_arrays.cc -- reads parts of a checkpoint to new arrays, and converts them.
#include <cairn/checkpoint.h>

#include <cairn/array/arena.h>
#include <cairn/array/box.h>
#include <cairn/tree/converting_reader.h>
#include <cairn/tree/leaf_value.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

void check_request(const ArrayRequest& request, std::span<const TensorInfo> all) {
  if (request.tensor >= all.size())
    throw Error(Code::kOutOfRange, "there is no tensor " + std::to_string(request.tensor));
  const TensorInfo& tensor = all[request.tensor];
  const std::string name = tensor.full_name();
  check_readable(name, tensor);
  if (!tensor.is_array())
    throw Error(Code::kInvalidArgument,
                "'" + name + "' is not an array (kind: " + tensor.typestr + ")");
  with_context(
      [&] { return name; },
      [&] {
        check_inside(request.box, tensor.shape);  // before memory is allocated for it
        const DType wanted = request.dtype.value_or(tensor.dtype);
        if (wanted != tensor.dtype && (wanted == DType::kOpaque || tensor.dtype == DType::kOpaque))
          throw Error(Code::kInvalidArgument,
                      "elements that Cairn does not interpret cannot be converted");
      });
}

}  // namespace

std::vector<Array> Checkpoint::read_arrays(std::span<const ArrayRequest> requests,
                                           const ProgressFn& progress) const {
  const std::span<const TensorInfo> all = tensors();
  const auto is_converted = [&](const ArrayRequest& request) {
    return request.dtype && *request.dtype != all[request.tensor].dtype;
  };
  const auto element_size = [&](const ArrayRequest& request) {
    return is_converted(request) ? dtype_size(*request.dtype) : all[request.tensor].element_size;
  };
  ArrayArena arena;
  std::uint64_t direct_bytes = 0;
  std::uint64_t total = 0;
  for (const ArrayRequest& request : requests) {
    check_request(request, all);
    const std::uint64_t stored = stored_bytes(all[request.tensor], request.box);
    total += stored;
    if (!is_converted(request)) direct_bytes += stored;
    arena.expect(static_cast<std::uint64_t>(element_count(request.box.shape)) *
                 element_size(request));
  }
  std::vector<Array> arrays;
  arrays.reserve(requests.size());
  std::vector<ReadRequest> direct;
  std::vector<std::pair<const ArrayRequest*, MutableArrayView>> converted;
  for (const ArrayRequest& request : requests) {
    auto [array, out] = arena.allocate(request.dtype.value_or(all[request.tensor].dtype),
                                       element_size(request), request.box.shape);
    arrays.push_back(std::move(array));
    if (is_converted(request))
      converted.emplace_back(&request, std::move(out));
    else
      direct.push_back({request.tensor, request.box, std::move(out)});
  }
  // Counts the bytes of a read beside those that are done.
  std::uint64_t done = 0;
  const auto read_next = [&](std::span<const ReadRequest> reads, std::uint64_t bytes) {
    const auto report = [&](std::uint64_t of_reads, std::uint64_t /*total*/) {
      progress(done + of_reads, total);
    };
    read(reads, progress ? ProgressFn(report) : ProgressFn());
    done += bytes;
  };
  read_next(direct, direct_bytes);
  Executor& workers = executor();
  ConvertingReader converter(ConvertingReader::usual_bytes(workers), workers,
                             [&](std::span<ConvertingReader::Part> parts) {
                               std::vector<ReadRequest> reads;
                               reads.reserve(parts.size());
                               std::uint64_t bytes = 0;
                               for (auto& [i, box, out] : parts) {
                                 bytes += stored_bytes(all[i], box);
                                 reads.push_back({i, std::move(box), std::move(out)});
                               }
                               read_next(reads, bytes);
                             });
  for (const auto& [request, out] : converted)
    converter.add(request->tensor, all[request->tensor], request->box, out, request->casting);
  converter.flush();
  return arrays;
}

}  // namespace cairn::inline v0
