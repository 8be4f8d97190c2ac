// file_image.cc -- reserves anonymous memory and fills it block by block.
#include <cairn/io/file_image.h>

#include <cairn/io/system_call.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace cairn::inline v0 {
namespace {

// Several pages: the next request often follows directly.
constexpr std::uint64_t kLocalBlock = std::uint64_t{16} << 10U;
// Of a store: a request takes as long as a megabyte.
constexpr std::uint64_t kStoreBlock = std::uint64_t{1} << 20U;
// Reads of more bytes search the range for holes.
constexpr std::uint64_t kRun = std::uint64_t{1} << 20U;

}  // namespace

FileImage::FileImage(const File& file)
    : file_(&file),
      block_(file.is_local() ? kLocalBlock : kStoreBlock),
      size_(file.size()),
      loaded_((size_ + block_ - 1) / block_) {
  if (size_ == 0) return;
  void* const mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    fail_file_call(file.path(), "reserve address space for its " + std::to_string(size_) + " bytes",
                   errno, Code::kUnavailable);
  data_ = static_cast<std::byte*>(mapped);
}

FileImage::~FileImage() {
  if (data_ != nullptr) munmap(data_, size_);
}

void FileImage::read(std::uint64_t begin, std::uint64_t end) {
  if (end - begin <= kRun) return file_->read_into(begin, {data_ + begin, end - begin});
  for (auto data = file_->data_from(begin); data && data->first < end;
       data = file_->data_from(data->second)) {
    data->second = std::min(data->second, end);
    file_->read_into(data->first, {data_ + data->first, data->second - data->first});
  }
}

void FileImage::load(ByteView part) {
  if (part.empty()) return;
  const auto begin = static_cast<std::uint64_t>(part.data() - data_);
  const std::uint64_t last = (begin + part.size() - 1) / block_;
  for (std::uint64_t block = begin / block_; block <= last; ++block) {
    if (loaded_[block]) continue;
    std::uint64_t next = block;
    while (next <= last && !loaded_[next]) loaded_[next++] = true;
    read(block * block_, std::min(next * block_, size_));
    block = next - 1;
  }
}

void FileImage::load_all() {
  read(0, size_);
  loaded_.assign(loaded_.size(), true);
}

}  // namespace cairn::inline v0
