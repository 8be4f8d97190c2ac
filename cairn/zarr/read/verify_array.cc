// verify_array.cc -- reads and decodes every chunk of an array, and continues after damage.
#include <cairn/array/box.h>
#include <cairn/base/git_lfs.h>
#include <cairn/error.h>
#include <cairn/io/tree/read_forward.h>
#include <cairn/zarr/codec/objects.h>
#include <cairn/zarr/codec/shard.h>
#include <cairn/zarr/metadata/chunk_grid.h>
#include <cairn/zarr/read/array.h>
#include <cairn/zarr/read/decode.h>
#include <cairn/zarr/read/file_table.h>
#include <cairn/zarr/read/shard_walk.h>
#include <cairn/zarr/read/value_streams.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

// large chunks are checked in pieces of this size
constexpr std::uint64_t kCheckedPiece = std::uint64_t{4} << 20U;
// encoded chunks that take more memory than this are decoded in pieces
constexpr std::uint64_t kMostWhole = std::uint64_t{8} << 20U;
// the most memory of a stream whose value is smaller
constexpr std::uint64_t kMostStream = std::uint64_t{160} << 20U;

// Pieces of a long value in a store that are held at once, and how many such values are.
constexpr std::size_t kCheckedWindow = 4;
constexpr std::size_t kCheckedAhead = 8;

// chunks between two checks of the number of findings
constexpr std::int64_t kChunksAtATime = std::int64_t{1} << 14U;
// For arrays with more chunks, the store lists the stored chunks. Asking for each chunk separately
// could take years for a hostile shape.
constexpr std::int64_t kManyChunks = std::int64_t{1} << 16U;

// One stored value, in a file or in memory.
struct StoredValue {
  FileId file = kNoFile;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  ByteView memory;  // if there is no file

  [[nodiscard]] StoredValue part(std::uint64_t at, std::uint64_t n) const {
    return {.file = file,
            .offset = offset + at,
            .length = n,
            .memory = file == kNoFile ? memory.subspan(at, n) : memory};
  }
};

// A chunk, shard or inner chunk that is being checked.
struct Piece {
  StoredValue value;
  Box inside;          // the part inside the array, in the piece's own coordinates
  std::int64_t chunk;  // number in the array's grid
  std::string name;    // "chunk 0.3", "chunk 0.3, shard entry 2"
};

class Verifier {
 public:
  Verifier(const ZarrArray& array, MissingChunk missing, const ReadContext& context)
      : array_(array), metadata_(array.metadata()), missing_(missing), context_(context) {}

  void run(const ChunkRun& run);
  CheckedArray take(const std::string& label);

 private:
  void run_stored(const Shape& grid, const ChunkRun& run, Executor& executor);
  // Returns the numbers of those chunks of a run that are stored.
  [[nodiscard]] std::vector<std::int64_t> stored_chunks(const Shape& grid,
                                                        const ChunkRun& run) const;
  void check_chunk(std::int64_t number, const std::vector<std::int64_t>& position);
  void check_value(const CodecChain& chain, Piece piece);
  void check_shard(const ShardCodec& shard, const Piece& piece);
  void check_raw(const CodecChain& chain, const Piece& piece);
  void check_encoded(const CodecChain& chain, const Piece& piece);
  void check_objects(const CodecChain& chain, const Piece& piece);
  void check_steps(const CodecChain& chain, const Piece& piece, Frames frames);
  bool check_streamed(const CodecChain& chain, const Piece& piece, Frames frames, std::string& why);
  void check_elements(const CodecChain& chain, ChainStream& stream) const;
  void note_protection(const Piece& piece, bool checksummed);
  void check_missing(const Piece& piece);
  // The file of a value that is read from front to back. In a store, threads fetch ahead of it.
  std::shared_ptr<const File> open_ahead(const StoredValue& value);
  // What open_ahead() holds of a value, in bytes; 0 for a short value, which is one read.
  std::uint64_t bytes_ahead(const StoredValue& value);
  // file null: that of the value
  ByteView read(const StoredValue& value, Scratch& scratch, const File* file = nullptr);
  void found(Severity severity, const Piece& piece, const std::string& message);
  void checked(const Piece& piece);

  [[nodiscard]] Box inside_array(const std::vector<std::int64_t>& position) const;
  [[nodiscard]] ByteBudget::Lease lease(std::uint64_t bytes) const {
    return context_.budget && bytes > 0 ? context_.budget->acquire(bytes) : ByteBudget::Lease();
  }

  const ZarrArray& array_;
  const ArrayMetadata& metadata_;
  MissingChunk missing_;
  const ReadContext& context_;
  FileTable files_;
  std::atomic<bool> unprotected_ = false;
  std::atomic<std::uint64_t> chunks_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::mutex mutex_;                                     // guards found_
  std::vector<std::pair<std::int64_t, Finding>> found_;  // with the chunk's number
};

void Verifier::run(const ChunkRun& run) {
  const Shape grid = grid_shape(metadata_.shape, metadata_.chunk_shape);
  const std::int64_t chunks = element_count(grid);
  const std::int64_t end = std::min(chunks, run.end);
  Executor& executor = context_.executor ? *context_.executor : default_executor();
  if (chunks > kManyChunks) return run_stored(grid, {run.begin, end}, executor);
  for (std::int64_t first = run.begin; first < end && found_.size() < kMostFindings;
       first += kChunksAtATime)
    executor.for_each(static_cast<std::size_t>(std::min(kChunksAtATime, end - first)),
                      [&](std::size_t i) {
                        const std::int64_t number = first + static_cast<std::int64_t>(i);
                        check_chunk(number, grid_position(grid, number));
                      });
}

std::vector<std::int64_t> Verifier::stored_chunks(const Shape& grid, const ChunkRun& run) const {
  std::vector<std::int64_t> numbers;
  const std::string prefix = ZarrArray::key_prefix(array_.name());
  for (const ListEntry& entry : array_.store()->list(prefix)) {
    const auto position =
        metadata_.keys.position(std::string_view(entry.key).substr(prefix.size()), grid.size());
    bool inside = position.has_value();
    for (std::size_t d = 0; inside && d < grid.size(); ++d) inside = (*position)[d] < grid[d];
    if (!inside) continue;
    const std::int64_t number = grid_number(grid, *position);
    if (number >= run.begin && number < run.end) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void Verifier::run_stored(const Shape& grid, const ChunkRun& run, Executor& executor) {
  const auto listed = try_call([&] { return stored_chunks(grid, run); });
  if (!listed)
    return found(severity_of(listed.error().code()),
                 {.value = {}, .inside = {}, .chunk = run.begin, .name = "chunks"},
                 listed.error().message());
  const std::vector<std::int64_t>& numbers = listed.value();
  const auto count = static_cast<std::int64_t>(numbers.size());
  for (std::int64_t first = 0; first < count && found_.size() < kMostFindings;
       first += kChunksAtATime)
    executor.for_each(static_cast<std::size_t>(std::min(kChunksAtATime, count - first)),
                      [&](std::size_t i) {
                        const std::int64_t number = numbers[static_cast<std::size_t>(first) + i];
                        check_chunk(number, grid_position(grid, number));
                      });
  const std::int64_t missing = run.end - run.begin - count;
  if (missing_ == MissingChunk::kFill || missing == 0) return;
  std::int64_t number = run.begin;  // of the first missing chunk
  for (const std::int64_t stored : numbers) number += stored == number ? 1 : 0;
  const auto position = grid_position(grid, number);
  found(
      Severity::kDamage,
      {.value = {}, .inside = {}, .chunk = number, .name = "chunk " + metadata_.keys.key(position)},
      "the chunk is missing" +
          (missing == 1 ? std::string() : ", as are " + std::to_string(missing - 1) + " others"));
}

CheckedArray Verifier::take(const std::string& label) {
  CheckedArray checked{.chunks = chunks_, .bytes = bytes_, .unprotected = unprotected_};
  std::stable_sort(found_.begin(), found_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [number, finding] : found_) {
    finding.tensor = label;
    checked.findings.push_back(std::move(finding));
  }
  return checked;
}

Box Verifier::inside_array(const std::vector<std::int64_t>& position) const {
  Box inside{.origin = std::vector<std::int64_t>(position.size(), 0),
             .shape = metadata_.chunk_shape};
  for (std::size_t d = 0; d < position.size(); ++d)
    inside.shape[d] =
        std::min(inside.shape[d], metadata_.shape[d] - position[d] * metadata_.chunk_shape[d]);
  return inside;
}

void Verifier::check_chunk(std::int64_t number, const std::vector<std::int64_t>& position) {
  const std::string key = array_.chunk_key(position);
  Piece piece{.value = {},
              .inside = inside_array(position),
              .chunk = number,
              .name = "chunk " + metadata_.keys.key(position)};
  try {
    if (const auto location = array_.store()->locate(key)) {
      piece.value = {.file = files_.id(*location),
                     .offset = location->offset,
                     .length = location->length,
                     .memory = {}};
      return check_value(metadata_.codecs, std::move(piece));
    }
    const auto value = array_.store()->map(key);
    if (!value) return check_missing(piece);
    piece.value = {
        .file = kNoFile, .offset = 0, .length = value->bytes.size(), .memory = value->bytes};
    check_value(metadata_.codecs, std::move(piece));
    // an error of the store itself; check_value reports its own errors
  } catch (const Error& error) {
    found(severity_of(error.code()),
          {.value = {},
           .inside = {},
           .chunk = number,
           .name = "chunk " + metadata_.keys.key(position)},
          error.message());
  }
}

void Verifier::check_value(const CodecChain& chain, Piece piece) {
  if (!chain.order.empty())
    piece.inside =
        transposed(chain, {.part = piece.inside,
                           .out = {.shape = piece.inside.shape, .strides = piece.inside.origin}})
            .part;
  try {
    if (chain.shard) return check_shard(*chain.shard, piece);
    check_stored_size(chain, piece.value.length);
    if (chain.objects != ObjectCodec::kNone) {
      check_objects(chain, piece);
    } else {
      chain.steps.empty() ? check_raw(chain, piece) : check_encoded(chain, piece);
    }
    ++chunks_;
  } catch (const Error& error) {
    found(severity_of(error.code()), piece, error.message());
  }
  checked(piece);
}

void Verifier::check_shard(const ShardCodec& shard, const Piece& piece) {
  std::vector<ShardEntry> index;
  {
    const ShardIndexRange range = shard_index_range(shard, piece.value.length);
    const auto held = lease(range.length);
    Scratch scratch;
    index = decode_shard_index(shard, read(piece.value.part(range.offset, range.length), scratch),
                               piece.value.length);
  }
  const auto check = [&](std::int64_t number, const ShardEntry& entry, const ChunkPart& part) {
    Piece inner{.value = piece.value,
                .inside = part.in_chunk,
                .chunk = piece.chunk,
                .name = piece.name + ", " + shard_entry_text(number)};
    if (entry.absent()) return check_missing(inner);
    inner.value = piece.value.part(entry.offset, entry.nbytes);
    check_value(shard.codecs, std::move(inner));
  };
  for_each_inner_chunk(shard, index, piece.inside, check);
}

// Checks a raw chunk in pieces: it may be large and needs no decoding.
void Verifier::check_raw(const CodecChain& chain, const Piece& piece) {
  if (piece.value.length != chain.nbytes)
    throw Error(Code::kDataLoss, "chunk has " + std::to_string(piece.value.length) +
                                     " bytes, expected " + std::to_string(chain.nbytes));
  if (piece.value.file != kNoFile || !context_.inline_values_protected) unprotected_ = true;
  const std::uint64_t ahead = bytes_ahead(piece.value);
  const auto held = lease(std::min(kCheckedPiece, chain.nbytes) + ahead);
  const auto file = ahead > 0 ? open_ahead(piece.value) : nullptr;
  Scratch scratch;
  for (std::uint64_t at = 0; at < chain.nbytes; at += kCheckedPiece)
    check_bools(metadata_.dtype,
                read(piece.value.part(at, std::min(kCheckedPiece, chain.nbytes - at)), scratch,
                     file.get()));
}

// Decodes a large value in pieces, so that memory does not grow with the size that it claims.
// Returns false, with the reason, if the value must be decoded whole.
bool Verifier::check_streamed(const CodecChain& chain, const Piece& piece, Frames frames,
                              std::string& why) {
  const StoredValue& value = piece.value;
  const std::uint64_t limit = context_.budget ? context_.budget->limit() : kMostStream;
  const std::uint64_t most = std::min(limit, kMostStream) + value.length;
  // Before a chain of several steps is open, its memory is unknown.
  const std::uint64_t ahead = bytes_ahead(value);
  auto held = lease(memory_to_open(chain.steps) + ahead);
  Scratch encoded;
  const bool is_small = value.file == kNoFile || value.length <= kCheckedPiece;
  const ByteView stored = is_small ? read(value, encoded) : ByteView();
  return explain_lfs_pointer(stored, [&] {
    auto source = is_small ? value_in_memory(stored)
                           : value_in_file({.file = files_.path(value.file),
                                            .offset = value.offset,
                                            .length = value.length,
                                            .nbytes = chain.nbytes},
                                           open_ahead(value));
    const auto stream = ChainStream::open(chain.steps, std::move(source), chain.nbytes, most, why,
                                          ByteOrder::kAny, frames);
    if (!stream) return false;
    if (chain.steps.size() == 1) {
      held = {};
      held = lease(2 * kCheckedPiece + stream->memory() + ahead);
    }
    check_elements(chain, *stream);
    if (!is_small) bytes_ += value.length;
    note_protection(piece, stream->checksummed());
    return true;
  });
}

void Verifier::check_elements(const CodecChain& chain, ChainStream& stream) const {
  Scratch scratch;
  for (std::uint64_t at = 0; at < chain.nbytes; at += kCheckedPiece) {
    const auto size = static_cast<std::size_t>(std::min(kCheckedPiece, chain.nbytes - at));
    const MutableByteView elements = scratch.bytes(size).first(size);
    stream.read(elements);
    check_bools(metadata_.dtype, elements);
  }
}

void Verifier::check_encoded(const CodecChain& chain, const Piece& piece) {
  if (!context_.must_suit_tensorstore) return check_steps(chain, piece, Frames::kAny);
  // TensorStore decodes the first frame or member, which must hold everything. In Zarr v2, nothing
  // may follow it.
  const Frames frames = metadata_.zarr_format == 2 ? Frames::kOne : Frames::kOneAndSkippable;
  try {
    check_steps(chain, piece, frames);
  } catch (const Error& error) {
    if (error.code() != Code::kDataLoss) throw;
    check_steps(chain, piece, Frames::kAny);  // throws if other readers refuse it, too
    throw Error(Code::kDataLoss,
                "TensorStore, and so Orbax, refuses the chunk: " + error.message());
  }
}

void Verifier::check_steps(const CodecChain& chain, const Piece& piece, Frames frames) {
  const std::uint64_t whole = scratch_bytes(chain, false);
  std::string why;
  if (whole > kMostWhole) {
    if (check_streamed(chain, piece, frames, why)) return;
    check_whole_fits(chain, piece.value.length, context_.budget, why);
  }
  const auto held = lease(piece.value.length + whole);
  Scratch encoded;
  Scratch decoded;
  const DecodedBytes elements =
      decode_steps(chain.steps, read(piece.value, encoded), chain.nbytes, decoded, frames);
  check_bools(metadata_.dtype, elements.bytes);
  note_protection(piece, elements.checksummed);
}

void Verifier::note_protection(const Piece& piece, bool checksummed) {
  const bool is_inline = piece.value.file == kNoFile && context_.inline_values_protected;
  if (!checksummed && !is_inline) unprotected_ = true;
}

// The size of objects is not stored, so memory grows with the bytes that really decode. One such
// chunk is decoded at a time.
void Verifier::check_objects(const CodecChain& chain, const Piece& piece) {
  check_objects_size(piece.value.length);
  const std::uint64_t most = most_object_bytes(context_.budget ? context_.budget->limit() : 0);
  const auto held = lease(most);
  Scratch encoded;
  const bool checksummed =
      decode_objects(chain, read(piece.value, encoded), most, [](ByteView /*element*/) {});
  note_protection(piece, checksummed);
}

void Verifier::check_missing(const Piece& piece) {
  if (missing_ == MissingChunk::kError) found(Severity::kDamage, piece, "the chunk is missing");
  checked(piece);
}

std::uint64_t Verifier::bytes_ahead(const StoredValue& value) {
  if (value.file == kNoFile || value.length <= kCheckedPiece) return 0;
  return files_.handle(value.file)->is_local() ? 0 : kCheckedWindow * kForwardPiece;
}

std::shared_ptr<const File> Verifier::open_ahead(const StoredValue& value) {
  auto file = files_.handle(value.file);
  if (file->is_local()) return file;
  expect_waiting(kCheckedAhead);
  return std::make_shared<const File>(read_forward(std::move(file), {.offset = value.offset,
                                                                     .length = value.length,
                                                                     .sure = value.length,
                                                                     .window = kCheckedWindow}));
}

ByteView Verifier::read(const StoredValue& value, Scratch& scratch, const File* file) {
  bytes_ += value.length;
  if (value.file == kNoFile) return value.memory;
  const MutableByteView bytes = scratch.bytes(value.length).first(value.length);
  if (file != nullptr)
    FileTable::read_scatter(*file, value.offset, {&bytes, 1});
  else
    files_.read_into(value.file, value.offset, bytes);
  return bytes;
}

void Verifier::found(Severity severity, const Piece& piece, const std::string& message) {
  const bool in_file = piece.value.file != kNoFile;
  Finding finding{.severity = severity,
                  .tensor = {},
                  .file = in_file ? files_.path(piece.value.file) : "",
                  .offset = in_file ? piece.value.offset : 0,
                  .message = piece.name + ": " + message};
  const std::lock_guard lock(mutex_);
  if (found_.size() < kMostFindings) found_.emplace_back(piece.chunk, std::move(finding));
}

void Verifier::checked(const Piece& piece) {
  if (context_.progress)
    context_.progress->done +=
        static_cast<std::uint64_t>(element_count(piece.inside.shape)) * metadata_.element_size;
}

}  // namespace

CheckedArray verify_array(const ZarrArray& array, const std::string& label, MissingChunk missing,
                          const ReadContext& context, const ChunkRun& run) {
  Verifier verifier(array, missing, context);
  verifier.run(run);
  return verifier.take(label);
}

}  // namespace cairn::inline v0::zarr
