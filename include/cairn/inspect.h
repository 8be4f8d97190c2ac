// inspect.h -- inspects a checkpoint: select tensors, summarise, render for people, print as JSON,
// export, compute statistics, draw a page, verify.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// ---- choosing ----

// Whether `text` matches a shell-style pattern: '*' matches any string, '?' one character, [abc]
// one of these and [!abc] any other. '.' has no special meaning.
bool glob_match(std::string_view pattern, std::string_view text);

// Indices of the tensors that match a glob of `include` (empty: all) and none of `exclude`, in the
// checkpoint's order. A '/' of a glob also matches '.', unless the glob is exactly the name of a
// leaf. If there are several items, "item/" may come before it. Every name, also in the escaped
// form of printable_text(), matches itself, whatever characters it has.
std::vector<std::size_t> select_tensors(const Checkpoint& checkpoint,
                                        std::span<const std::string> include,
                                        std::span<const std::string> exclude = {});

// A slice of an array, as parse_slice returns it.
struct SliceSpec {
  Box box;      // elements of the slice
  Shape shape;  // shape of the result, without the integer-indexed dimensions
};
// Parses NumPy basic slicing without steps: "0:8, :, 3" or "..., 0". Negative indices count from
// the end, and missing dimensions are whole. An integer index removes its dimension from
// SliceSpec::shape. Throws invalid_argument or out_of_range, naming the dimension.
SliceSpec parse_slice(std::string_view text, std::span<const std::int64_t> shape);

// ---- steps and items ----

// The numbers of all steps of an Orbax step root, or of the checkpoints in a TensorFlow folder,
// finished or not, ascending. Empty for anything else. Throws not_found if nothing is there.
// `path` may be a URL, which `store` says how to reach.
std::vector<std::int64_t> step_numbers(const std::string& path, const StoreOptions& store = {});

// The text of a JSON item of an Orbax checkpoint ("config", "metrics"), as stored. Returns nullopt
// if the checkpoint has no item of this name that consists of JSON. Throws data_loss if the file is
// not JSON.
std::optional<std::string> read_json_item(const Checkpoint& checkpoint, std::string_view name);
// The same for an item that is the text of a protocol buffer. The text is not parsed.
std::optional<std::string> read_proto_item(const Checkpoint& checkpoint, std::string_view name);

// ---- counting ----

// Counts over all leaves of a checkpoint. A leaf of unknown size counts 0 elements and 0 bytes.
struct Summary {
  // `empty` counts nodes without children and placeholders.
  std::uint64_t leaves = 0, arrays = 0, strings = 0, empty = 0;
  std::uint64_t custom = 0;      // leaves of type handlers that Cairn does not have
  std::uint64_t unreadable = 0;  // arrays and strings that cannot be read
  // Elements of the readable arrays; bytes of all leaves in memory and in the store. Sums of more
  // than 64 bits are the largest number.
  std::uint64_t elements = 0, nbytes = 0, stored_nbytes = 0;
  // (dtype name, number of arrays), sorted by name
  std::vector<std::pair<std::string, std::uint64_t>> dtypes;
};
// Counts the leaves of a checkpoint, from metadata only.
Summary summarize(const Checkpoint& checkpoint);

// Sums over leaves. A leaf of unknown size counts 0 elements and 0 bytes.
struct UsageCounts {
  std::uint64_t leaves = 0;
  std::uint64_t elements = 0;                   // of the readable arrays
  std::uint64_t nbytes = 0, stored_nbytes = 0;  // of all leaves, in memory and in the store
};
// A module: all leaves below one name. Sorted by bytes, the largest first.
struct UsageNode {
  std::string name;  // one component of the names; "" for the whole checkpoint
  UsageCounts counts;
  std::vector<UsageNode> children;
};
// Where the bytes of a checkpoint are.
struct Usage {
  UsageNode total;                // the modules
  std::vector<UsageNode> dtypes;  // the readable arrays by element type, without children
  // Every leaf is in one of the two. A leaf belongs to the optimizer if a component of its name, or
  // its item, is opt_state, optimizer, optimizer_state, optimizer_states, opt, mu, nu, exp_avg,
  // exp_avg_sq or .OPTIMIZER_SLOT.
  UsageCounts parameters, optimizer;
  std::uint64_t unreadable = 0;  // leaves that cannot be read
};
// Sums the given tensors, from metadata only. Modules are the components of the names: the item,
// the keys of the path, and the parts of a key between '.' or '/'. They have at most `depth`
// levels, and at most 64.
Usage usage(const Checkpoint& checkpoint, std::span<const std::size_t> indices, std::size_t depth);
// The sums as JSON text (docs/reference/json.md).
std::string usage_json(const Usage& usage);

// ---- showing to people ----

// Escapes text from a file so that it is safe to show. Control characters, which could drive a
// terminal, and bytes that are not UTF-8 become \xNN. Invisible characters and characters that
// change the order of others (bidirectional marks, line separators, zero-width characters) become
// \uNNNN or \UNNNNNNNN. The result is one line of printable text; escaping it again changes
// nothing.
std::string printable_text(std::string_view text);
// The same for a JSON document, which keeps its meaning: such characters inside strings become
// \uNNNN. Newlines stay.
std::string printable_json(std::string_view json);
// An array of strings, one per line, in C order; at most the first `most` strings.
std::string strings_text(std::span<const std::string> strings, std::size_t most = 1000);

// "; did you mean 'a', 'b'?" with up to three of the words that are like `wanted`; "" if none is.
std::string did_you_mean(std::string_view wanted, std::span<const std::string> words);
// The element type of this name. Throws invalid_argument for any other name, and suggests one for
// the names of other programs ("bf16", "F32", "half").
DType parse_dtype(std::string_view name);

// Whether the output has colour. kAnsi: with ANSI colour escapes.
enum class Paint : std::uint8_t { kPlain, kAnsi };

// Notes that render_tree adds.
enum class TreeNotes : std::uint8_t {
  kNone,
  kShardings,  // below each sharded array: how it was sharded, and which device held which part
};

// What render_tree and tree_json show, and how.
struct TreeStyle {
  Paint paint = Paint::kPlain;
  TreeNotes notes = TreeNotes::kNone;
  // Levels to show; nodes below are counted. A flat name counts as the parts between its '.' or
  // '/'. None: all.
  std::optional<std::size_t> depth = {};
  // Shows one of four or more siblings that differ only in the numbers of their names: [0-31].
  bool collapse = false;
  std::size_t width = SIZE_MAX;  // columns of a line; longer names are folded
  // Indices of the leaves to show, by their paths. None: all, or the program's objects.
  std::optional<std::vector<std::size_t>> leaves = {};
};
// The pytree drawn with box characters: one line per node, then its notes. For a checkpoint that
// knows its program's objects (TensorFlow), draws the objects instead; if these cannot be read, the
// first line gives the reason, and the keys are drawn.
std::string render_tree(const Checkpoint& checkpoint, const TreeStyle& style);
std::string render_tree(const Checkpoint& checkpoint, Paint paint = Paint::kPlain,
                        TreeNotes notes = TreeNotes::kNone);
// The pytree as JSON text (docs/reference/json.md), with the depth and the leaves of `style`.
std::string tree_json(const Checkpoint& checkpoint, const TreeStyle& style = {});

// The pieces of a text of at most `width` columns each, one column a character. Breaks after a
// space or a separator of names and paths where there is one.
std::vector<std::string_view> fold_pieces(std::string_view text, std::size_t width);
// The number of columns that UTF-8 text occupies, at one column a character.
std::size_t display_width(std::string_view text);

// A stored sharding in one line: "NamedSharding(x=4,y=2; P('x', None))",
// "SingleDeviceSharding(cpu:0)". "" for ""; any other text is returned unchanged.
std::string sharding_text(std::string_view json);

// A readable preview of an array in NumPy's style. Arrays of more than `max_items` elements are
// summarised.
std::string preview_array(const ArrayView& array, std::size_t max_items = 1000);
// The same for a slice of a stored tensor. For a summarised slice, only the elements shown are
// read.
std::string preview_tensor(const Checkpoint& checkpoint, std::size_t index, const SliceSpec& slice,
                           std::size_t max_items = 1000);

// ---- showing to programs: JSON that ends in a newline (docs/reference/json.md) ----

// Receives a text in consecutive pieces of whole lines. A piece is valid during the call only.
using TextSinkFn = std::function<void(std::string_view)>;

// The given tensors. The first form passes the text to `sink`, one tensor at a time, so that it
// takes no memory for the whole text.
void tensors_json(const Checkpoint& checkpoint, std::span<const std::size_t> indices,
                  const TextSinkFn& sink);
std::string tensors_json(const Checkpoint& checkpoint, std::span<const std::size_t> indices);
// The given tensors as CSV (RFC 4180) with a header line. Text is escaped as by printable_text.
std::string tensors_csv(const Checkpoint& checkpoint, std::span<const std::size_t> indices);
// CheckpointInfo and the Summary of a checkpoint.
std::string info_json(const Checkpoint& checkpoint);
// A report of verify(). With `strict`, notes count as damage.
std::string verify_json(const VerifyReport& report, bool strict = false);
// The reports of verify_steps() or verify_all().
std::string verify_json(const std::vector<VerifyReport>& steps, bool strict = false);

// ---- bytes of one leaf ----

// Receives consecutive pieces of a byte stream; a piece is valid during the call only.
using SinkFn = std::function<void(ByteView)>;

// Passes the elements of `box` to `sink` as C-order, little-endian bytes, in consecutive pieces of
// whole elements. Holds about `memory` bytes at most.
void stream_box(const Checkpoint& checkpoint, std::size_t index, const Box& box,
                std::uint64_t memory, const SinkFn& sink);

// Encoding of an exported leaf: raw bytes, or a .npy file.
enum class LeafEncoding : std::uint8_t { kRaw, kNpy };
// Options of export_leaf.
struct ExportOptions {
  LeafEncoding encoding = LeafEncoding::kRaw;      // raw bytes or .npy
  std::optional<std::string> slice = {};           // as parse_slice takes it; none: the whole leaf
  std::uint64_t memory = std::uint64_t{1} << 30U;  // bytes per piece
  StoreOptions store = {};                         // how to reach the store, if the path is a URL
  ProgressFn progress = {};
};
// Passes one leaf, or a slice of it, to `sink`. A string is exported as its UTF-8 bytes. Throws
// invalid_argument for a leaf without data, for an array of strings, and for a string that is to be
// sliced or written as .npy; unimplemented for an element type that .npy cannot hold; data_loss for
// a leaf whose metadata is damaged.
void export_leaf(const Checkpoint& checkpoint, std::size_t index, const ExportOptions& options,
                 const SinkFn& sink);
// As above, to a file, which appears complete or not at all: a path, or a URL of a bucket. Replaces
// an existing regular file. Throws already_exists if the path is anything else (a device, a pipe, a
// link, a folder) or a file of the checkpoint. Returns the file's size in bytes.
std::uint64_t export_leaf(const Checkpoint& checkpoint, std::size_t index,
                          const ExportOptions& options, const std::string& path);

// ---- statistics ----

// Statistics of the elements of one array.
struct TensorStats {
  std::optional<std::int64_t> step = {};  // set by a program that shows several steps
  std::string name;
  std::optional<std::string> item;  // as in TensorInfo
  std::string dtype_name;
  Shape shape;
  std::uint64_t count = 0, zeros = 0, nans = 0, infs = 0;  // numbers of elements
  std::optional<double> min, max, mean, stddev;  // over the finite values; none if there are none
  // Counts of the finite values in 16 equal bins from min to max.
  std::vector<std::uint64_t> histogram;
};
// Reads one array in pieces and computes its statistics in float64. Complex numbers count by
// absolute value. Throws invalid_argument for a leaf that is not an array of
// interpreted elements, data_loss for a leaf whose metadata is damaged.
TensorStats tensor_stats(const Checkpoint& checkpoint, std::size_t index,
                         const Resources& resources = {});
// The statistics as JSON text (docs/reference/json.md).
std::string stats_json(std::span<const TensorStats> stats);

// ---- a page to look at ----

// Options of write_html_report().
struct HtmlReportOptions {
  std::vector<std::string> include = {}, exclude = {};  // globs over names; empty include: all
  // Read all values, and show statistics and a histogram of each array.
  bool values = true;
  bool verify = true;  // read all stored bytes, and show the result of Checkpoint::verify()
  // Show how this checkpoint (B) differs from the one of the page (A), as diff() without a
  // tolerance says. Null: nothing is compared.
  std::shared_ptr<const Checkpoint> other = {};
  // The path by which the checkpoint was opened; "": CheckpointInfo::path. Its last part is the
  // heading of the page.
  std::string opened_path = {};
  // Also show statistics over so many complete steps, the last ones of the directory of steps
  // `opened_path` (read_steps()); at most 100. 0: none.
  std::size_t steps = 0;
  OpenOptions open = {};                 // how the steps are opened; `step` does not count
  IfExists if_exists = IfExists::kFail;  // what to do if the file exists
  Resources resources = {};              // memory: bytes held at once
  StoreOptions store = {};               // how to reach the store, if the file is at a URL
  ProgressFn progress = {};
  // A request to stop ends the call soon, with the error cancelled. No file appears.
  std::stop_token cancel = {};
};
// The result of write_html_report().
struct HtmlReport {
  std::uint64_t bytes = 0;    // size of the file
  std::uint64_t tensors = 0;  // leaves listed in the page
  // Leaves that the globs select, but that the page does not list: it lists 20,000, the largest.
  std::uint64_t unlisted = 0;
  std::uint64_t unreadable = 0;            // arrays whose values cannot be read
  std::optional<VerifyReport> verified;    // none without HtmlReportOptions::verify
  std::optional<std::uint64_t> different;  // leaves that differ from `other`, or are in one only
};
// Writes one HTML file that shows the checkpoint in a browser: bytes by module, a table of the
// leaves with statistics, chunks and shards, damage, differences, curves over steps. The file has
// everything in it: it loads nothing, and nothing in it can run what a name of the checkpoint says.
// `path` may be a URL of a bucket. The file appears complete or not at all.
//
// Damage is no error: the page names what cannot be read. Throws already_exists if the file exists
// and may not be replaced, or is not a regular file; invalid_argument for a file within the
// checkpoint, for globs that select nothing of a checkpoint with leaves, and for wrong steps; else
// as diff() and read_steps().
HtmlReport write_html_report(const Checkpoint& checkpoint, const std::string& path,
                             const HtmlReportOptions& options = {});
// The result as JSON text (docs/reference/json.md). `path`: of the file.
std::string html_report_json(const HtmlReport& report, const std::string& path);

// ---- verifying ----

// Options of verify() and verify_steps().
struct VerifyOptions {
  OpenOptions open = {};  // how the checkpoint is opened; its resources are those of the check
  ProgressFn progress = {};
  // Several processes each read their share of the bytes, and all return the report of a single
  // process.
  MultiprocessingOptions multiprocessing = {};
};
// Opens and verifies a checkpoint. Damage that prevents the opening of the checkpoint, or of one of
// its items, is a finding in the report. All other errors of cairn::open are thrown. For a step
// root, one step is verified, and the report names it.
VerifyReport verify(const std::string& path, const VerifyOptions& options = {});

// Verifies every step of an Orbax step root, by number, or every checkpoint of a folder: of
// TensorFlow, of flax, or of any formats. A checkpoint that is unfinished, or cannot be opened for
// a reason other than damage, is reported as not checked. Throws invalid_argument if
// options.open.step is set or `path` is not such a folder, and not_found if nothing is there.
std::vector<VerifyReport> verify_steps(const std::string& path, const VerifyOptions& options = {});
// Verifies each of these checkpoints. What prevents the opening of one is a finding in its report.
std::vector<VerifyReport> verify_all(std::span<const std::string> paths,
                                     const VerifyOptions& options = {});

// ---- raw structures ----

// A byte range of a file.
struct DumpRange {
  std::string file;                          // path or URL
  std::uint64_t offset = 0;                  // bytes
  std::optional<std::uint64_t> length = {};  // bytes; none: up to the end of the file
  StoreOptions store = {};                   // how to reach the store, if the file is at a URL
};
// Decodes the bytes and returns pretty-printed JSON, for debugging. The structure is recognised by
// content: an OCDBT manifest, B+tree node or version-tree node, a safetensors or .npy header, a
// msgpack document, a TensorFlow index, or a JSON file; for a directory, its manifest.ocdbt. The
// fields follow the format pages and may change. Throws out_of_range for a range outside the file,
// invalid_argument for bytes of none of these kinds.
std::string dump_file(const DumpRange& range);
// Decodes the index of a Zarr v3 shard with `chunks` inner chunks, which lies at the end of the
// bytes. Throws data_loss if the bytes are too few.
std::string dump_shard_index(const DumpRange& range, std::uint64_t chunks);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
