#include <cairn/formats/tensorflow/index/sstable_salvage.h>

#include <cairn/base/byte_order.h>
#include <cairn/base/checksum.h>
#include <cairn/base/errors.h>
#include <cairn/formats/tensorflow/index/sstable_block.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kMostSearched = std::uint64_t{256} << 20U;
// Steps of the search for blocks. A table of 256 MiB with a few damaged blocks needs a tenth.
constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 31U;
// An empty block has one restart and the number of restarts.
constexpr std::uint64_t kLeastBlock = 8;

// Returns what f() returns, or its data_loss.
template <class F>
auto try_damaged(F f) {
  auto result = try_call(f);
  if (!result && result.error().code() != Code::kDataLoss) throw Error(result.error());
  return result;
}

// Whether all entries of a block can be decoded.
bool is_well_formed(ByteView contents) {
  return try_damaged([&] {
           SstableEntries entries(contents);
           while (entries.next()) {
           }
           return true;
         })
      .ok();
}

// Finds the raw blocks in bytes that may be damaged anywhere.
class BlockSearch {
 public:
  explicit BlockSearch(ByteView table) : table_(table) {}

  // The blocks whose checksums are right, in order.
  std::vector<SstableHandle> run() {
    std::vector<SstableHandle> found;
    for (at_ = kLeastBlock; at_ + kSstableTrailer <= table_.size(); ++at_) {
      if (!may_end_here()) continue;
      const auto begin = find_begin();
      if (is_exhausted()) break;
      if (!begin) continue;
      found.push_back({*begin, at_ - *begin});
      from_ = at_ + kSstableTrailer;
      at_ = from_ + kLeastBlock - 1;
    }
    return found;
  }
  // Whether the search has ended before the end of the table.
  [[nodiscard]] bool is_exhausted() const { return steps_ > kMostSteps; }
  // Where it ended.
  [[nodiscard]] std::uint64_t at() const { return at_; }

 private:
  [[nodiscard]] std::uint32_t number_at(std::uint64_t at) const {
    return load_little_endian<std::uint32_t>(table_.subspan(at));
  }
  [[nodiscard]] std::uint8_t byte_at(std::uint64_t at) const {
    return std::to_integer<std::uint8_t>(table_[at]);
  }

  // Whether a table of restarts and the type of a raw block end before and at `at_`.
  bool may_end_here() {
    if (byte_at(at_) != kRawBlock) return false;
    restarts_ = number_at(at_ - 4);
    if (restarts_ == 0 || restarts_ > (at_ - from_ - 4) / 4) return false;
    entries_end_ = at_ - 4 - std::uint64_t{4} * restarts_;
    if (restart(0) != 0) return false;
    for (std::uint32_t i = 1; i < restarts_; ++i) {
      ++steps_;
      if (restart(i) <= restart(i - 1)) return false;
    }
    return restart(restarts_ - 1) <= entries_end_ - from_;
  }
  [[nodiscard]] std::uint32_t restart(std::uint32_t i) const {
    return number_at(entries_end_ + std::uint64_t{4} * i);
  }

  // Where the block begins that ends at `at_`: behind the last block, or, if damage is in between,
  // somewhere later.
  std::optional<std::uint64_t> find_begin() {
    if (is_block(from_)) return from_;
    const std::uint64_t least = std::max(from_ + 1, at_ - std::min(at_, kMaxSstableBlock));
    for (std::uint64_t begin = entries_end_; begin >= least && !is_exhausted(); --begin)
      if (is_block(begin)) return begin;
    return std::nullopt;
  }

  bool is_block(std::uint64_t begin) {
    ++steps_;
    // Each restart points at an entry that shares no bytes with the one before.
    const bool is_empty = begin == entries_end_ && restarts_ == 1;
    for (std::uint32_t i = 0; i < restarts_ && !is_empty; ++i) {
      ++steps_;
      const std::uint64_t at = begin + restart(i);
      if (at >= entries_end_ || byte_at(at) != 0) return false;
    }
    const ByteView block = table_.subspan(begin, at_ + 1 - begin);
    constexpr std::uint64_t kBytesPerStep = 16;
    steps_ += block.size() / kBytesPerStep;
    if (crc32c_masked(crc32c(block)) != number_at(at_ + 1)) return false;
    steps_ += block.size();
    return is_well_formed(block.first(block.size() - 1));
  }

  ByteView table_;
  std::uint64_t from_ = 0;  // the end of the last block that was found
  std::uint64_t at_ = 0;    // where the contents of a block may end
  std::uint32_t restarts_ = 0;
  std::uint64_t entries_end_ = 0;  // where the entries of that block end and its restarts begin
  std::uint64_t steps_ = 0;
};

// The places of the data blocks, if the block is an index block: then all of its values are
// handles, in order. No message of a TensorFlow index looks like one.
std::optional<std::vector<SstableHandle>> handles_in(ByteView contents, std::uint64_t end) {
  auto handles = try_damaged([&] {
    std::vector<SstableHandle> found;
    SstableEntries entries(contents);
    while (entries.next()) {
      ByteReader value(entries.value());
      const SstableHandle handle = take_sstable_handle(value, end);
      value.finish();
      if (!found.empty() && handle.offset < found.back().end())
        data_loss("the blocks of its index are not in order");
      found.push_back(handle);
    }
    return found;
  });
  if (!handles) return std::nullopt;
  return std::move(handles).value();
}

class Salvage {
 public:
  Salvage(std::uint64_t size, const SstableReadFn& read,
          const std::function<void(std::string_view key, ByteView value)>& entry)
      : size_(size), read_(read), entry_(entry) {}

  SstableRemains run() {
    const auto handles = try_damaged([&] { return handles_of_footer(); });
    if (handles) {
      give(handles.value());
    } else {
      remains_.why_no_index = handles.error().message();
      search();
    }
    return std::move(remains_);
  }

 private:
  std::vector<SstableHandle> handles_of_footer() {
    const SstableHandle index = read_sstable_footer(size_, read_).index;
    return with_context([&] { return fmt::format("the index block at byte {}", index.offset); },
                        [&] {
                          const Bytes contents = read_sstable_block(index, read_);
                          auto handles = handles_in(contents, size_ - kSstableFooter);
                          if (!handles) data_loss("it does not list blocks in order");
                          return *std::move(handles);
                        });
  }

  void lose(std::uint64_t begin, std::uint64_t end, std::string why) {
    remains_.lost.push_back({begin, end, std::move(why)});
  }

  // Gives the entries of these blocks.
  void give(const std::vector<SstableHandle>& blocks) {
    for (const SstableHandle& block : blocks) {
      const auto contents = try_damaged([&] {
        Bytes bytes = read_sstable_block(block, read_);
        check_keys(bytes);
        return bytes;
      });
      if (!contents) {
        lose(block.offset, block.end(), contents.error().message());
        continue;
      }
      for (SstableEntries entries{ByteView(contents.value())}; entries.next();)
        entry_(entries.key(), entries.value());
    }
  }

  // Checks a block to its end before anything of it is given.
  void check_keys(ByteView contents) {
    std::optional<std::string> last = last_key_;
    SstableEntries entries(contents);
    while (entries.next()) {
      if (last && entries.key() <= *last) data_loss("its keys do not increase");
      last = entries.key();
    }
    if (last == last_key_) data_loss("it has no entries");
    last_key_ = std::move(last);
  }

  // Gives the entries of the blocks that are found without the index block, or by an index block
  // that is found.
  void search() {
    Bytes table(std::min(size_, kMostSearched));
    read_(0, table);
    BlockSearch search{ByteView(table)};
    std::vector<SstableHandle> blocks = search.run();
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      const ByteView contents = ByteView(table).subspan(block->offset, block->size);
      const auto handles = handles_in(contents, block->offset);
      if (handles && !handles->empty()) return give(*handles);
    }
    // The metaindex block is empty and follows the data blocks.
    const auto meta = std::find_if(blocks.rbegin(), blocks.rend(), [](const SstableHandle& block) {
      return block.size == kLeastBlock;
    });
    const bool has_end = meta != blocks.rend();
    const std::uint64_t end = has_end ? meta->offset : size_;
    if (has_end) blocks.erase(std::prev(meta.base()), blocks.end());
    give(blocks);
    std::uint64_t begin = 0;
    for (const SstableHandle& block : blocks) {
      if (block.offset > begin) lose(begin, block.offset, "no whole block is there");
      begin = block.end();
    }
    if (!has_end && search.is_exhausted())
      lose(begin, end, fmt::format("the search for blocks ended at byte {}", search.at()));
    else if (!has_end || begin < end)
      lose(begin, end, "no whole block is there");
    std::ranges::sort(remains_.lost, {}, &LostSstableBytes::begin);
  }

  std::uint64_t size_;
  const SstableReadFn& read_;
  const std::function<void(std::string_view key, ByteView value)>& entry_;
  std::optional<std::string> last_key_;
  SstableRemains remains_;
};

}  // namespace

SstableRemains salvage_sstable(
    std::uint64_t size, const SstableReadFn& read,
    const std::function<void(std::string_view key, ByteView value)>& entry) {
  return Salvage(size, read, entry).run();
}

}  // namespace cairn::inline v0
