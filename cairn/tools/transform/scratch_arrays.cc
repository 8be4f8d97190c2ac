#include <cairn/tools/transform/scratch_arrays.h>

#include <cairn/array/box.h>
#include <cairn/base/text.h>
#include <cairn/convert.h>
#include <cairn/error.h>
#include <cairn/io/directory.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/tools/source/stream.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// Smaller arrays are read at once, or nearly.
constexpr std::uint64_t kLeastBytes = std::uint64_t{16} << 20U;
// Shorter runs cost more to write than they save.
constexpr std::uint64_t kLeastRun = std::uint64_t{4} << 10U;

std::uint64_t bytes_of(const TensorInfo& tensor, const Shape& shape) {
  return static_cast<std::uint64_t>(element_count(shape)) * tensor.element_size;
}

// The shape of the stored chunks; the whole array if it is not cut.
Shape chunk_of(const TensorInfo& tensor) {
  if (tensor.chunk_shape.size() != tensor.shape.size()) return tensor.shape;
  Shape chunk = tensor.chunk_shape;
  for (std::size_t d = 0; d < chunk.size(); ++d)
    chunk[d] = std::clamp<std::int64_t>(chunk[d], 1, std::max<std::int64_t>(tensor.shape[d], 1));
  return chunk;
}

bool is_compressed(const Checkpoint& source, std::size_t index) {
  if (const auto zarr = source.zarr_metadata(index)) return zarr->compression.has_value();
  const TensorInfo& tensor = source.tensors()[index];
  return tensor.stored_nbytes != tensor.nbytes;
}

// A read of less from stored bytes that are not compressed costs as much: on a local file, and at a
// URL.
constexpr std::uint64_t kLocalRead = std::uint64_t{1} << 10U;
constexpr std::uint64_t kRemoteRead = std::uint64_t{64} << 10U;

// Bytes that must be decoded for a box, or of which reads cost as much. `least_read`: as above; 0
// for a compressed array.
std::uint64_t cost_of(const TensorInfo& tensor, const Box& box, std::uint64_t least_read) {
  Shape touched = box.shape;
  if (least_read == 0) {
    const Shape chunk = chunk_of(tensor);
    for (std::size_t d = 0; d < chunk.size(); ++d) {
      const std::int64_t first = box.origin[d] / chunk[d];
      const std::int64_t last = (box.origin[d] + box.shape[d] - 1) / chunk[d];
      touched[d] = std::min((last + 1) * chunk[d], tensor.shape[d]) - first * chunk[d];
    }
  } else if (!touched.empty()) {
    const auto least = static_cast<std::int64_t>(least_read / tensor.element_size);
    touched.back() = std::min(std::max(touched.back(), least), tensor.shape.back());
  }
  return bytes_of(tensor, touched);
}

// Bytes that lie together in a cell when a block of an array, which has at most `most` bytes of a
// chunk, is copied to it.
std::uint64_t run_of(const TensorInfo& tensor, const Shape& cell, std::uint64_t most) {
  Shape block = chunk_of(tensor);
  for (std::size_t d = 0; d < block.size(); ++d)
    while (block[d] > 1 && bytes_of(tensor, block) > most) block[d] = (block[d] + 1) / 2;
  std::int64_t run = 1;
  for (std::size_t d = block.size(); d-- > 0;) {
    run *= std::min(block[d], cell[d]);
    if (block[d] < cell[d]) break;
  }
  return static_cast<std::uint64_t>(run) * tensor.element_size;
}

// A run of the elements of a box, in C order.
struct BoxRun {
  Box box;
  std::int64_t begin, count;
};

// Groups of runs that are together an array. A group has at most `most` bytes. No chunk is decoded
// twice if the groups are read in order.
std::vector<std::vector<BoxRun>> runs_of(const TensorInfo& tensor, std::uint64_t most) {
  const Shape chunk = chunk_of(tensor);
  const auto most_elements = static_cast<std::int64_t>(most / tensor.element_size);
  std::vector<std::vector<BoxRun>> groups;
  std::int64_t room = 0;
  const auto add = [&](BoxRun run) {
    if (run.count > room) {
      groups.emplace_back();
      room = most_elements;
    }
    room -= run.count;
    groups.back().push_back(std::move(run));
  };
  Box box{Shape(chunk.size()), chunk};
  for (std::size_t d = 1; d > 0;) {
    for (std::size_t i = 0; i < chunk.size(); ++i)
      box.shape[i] = std::min(chunk[i], tensor.shape[i] - box.origin[i]);
    const std::int64_t count = element_count(box.shape);
    std::int64_t step = std::min(count, most_elements);
    if (step < count) step -= step % cut_elements(tensor, box, step);
    for (std::int64_t begin = 0; begin < count; begin += step)
      add({box, begin, std::min(step, count - begin)});
    d = chunk.size();
    while (d > 0 && (box.origin[d - 1] += chunk[d - 1]) >= tensor.shape[d - 1]) box.origin[--d] = 0;
  }
  return groups;
}

// Copies an array: reads a group of runs while it writes the one before. Returns false if the copy
// cannot be written, on a full disk for example.
bool copy_array(const Checkpoint& source, std::size_t index, std::uint64_t memory,
                ScratchCopy& copy, Executor& executor) {
  const TensorInfo& tensor = source.tensors()[index];
  const std::uint64_t most = memory / 2;
  const auto groups = runs_of(tensor, most);
  std::array<Buffer, 2> buffers;
  const auto bytes_of_run = [&](const BoxRun& run) {
    return static_cast<std::size_t>(run.count) * tensor.element_size;
  };
  const auto fill = [&](std::size_t group) {
    if (group == groups.size()) return;
    Buffer& buffer = buffers[group % 2];
    if (buffer.size() == 0) buffer = Buffer(static_cast<std::size_t>(most));
    RunReader reader(source);
    std::byte* to = buffer.data();
    for (const BoxRun& run : groups[group]) {
      reader.add(index, run.box, run.begin, {to, bytes_of_run(run)});
      to += bytes_of_run(run);
    }
    reader.read();
  };
  const auto write = [&](std::size_t group) {
    const std::byte* from = buffers[group % 2].data();
    for (const BoxRun& run : groups[group]) {
      for (Box& part : boxes_of_run(run.box.shape, run.begin, run.begin + run.count)) {
        const auto bytes = static_cast<std::size_t>(bytes_of(tensor, part.shape));
        const ArrayView values = make_view(ByteView(from, bytes), tensor.dtype, part.shape);
        for (std::size_t d = 0; d < part.rank(); ++d) part.origin[d] += run.box.origin[d];
        copy.write(part, values, executor);
        from += bytes;
      }
    }
  };
  bool written = true;
  fill(0);
  for (std::size_t group = 0; group < groups.size() && written; ++group) {
    executor.for_each(2, [&](std::size_t job) {
      if (job == 0) return fill(group + 1);
      try {
        write(group);
      } catch (const Error&) {
        written = false;
      }
    });
  }
  return written;
}

}  // namespace

std::string scratch_folder(const std::string& target) {
  if (!is_store_url(target)) return parent_of(absolute_path(target));
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/var/tmp";
}

ScratchArrays::ScratchArrays(const Checkpoint& source, std::string folder, std::uint64_t memory)
    : source_(source), folder_(std::move(folder)), memory_(memory) {
  for (const TensorInfo& tensor : source.tensors()) unread_ += tensor.nbytes;
}

void ScratchArrays::expect(ExpectedBytes bytes) {
  unread_ = 0;
  for (const auto& [index, expected] : bytes) unread_ += expected;
  expected_ = std::move(bytes);
  entries_.clear();
}

std::uint64_t ScratchArrays::expected_of(std::size_t index) const {
  if (!expected_) return source_.tensors()[index].nbytes;
  const auto found = expected_->find(index);
  return found == expected_->end() ? 0 : found->second;
}

void ScratchArrays::read(std::span<const ReadRequest> requests, Executor& executor) {
  if (folder_.empty()) return source_.read(requests, {});
  std::map<std::size_t, std::vector<const ReadRequest*>> by_array;
  for (const ReadRequest& request : requests)
    if (!request.box.empty()) by_array[request.tensor].push_back(&request);
  std::vector<ReadRequest> stored;
  for (const auto& [index, of_array] : by_array) {
    const std::shared_ptr<ScratchCopy> copy = copy_for(of_array, executor);
    std::uint64_t bytes = 0;
    for (const ReadRequest* request : of_array) {
      if (copy)
        copy->read(request->box, request->out, executor);
      else
        stored.push_back(*request);
      bytes += bytes_of(source_.tensors()[index], request->box.shape);
    }
    note_read(index, bytes);
  }
  if (!stored.empty()) source_.read(stored, {});
}

std::shared_ptr<ScratchCopy> ScratchArrays::copy_for(std::span<const ReadRequest* const> requests,
                                                     Executor& executor) {
  const std::size_t index = requests.front()->tensor;
  const TensorInfo& tensor = source_.tensors()[index];
  if (tensor.nbytes < kLeastBytes || tensor.dtype == DType::kOpaque) return nullptr;
  // A second thread waits for the copy.
  const std::lock_guard lock(mutex_);
  if (const auto known = entries_.find(index); known != entries_.end()) return known->second.copy;
  const std::uint64_t stored_read = is_store_url(source_.info().path) ? kRemoteRead : kLocalRead;
  const std::uint64_t least_read = is_compressed(source_, index) ? 0 : stored_read;
  std::uint64_t wanted = 0;
  std::uint64_t cost = 0;
  for (const ReadRequest* request : requests) {
    wanted += bytes_of(tensor, request->box.shape);
    cost += cost_of(tensor, request->box, least_read);
  }
  const Shape& cell = requests.front()->box.shape;
  // All reads cost in proportion to these. A copy costs as much as reading the array.
  const std::uint64_t expected = std::max(expected_of(index), wanted);
  const double all = static_cast<double>(std::min(cost, tensor.nbytes)) *
                     (static_cast<double>(expected) / static_cast<double>(wanted));
  const bool pays = all >= 2 * static_cast<double>(tensor.nbytes) &&
                    run_of(tensor, cell, memory_ / 2) >= kLeastRun;
  Entry& entry = entries_[index];
  if (!pays) return nullptr;
  entry = {make_copy(index, cell, executor), expected};
  return entry.copy;
}

std::shared_ptr<ScratchCopy> ScratchArrays::make_copy(std::size_t index, Shape cell,
                                                      Executor& executor) const {
  const TensorInfo& tensor = source_.tensors()[index];
  std::shared_ptr<ScratchCopy> copy;
  try {
    copy = std::make_shared<ScratchCopy>(tensor, std::move(cell), folder_);
    // What is still to be read may be written to the same file system.
    const std::uint64_t space = copy->free_space();
    if (space / 2 < tensor.nbytes || space - tensor.nbytes < unread_) return nullptr;
  } catch (const Error&) {
    return nullptr;  // a folder that takes no files
  }
  if (!copy_array(source_, index, memory_, *copy, executor)) return nullptr;
  return copy;
}

void ScratchArrays::note_read(std::size_t index, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  unread_ -= std::min(unread_, bytes);
  const auto entry = entries_.find(index);
  if (entry == entries_.end() || !entry->second.copy) return;
  entry->second.unread -= std::min(entry->second.unread, bytes);
  if (entry->second.unread == 0) entry->second.copy.reset();
}

}  // namespace cairn::inline v0
