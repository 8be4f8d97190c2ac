// inspect.h -- looks into a checkpoint: choose tensors, count, draw, export, compute statistics,
// verify.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

// ---- choosing ----

// Shell-style matching of parameter names: '*' any run, '?' one character, [abc] and [!abc]; '.' is
// not special.
bool glob_match(std::string_view pattern, std::string_view text);

// Indices of the tensors that match one of `include` (empty: all) and none of `exclude`, in the
// checkpoint's order. Where there are several items, "item/name" is matched as well as the name.
std::vector<std::size_t> select_tensors(const Checkpoint& checkpoint,
                                        std::span<const std::string> include,
                                        std::span<const std::string> exclude = {});

// "0:8, :, 3" or "..., 0": NumPy basic slicing without steps; negative indices count from the end;
// missing dimensions are whole. An integer keeps its dimension out of `shape`. Throws
// invalid_argument or out_of_range naming the dimension.
struct SliceSpec {
  Box box;
  Shape shape;  // of the result, integer-indexed dimensions dropped
};
SliceSpec parse_slice(std::string_view text, std::span<const std::int64_t> shape);

// ---- counting ----

// What all leaves come to. Of those that cannot be read the size is not known.
struct Summary {
  // empty: nodes without children, and placeholders
  std::uint64_t leaves = 0, arrays = 0, strings = 0, empty = 0;
  std::uint64_t unreadable = 0;  // of the arrays and strings
  std::uint64_t elements = 0, nbytes = 0, stored_nbytes = 0;
  // name and number of arrays, sorted by name
  std::vector<std::pair<std::string, std::uint64_t>> dtypes;
};
Summary summarize(const Checkpoint& checkpoint);

// ---- showing to people ----

// Text from a file made safe to show. Control characters, which could drive a terminal, and bytes
// that are not UTF-8 become \xNN. Characters that show nothing, or change the order of others
// (bidirectional marks, line separators, zero-width characters), become \uNNNN or \UNNNNNNNN. The
// result is printable text of one line; escaping it again changes nothing.
std::string printable(std::string_view text);
// The same for a JSON document, which keeps its meaning: such characters inside strings become
// \uNNNN. Newlines stay.
std::string printable_json(std::string_view json);
// An array of strings, one a line, in C order; of a long one the first `most`.
std::string strings_text(std::span<const std::string> strings, std::size_t most = 1000);

enum class Paint : std::uint8_t { kPlain, kAnsi };  // kAnsi: with colour escapes

enum class TreeNotes : std::uint8_t {
  kNone,
  kShardings,  // below each array that was sharded: how, and which device held what
};

// The pytree, drawn with box characters: one line a node, and its notes. Of a checkpoint that knows
// its program's objects, those; if they cannot be read the first line says why, and the keys are
// drawn.
std::string render_tree(const Checkpoint& checkpoint, Paint paint = Paint::kPlain,
                        TreeNotes notes = TreeNotes::kNone);

// A stored sharding in one line: "NamedSharding(x=4,y=2; P('x', None))",
// "SingleDeviceSharding(cpu:0)"; "" for none; the text itself if it is neither.
std::string sharding_text(std::string_view json);

// A readable preview of an array, as NumPy prints one; long ones are summarised.
std::string preview(const ArrayView& array, std::size_t max_items = 1000);
// The same for a slice of a stored tensor; of a long one only the elements shown are read.
std::string preview(const Checkpoint& checkpoint, std::size_t index, const SliceSpec& slice,
                    std::size_t max_items = 1000);

// ---- showing to programs: JSON texts, documented in docs/cli.md, ending in a newline ----

std::string tensors_json(const Checkpoint& checkpoint, std::span<const std::size_t> indices);
std::string info_json(const Checkpoint& checkpoint);
// strict: notes count as damage
std::string verify_json(const VerifyReport& report, bool strict = false);
// of verify_steps
std::string verify_json(const std::vector<VerifyReport>& steps, bool strict = false);

// ---- bytes of one leaf ----

using SinkFn = std::function<void(ByteView)>;

// The elements of `box` as C-order, little-endian bytes, in consecutive pieces of whole elements,
// about `memory` at most.
void stream_box(const Checkpoint& checkpoint, std::size_t index, const Box& box,
                std::uint64_t memory, const SinkFn& sink);

enum class LeafEncoding : std::uint8_t { kRaw, kNpy };
struct ExportOptions {
  LeafEncoding encoding = LeafEncoding::kRaw;
  std::optional<std::string> slice;                // as parse_slice takes it
  std::uint64_t memory = std::uint64_t{1} << 28U;  // bytes of a piece
};
// One leaf, sliced: raw bytes or a .npy file. A string is its UTF-8 bytes and cannot be npy.
void export_leaf(const Checkpoint& checkpoint, std::size_t index, const ExportOptions& options,
                 const SinkFn& sink);
// To a file, which appears whole or not at all. An existing regular file is replaced. Anything else
// there (a device, a pipe, a link) is already_exists, and so is a file of the checkpoint. Returns
// the file's size.
std::uint64_t export_leaf(const Checkpoint& checkpoint, std::size_t index,
                          const ExportOptions& options, const std::string& path);

// ---- statistics ----

struct TensorStats {
  std::string name;
  std::optional<std::string> item;
  std::string dtype_name;
  Shape shape;
  std::uint64_t count = 0, zeros = 0, nans = 0, infs = 0;
  std::optional<double> min, max, mean, stddev;  // over the finite values; none if there are none
  // 16 equal bins from min to max, of the finite values
  std::vector<std::uint64_t> histogram;
};
// Streams over one tensor in bounded memory. Complex numbers count by absolute value; everything is
// computed in float64.
TensorStats tensor_stats(const Checkpoint& checkpoint, std::size_t index, std::uint64_t memory);
std::string stats_json(std::span<const TensorStats> stats);

// ---- verifying ----

// Opens and verifies. Damage that keeps the checkpoint or an item of it from being opened is a
// finding too; everything else that open throws passes through. Of a step root it is one step that
// is verified, which the report names. Several processes each read their share of the bytes, and
// all get the report of one process.
VerifyReport verify(const std::string& path, const OpenOptions& options = {},
                    const ProgressFn& progress = {},
                    const MultiprocessingOptions& multiprocessing = {});

// The same for every step of an Orbax step root or a TensorFlow folder, by their numbers. A step
// that is not finished, or cannot be opened for another reason than damage, is one that was not
// checked. Throws invalid_argument for what is not such a folder.
std::vector<VerifyReport> verify_steps(const std::string& path, const OpenOptions& options = {},
                                       const ProgressFn& progress = {},
                                       const MultiprocessingOptions& multiprocessing = {});

// ---- raw structures ----

// Which bytes of which file; no length = the whole file.
struct DumpRange {
  std::string file;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
};
// What the bytes are, as pretty JSON, recognised by looking: an OCDBT manifest, B+tree node or
// version-tree node, a safetensors or .npy header, a msgpack document, a JSON file; of a directory,
// its manifest.ocdbt. For debugging: the fields are those of the format pages and may change.
std::string dump(const DumpRange& range);
// The index of a Zarr v3 shard of `chunks` inner chunks, at the end of the bytes.
std::string dump_shard_index(const DumpRange& range, std::uint64_t chunks);

}  // namespace cairn
