// tools.h -- the work behind the command line, as functions: inspect, stats, diff, verify, convert, dump.
#pragma once

#include <cairn/compression.h>
#include <cairn/distributed.h>
#include <cairn/formats.h>
#include <cairn/reader.h>
#include <cairn/sharding.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

// ---- choosing ----

// Shell-style matching of parameter names: '*' any run, '?' one character, [abc] and [!abc]; '.' is not special.
bool glob_match(std::string_view pattern, std::string_view text);

// Indices of the tensors that match one of `include` (empty: all) and none of `exclude`, in the checkpoint's order. Where
// there are several items, "item/name" is matched as well as the name.
std::vector<std::size_t> select_tensors(const Checkpoint& checkpoint, std::span<const std::string> include,
                                        std::span<const std::string> exclude = {});

// "0:8, :, 3" or "..., 0": NumPy basic slicing without steps; negative indices count from the end; missing dimensions are
// whole. An integer keeps its dimension out of `shape`. Throws invalid_argument or out_of_range naming the dimension.
struct SliceSpec {
  Box box;
  Shape shape;  // of the result, integer-indexed dimensions dropped
};
SliceSpec parse_slice(std::string_view text, std::span<const std::int64_t> shape);

// ---- counting ----

// What all leaves come to. Of those that cannot be read the size is not known.
struct Summary {
  std::uint64_t leaves = 0, arrays = 0, strings = 0, empty = 0;  // empty: nodes without children, and placeholders
  std::uint64_t unreadable = 0;                                  // of the arrays and strings
  std::uint64_t elements = 0, nbytes = 0, stored_nbytes = 0;
  std::vector<std::pair<std::string, std::uint64_t>> dtypes;  // name and number of arrays, sorted by name
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

// The pytree, drawn with box characters: one line a node, and its notes. Of a checkpoint that knows its program's objects, those; if
// they cannot be read the first line says why, and the keys are drawn.
std::string draw_tree(const Checkpoint& checkpoint, Paint paint = Paint::kPlain, TreeNotes notes = TreeNotes::kNone);

// A stored sharding in one line: "NamedSharding(x=4,y=2; P('x', None))", "SingleDeviceSharding(cpu:0)"; "" for none; the text
// itself if it is neither.
std::string sharding_text(std::string_view json);

// A readable preview of an array, as NumPy prints one; long ones are summarised.
std::string preview(const ArrayView& array, std::size_t max_items = 1000);
// The same for a slice of a stored tensor; of a long one only the elements shown are read.
std::string preview(const Checkpoint& checkpoint, std::size_t index, const SliceSpec& slice, std::size_t max_items = 1000);

// ---- showing to programs: JSON texts, documented in docs/cli.md, ending in a newline ----

std::string tensors_json(const Checkpoint& checkpoint, std::span<const std::size_t> indices);
std::string info_json(const Checkpoint& checkpoint);
std::string verify_json(const VerifyReport& report, bool strict = false);              // strict: notes count as damage
std::string verify_json(const std::vector<VerifyReport>& steps, bool strict = false);  // of verify_steps

// ---- bytes of one leaf ----

using SinkFn = std::function<void(ByteView)>;

// The elements of `box` as C-order, little-endian bytes, in consecutive pieces of whole elements, about `memory` at most.
void stream_box(const Checkpoint& checkpoint, std::size_t index, const Box& box, std::uint64_t memory, const SinkFn& sink);

enum class LeafEncoding : std::uint8_t { kRaw, kNpy };
struct ExportOptions {
  LeafEncoding encoding = LeafEncoding::kRaw;
  std::optional<std::string> slice;                // as parse_slice takes it
  std::uint64_t memory = std::uint64_t{1} << 28U;  // bytes of a piece
};
// One leaf, sliced: raw bytes or a .npy file. A string is its UTF-8 bytes and cannot be npy.
void export_leaf(const Checkpoint& checkpoint, std::size_t index, const ExportOptions& options, const SinkFn& sink);
// To a file, which appears whole or not at all. An existing regular file is replaced. Anything else
// there (a device, a pipe, a link) is already_exists, and so is a file of the checkpoint. Returns
// the file's size.
std::uint64_t export_leaf(const Checkpoint& checkpoint, std::size_t index, const ExportOptions& options, const std::string& path);

// ---- statistics ----

struct TensorStats {
  std::string name;
  std::optional<std::string> item;
  std::string dtype_name;
  Shape shape;
  std::uint64_t count = 0, zeros = 0, nans = 0, infs = 0;
  std::optional<double> min, max, mean, stddev;  // over the finite values; none if there are none
  std::vector<std::uint64_t> histogram;          // 16 equal bins from min to max, of the finite values
};
// Streams over one tensor in bounded memory. Complex numbers count by absolute value; everything is computed in float64.
TensorStats tensor_stats(const Checkpoint& checkpoint, std::size_t index, std::uint64_t memory);
std::string stats_json(std::span<const TensorStats> stats);

// ---- comparing ----

struct DiffOptions {
  // Globs over names; include empty = all.
  std::vector<std::string> include = {}, exclude = {};
  // Values are equal if |a - b| <= atol + rtol * |b|, in float64, and NaN equals NaN. Both 0: equal is the same bits.
  double rtol = 0, atol = 0;
  bool ignore_dtype = false;  // compare arrays of different types as numbers: integers exactly if 64 bits hold both, else as float64
  bool strict = false;        // another kind ("np.ndarray" for "jax.Array") is a difference, too
  std::uint64_t memory = std::uint64_t{1} << 28U;  // bytes of both sides that are held at once
  ProgressFn progress = {};
  // Several processes that see the same checkpoints: each compares its share of the bytes, and all get the report of one process.
  MultiprocessingOptions multiprocessing = {};
};

// How the values of two arrays of one shape differ. NaN and infinities are counted among the elements that differ.
struct ValueDiff {
  std::uint64_t different = 0;  // elements
  std::uint64_t bits_only = 0;  // of these: equal as numbers (0.0 and -0.0), or both NaN
  std::uint64_t within = 0;     // elements that are other numbers, but within the tolerance
  std::uint64_t nans_a = 0, nans_b = 0, infs_a = 0, infs_b = 0;
  std::uint64_t nan_mismatches = 0, inf_mismatches = 0;  // NaN in one alone; infinite in one alone, or of other signs
  std::optional<double> max_abs_error, max_rel_error;    // over finite numbers; the relative one where b is not 0
  std::optional<std::uint64_t> first;                    // the first element that differs, counted in C order
  [[nodiscard]] bool any() const { return different + within > 0; }
};

enum class LeafState : std::uint8_t { kSame, kDifferent, kOnlyInA, kOnlyInB, kUnreadable };
// One side of a leaf.
struct DiffSide {
  std::string kind, dtype_name;
  Shape shape;
  std::string random_key_impl;  // of a typed PRNG key
  std::string text;             // of a string that differs
  std::string error;            // why it cannot be read; "" if it can
};
struct LeafDiff {
  std::string name;
  std::optional<std::string> item;
  LeafState state = LeafState::kSame;
  DiffSide a, b;                     // empty where the leaf is not there
  std::vector<std::string> differs;  // "kind", "dtype", "shape", "random_key", "values"
  std::vector<std::string> noted;    // the same words: what differs, but does not count
  std::optional<ValueDiff> values;   // if they were compared and are not all equal
};
struct DiffReport {
  std::vector<LeafDiff> leaves;  // those that are not the same, and those with something noted; in A's order, then B's
  std::uint64_t same = 0, different = 0, only_in_a = 0, only_in_b = 0, unreadable = 0;
  std::uint64_t bytes = 0;  // of values compared, of both sides
  [[nodiscard]] bool equal() const { return different + only_in_a + only_in_b + unreadable == 0; }
};
// Compares leaves of the same name (and item, where there are several) in bounded memory. What cannot be read is
// reported, and the others are compared all the same.
DiffReport diff(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options = {});
std::string diff_json(const DiffReport& report);
// Where an element is, given its number in C order.
Shape element_index(std::span<const std::int64_t> shape, std::uint64_t element);

// ---- verifying ----

// Opens and verifies. Damage that keeps the checkpoint or an item of it from being opened is a finding too; everything else that
// open throws passes through. Of a step root it is one step that is verified, which the report names. Several processes each read
// their share of the bytes, and all get the report of one process.
VerifyReport verify(const std::string& path, const OpenOptions& options = {}, const ProgressFn& progress = {},
                    const MultiprocessingOptions& multiprocessing = {});

// The same for every step of an Orbax step root or a TensorFlow folder, by their numbers. A step that is not finished, or cannot be
// opened for another reason than damage, is one that was not checked. Throws invalid_argument for what is not such a folder.
std::vector<VerifyReport> verify_steps(const std::string& path, const OpenOptions& options = {}, const ProgressFn& progress = {},
                                       const MultiprocessingOptions& multiprocessing = {});

// ---- transforming ----

struct TransformReport {
  std::vector<std::pair<std::string, std::string>> made;  // key, and what it is made of; leaves that stay as they are left out
  std::vector<std::string> unused;                        // stored leaves that nothing is made of
  std::uint64_t read_bytes = 0;                           // of the leaves that something is made of
};
struct Transformed {
  std::unique_ptr<Checkpoint> checkpoint;
  TransformReport report;
};
// The checkpoint that rules (JSON, docs/transforms.md) make of another: renamed, dropped, cast, turned, joined and cut leaves, and sums
// with low-rank products. Lazy: a box of it that is read reads the boxes that it is made of, with at most about `memory` bytes in between.
// Throws invalid_argument that names the rule by its JSON pointer.
Transformed transform(std::shared_ptr<const Checkpoint> source, std::string_view rules, std::uint64_t memory = std::uint64_t{1} << 30U);

// The same with rules from a file.
Transformed transform_by_file(std::shared_ptr<const Checkpoint> source, const std::string& rules_path,
                              std::uint64_t memory = std::uint64_t{1} << 30U);

// ---- converting ----

// "safetensors", "npz", "msgpack", "tensorflow" (the target is a prefix), "orbax" (OCDBT and Zarr v2), "orbax-zarr3" (OCDBT and Zarr v3),
// "orbax-files" (a folder per parameter).
std::span<const std::string_view> convert_formats();

struct ConvertOptions {
  std::string format;                         // one of convert_formats(); "" = by the target's extension
  std::vector<std::string> include, exclude;  // globs over names; include empty = all
  // Regular expressions (the syntax of Python's re) and what replaces each of their matches in a
  // name, in order: $1 is the first group, $& the whole match, $$ a dollar sign.
  std::vector<std::pair<std::string, std::string>> rename;
  std::optional<DType> dtype;     // cast every floating array, but no scalar, to this
  bool skip_unsupported = false;  // leave out what the target cannot hold, and list it
  bool replace = false;
  bool dry_run = false;                           // decide and report, but write nothing
  std::optional<std::uint64_t> max_shard_bytes;   // of safetensors files, and of TensorFlow's data files
  std::optional<MsgpackDialect> msgpack_dialect;  // of msgpack files; none: kFlaxState, which flax restores into any state
  // Of TensorFlow checkpoints. Leaves get keys and objects that tf.train.Checkpoint(**tree) restores, or keep those that they have if the
  // source is one of TensorFlow, too; plain_names: keys are names as they are, without objects, as tf.compat.v1.train.Saver restores them.
  bool plain_names = false;
  // As tf.train.Checkpoint.save(): the folder's file `checkpoint` names this as the latest, and there is a save_counter. False: as write().
  bool name_latest = true;
  // Of Orbax checkpoints, as in SaveOptions.
  Compression compression;
  std::optional<std::int64_t> chunk_bytes;
  std::optional<std::int64_t> target_file_bytes;
  std::optional<std::string> item;
  std::uint64_t memory = std::uint64_t{1} << 30U;  // peak working memory, bytes
  ProgressFn progress;
  // Several processes that see the same source and the same target's folder, called with the same options: each reads and writes
  // its share of the bytes. Files are those of one process; an Orbax checkpoint holds the same, but chunks that are larger than both a
  // process's share and 4 MiB are cut.
  MultiprocessingOptions multiprocessing;
};
struct ConvertReport {
  std::string format;
  std::vector<std::string> files;  // written
  std::uint64_t tensors = 0, bytes = 0;
  std::vector<std::pair<std::string, std::string>> skipped;  // name, why
  std::vector<std::pair<std::string, std::string>> renamed;  // from, to
  std::vector<std::string> scalars;                          // written as 0-d arrays, where the format has no scalars
  std::uint64_t cast = 0;                                    // tensors whose dtype was changed
};
// Never loses a leaf silently: one the target cannot hold is invalid_argument naming it, unless
// skip_unsupported; two leaves with one name after renaming likewise. not_found where include and
// exclude select nothing of a checkpoint that has leaves: nothing is written.
ConvertReport convert(const Checkpoint& source, const std::string& target, const ConvertOptions& options);
std::string convert_json(const ConvertReport& report);

// ---- resharding ----

struct ReshardOptions {
  // The devices that will read it. None: arrays keep their shardings, and only chunks are cut anew.
  std::optional<Mesh> mesh;
  // Globs over names, and how arrays of such names are split over the mesh; the first that matches counts. Device arrays (jax.Array) that
  // none matches are replicated; host arrays stay what they are.
  std::vector<std::pair<std::string, PartitionSpec>> specs;
  std::optional<std::int64_t> chunk_bytes;  // no chunk is larger; it divides what a device reads
  std::string format;                       // an Orbax one of convert_formats(); "": as the source is stored, if it is one of Orbax
  Compression compression;
  std::optional<std::int64_t> target_file_bytes;
  std::optional<std::string> item;
  bool replace = false;
  bool dry_run = false;                            // decide and report, but write nothing
  std::uint64_t memory = std::uint64_t{1} << 30U;  // peak working memory, bytes
  ProgressFn progress;
  MultiprocessingOptions multiprocessing;  // as in ConvertOptions
};
struct ReshardReport {
  struct Leaf {
    std::string name;
    std::string dtype;
    Shape shape;
    Shape box;             // what a device reads: chunks divide it
    std::string sharding;  // for people; "" if it has none
  };
  ConvertReport written;
  std::vector<Leaf> arrays;        // that are not scalars
  std::uint64_t device_bytes = 0;  // that each device of the mesh reads of them; without a mesh 0
};
// Writes the checkpoint again, stored in the boxes that devices of another topology will read, with the shardings that say
// so; values, tree and metadata stay. Throws invalid_argument for options that ask for nothing, a mesh or spec that is unsound or
// does not divide an array (naming it), a glob that matches no array, and what convert refuses.
ReshardReport reshard(const Checkpoint& source, const std::string& target, const ReshardOptions& options);
std::string reshard_json(const ReshardReport& report);

// ---- cleaning ----

enum class CleanMode : std::uint8_t { kShow, kRemove };
enum class CleanOutcome : std::uint8_t {
  kRemoved,
  kRestored,  // it was complete and its target was not there: it has the target's name now (kShow: if it verifies)
  kInUse,     // a save is under way, so it was left alone
  kRefused,   // left alone: it holds something that is not a checkpoint's, or cannot be removed
};
struct CleanedPath {
  std::string path;
  std::uint64_t bytes = 0;
  CleanOutcome outcome = CleanOutcome::kRemoved;  // with kShow: what would come of it
  std::string why;                                // kInUse, kRefused
};
// Removes what interrupted saves have left in a directory of checkpoints (its steps and their items
// included) and beside it: temporary directories of Orbax and of Cairn, and Cairn's temporary files.
// Puts into place what only lacks its name: a checkpoint that was set aside while it was being
// replaced, a temporary directory, or the index of a set of files, that is committed and verifies.
// Symbolic links are not followed. Saves of Cairn that are under way are noticed; those of Orbax are
// not. not_found if there is neither the directory nor a leftover of it.
std::vector<CleanedPath> clean(const std::string& path, CleanMode mode = CleanMode::kRemove);
std::string clean_json(const std::vector<CleanedPath>& cleaned);

// ---- compacting ----

// Data files that nothing refers to: leftovers of crashes, or of a writer that is at work.
enum class OrphanFiles : std::uint8_t { kKeep, kRemove };
struct CompactedDatabase {
  std::string path;
  std::uint64_t keys = 0;
  std::uint64_t files_before = 0, bytes_before = 0, files_after = 0, bytes_after = 0;
};
// Rewrites the OCDBT databases of a checkpoint (of options.item, or of all items) into few files that hold the newest
// version alone; each appears whole or stays as it was. Older versions are gone, also for who has them open.
std::vector<CompactedDatabase> compact(const std::string& path, const OpenOptions& options = {}, OrphanFiles orphans = OrphanFiles::kKeep);
std::string compact_json(const std::vector<CompactedDatabase>& databases);

// ---- measuring ----

struct BenchOptions {
  std::uint64_t size = std::uint64_t{1} << 30U;  // bytes of the tree, and of the files beside it; needs twice as much memory
  ProgressFn progress;
};
struct BenchFigure {
  std::string name;
  std::uint64_t bytes = 0;
  double seconds = 0;
};
struct BenchReport {
  std::string folder;  // that was measured
  std::string file_system;
  std::uint64_t free_bytes = 0;  // before
  std::size_t threads = 0;
  std::uint64_t size = 0;
  std::string why_buffered;  // why saves there go through the page cache; "": they go past it (O_DIRECT)
  std::vector<BenchFigure> machine, cairn;
};
// What the storage can do and what Cairn does on it. `folder` must not exist: it is made, and removed however this ends. io if
// there is not enough space, unavailable if there is not enough memory, before anything is written.
BenchReport bench(const std::string& folder, const BenchOptions& options = {});
std::string bench_json(const BenchReport& report);

// ---- raw structures ----

// Which bytes of which file; no length = the whole file.
struct DumpRange {
  std::string file;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
};
// What the bytes are, as pretty JSON, recognised by looking: an OCDBT manifest, B+tree node or version-tree node, a
// safetensors or .npy header, a msgpack document, a JSON file; of a directory, its manifest.ocdbt. For debugging: the
// fields are those of the format pages and may change.
std::string dump(const DumpRange& range);
// The index of a Zarr v3 shard of `chunks` inner chunks, at the end of the bytes.
std::string dump_shard_index(const DumpRange& range, std::uint64_t chunks);

}  // namespace cairn
