// piece_writer_test.cc -- tensors of any size go to any places of several files, through buffers of
// any size, past the page cache or not: every byte lands once where it belongs.
#include <cairn/base/checksum.h>
#include <cairn/formats/raw/part_checksums.h>
#include <cairn/formats/raw/piece_writer.h>
#include <cairn/io/atomic_file.h>
#include <gmock/gmock.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <numeric>
#include <random>

#include "tests/support/random_bytes.h"
#include "tests/support/same_bytes.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::TempDir;

struct Draw {
  std::mt19937_64 random;
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : random() % n; }
  bool once_in(std::uint64_t n) { return below(n) == 0; }
};

// Tensors, where they go, and what the files are to hold.
struct PieceCase {
  std::vector<Bytes> values;  // as fetched
  std::vector<Placement> placements;
  std::vector<std::size_t> file_of;
  std::vector<Bytes> files;
};

Bytes random_values(Draw& draw, std::size_t size, bool packed) {
  Bytes bytes(size);
  testing::fill_random(bytes, draw.random(), packed ? 0x0f0f0f0f0f0f0f0fU : ~std::uint64_t{0});
  return bytes;
}

PieceCase draw_case(Draw& draw, std::size_t tensors, std::uint64_t largest) {
  PieceCase drawn;
  drawn.files.resize(1 + draw.below(3));
  for (std::size_t i = 0; i < tensors; ++i) {
    Placement p;
    p.tensor = i;
    p.packed = draw.once_in(12);
    p.element_size = p.packed           ? 1
                     : draw.once_in(10) ? 3 * (1 + draw.below(3))
                                        : std::size_t{1} << draw.below(5);
    const std::uint64_t unit = p.packed ? 2 : p.element_size;
    const std::uint64_t elements = draw.once_in(9) ? 0 : draw.below(largest / unit + 1);
    Bytes value = random_values(draw, elements * unit, p.packed);
    p.begin = draw.once_in(5) ? draw.below(elements + 1) * unit : 0;
    p.nbytes = value.size() - p.begin;
    if (draw.once_in(3)) p.cut = unit * (1 + draw.below(largest / unit / 2 + 1));
    const std::size_t f = draw.below(drawn.files.size());
    Bytes& file = drawn.files[f];
    if (draw.once_in(4)) file.resize(file.size() + draw.below(5000));  // a gap
    if (draw.once_in(2))
      file.resize((file.size() + p.element_size - 1) / p.element_size * p.element_size);
    p.offset = file.size();
    const ByteView part = ByteView(value).subspan(p.begin);
    if (p.packed)
      for (std::size_t b = 0; b + 1 < part.size(); b += 2)
        file.push_back(part[b] | part[b + 1] << 4);
    else
      file.insert(file.end(), part.begin(), part.end());
    drawn.values.push_back(std::move(value));
    drawn.placements.push_back(p);
    drawn.file_of.push_back(f);
  }
  return drawn;
}

void check(const PieceCase& drawn, const std::string& folder, std::uint64_t memory) {
  std::deque<AtomicFile> files;
  for (std::size_t f = 0; f < drawn.files.size(); ++f)
    files.emplace_back(folder + "/" + std::to_string(f));
  std::vector<Placement> placements = drawn.placements;
  for (std::size_t i = 0; i < placements.size(); ++i) placements[i].file = &files[drawn.file_of[i]];

  const auto fetch = [&](std::span<const TensorPiece> pieces) {
    for (const TensorPiece& piece : pieces) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece.out.data()) %
                    std::gcd(drawn.placements[piece.tensor].element_size, 64U),
                0U);
      ASSERT_LE(piece.offset + piece.out.size(), drawn.values[piece.tensor].size());
      std::memcpy(piece.out.data(), drawn.values[piece.tensor].data() + piece.offset,
                  piece.out.size());
    }
  };
  std::deque<PartChecksums> sums;
  for (std::size_t i = 0; i < placements.size(); ++i) sums.emplace_back(kCrc32c);
  std::uint64_t last = 0, total = 0;
  std::mutex mutex;
  for (const Placement& p : placements) total += p.nbytes;
  const auto progress = [&](std::uint64_t done, std::uint64_t of) {
    const std::scoped_lock lock(mutex);
    last = std::max(last, done);
    EXPECT_EQ(of, total);
  };
  write_pieces(placements, fetch,
               {.memory = memory,
                .progress = progress,
                .observe = [&](std::size_t i, std::uint64_t offset, ByteView bytes) {
                  sums[i].add(offset, bytes);
                }});
  EXPECT_EQ(last, total);
  std::vector<std::uint32_t> crcs(placements.size());
  const Bytes message = checksums_message(sums);
  join_checksums(kCrc32c, {&message, 1}, [&](std::size_t i) -> std::uint32_t& { return crcs[i]; });
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const Placement& p = placements[i];
    const auto stored = ByteView(drawn.files[drawn.file_of[i]])
                            .subspan(p.offset, p.packed ? p.nbytes / 2 : p.nbytes);
    EXPECT_EQ(crcs[i], crc32c(stored)) << "not every byte of it was seen once";
  }
  for (std::size_t f = 0; f < files.size(); ++f) {
    files[f].commit();
    Bytes there = read_file(folder + "/" + std::to_string(f));
    there.resize(drawn.files[f].size());  // a gap at the end is nobody's
    EXPECT_TRUE(testing::same_bytes(there, drawn.files[f]));
  }
}

TEST(PieceWriter, SmallThingsThroughBuffersOfAnySize) {
  const TempDir dir = TempDir::in_memory();
  Draw draw{std::mt19937_64(1)};
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    const PieceCase drawn = draw_case(draw, 1 + draw.below(40), i % 3 == 0 ? 40 : 20000);
    check(drawn, dir.path(), std::uint64_t{1} << draw.below(20));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(PieceWriter, LargeFilesPastThePageCache) {
  const TempDir dir;
  Draw draw{std::mt19937_64(2)};
  for (const std::uint64_t memory :
       {std::uint64_t{1} << 30U, std::uint64_t{9} << 20U, std::uint64_t{100000}}) {
    for (const std::size_t tensors : {12U, 3000U}) {
      SCOPED_TRACE(memory);
      check(draw_case(draw, tensors, (std::uint64_t{100} << 20U) / tensors), dir.path(), memory);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace cairn
