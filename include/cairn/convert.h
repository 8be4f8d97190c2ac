// convert.h -- writes a checkpoint in another format, with other names or types, or with chunks for
// another device mesh.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/compression.h>
#include <cairn/distributed.h>
#include <cairn/orbax/sharding.h>
#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

enum class MsgpackDialect : std::uint8_t;  // msgpack.h

// ---- memory ----

// How a program that opens a checkpoint and writes it again divides its working memory.
struct MemoryShares {
  std::uint64_t reading = 0;  // for OpenOptions::resources
  // for transform_checkpoint(), dequantize() or merge_checkpoints(), half of it for each if two are
  // used; 0 if none is
  std::uint64_t transforming = 0;
  std::uint64_t writing = 0;  // for ConvertOptions::resources and ReshardOptions::resources
};
// The shares of `total` bytes: a quarter for reading and a half for the work on what was read. The
// rest is for the process itself. A total of less than 64 MiB counts as 64 MiB.
MemoryShares divide_memory(std::uint64_t total, bool transforms = false);

// ---- transforming ----

// Options of transform_checkpoint() and apply_model_map(). All but `resources` are for rules with
// two sides (docs/guides/model-maps.md).
struct TransformOptions {
  // True: from the second side to the first; false: from the first to the second. None: false for
  // rules; a model map finds out whose names the source has.
  std::optional<bool> reverse = {};
  // (name, text) of options and values that replace those of the map. The text is JSON, else a
  // string.
  std::vector<std::pair<std::string, std::string>> values = {};
  // Path of the model's config.json. Empty: beside the source, if there is one.
  std::string config = {};
  StoreOptions store = {};  // how to read config.json, if it is at a URL
  Resources resources = {};
  // A folder for files without a name. A large array whose stored chunks would be decoded again for
  // each of its parts is decoded once, into such a file; it goes when all parts are read. Nothing
  // is written there without room for it. Empty: no files, and chunks are decoded again.
  std::string scratch = {};
};
// The folder for TransformOptions::scratch of a conversion to `target`: the one that holds the
// target. For a target at a URL: $TMPDIR, else /var/tmp.
std::string scratch_folder(const std::string& target);
// A value that rules with two sides used. The first is "config": the path of config.json, or null.
struct TransformValue {
  std::string name;
  std::string text;    // as JSON
  std::string origin;  // "given" by the user, "default" of an option, or "computed"
};
// The report of transform_checkpoint().
struct TransformReport {
  // (key, what it is made of) for each leaf that the rules make; unchanged leaves are omitted.
  std::vector<std::pair<std::string, std::string>> made;
  std::vector<std::string> unused;  // stored leaves that no result uses
  std::uint64_t read_bytes = 0;     // bytes of the stored leaves that are used
  // Of rules with two sides: the sides, and the values that were used. Else empty.
  std::string from_side, to_side;
  std::vector<TransformValue> values;
};
// A transformed checkpoint and the report about it.
struct Transformed {
  std::unique_ptr<Checkpoint> checkpoint;
  TransformReport report;  // what the rules did
};
// Applies rules (JSON, docs/guides/transforms.md and docs/guides/model-maps.md) to `source`:
// rename, drop, cast, transpose, rearrange, join, cut and scale leaves, and add low-rank products.
// The result is lazy: reading a box of it reads the source boxes that it depends on, with about
// `resources.memory` bytes of intermediate results at most. The result shares `source`. Throws
// invalid_argument that names the rule by its JSON pointer; reading throws failed_precondition for
// arrays that must be equal and are not, and for rows that would be cut off and are not zero.
Transformed transform_checkpoint(std::shared_ptr<const Checkpoint> source, std::string_view rules,
                                 const TransformOptions& options = {});

// As transform_checkpoint(), with the rules from a file.
Transformed transform_checkpoint_by_file(std::shared_ptr<const Checkpoint> source,
                                         const std::string& rules_path,
                                         const TransformOptions& options = {});

// ---- model maps: names and shapes of one model in two programs (docs/guides/model-maps.md) ----

// Something that only the user knows about a model.
struct ModelMapOption {
  std::string name;
  std::vector<std::string> values;  // those that are allowed, as JSON; empty: any
  std::string default_value;        // an expression
  std::string help;
};
// What a map says about itself.
struct ModelMapInfo {
  std::string name;   // "llama", or the path of a file
  std::string title;  // for people
  std::string first_side, second_side;
  std::vector<ModelMapOption> options;
  std::vector<std::string> sources;  // where its arithmetic was read
  std::vector<std::string> tested;   // what was run
};
// The maps that are a part of Cairn, sorted by name.
std::vector<ModelMapInfo> model_maps();
// The map of that name, or in a file: `map` is a path if it has a '/' or ends with ".json". Throws
// not_found with the names that there are, and invalid_argument for a file that is not a map.
ModelMapInfo model_map(const std::string& map);

// Maps as a JSON list (docs/reference/json.md).
std::string model_maps_json(const std::vector<ModelMapInfo>& maps);

// Applies a map to `source` as transform_checkpoint() applies rules. `map` as in model_map().
// Throws invalid_argument that lists leaves which are missing, leaves that no rule takes, and
// shapes that do not fit the values of config.json.
Transformed apply_model_map(std::shared_ptr<const Checkpoint> source, const std::string& map,
                            const TransformOptions& options = {});

// ---- dequantising ----

// Options of dequantize().
struct DequantizeOptions {
  // Floating-point type of the weights. None: that of config.json (`dtype`, `torch_dtype`), else
  // bfloat16, and float32 for quantised tensors of PyTorch.
  std::optional<DType> dtype = {};
  StoreOptions store = {};   // how to read config.json, if the checkpoint is at a URL
  Resources resources = {};  // of the computations; about this memory for intermediate results
};
// The report of dequantize().
struct DequantizeReport {
  // (name, format) of each weight that is dequantised: "fp8, blocks of 128 x 128"; empty if the
  // checkpoint has nothing quantised.
  std::vector<std::pair<std::string, std::string>> dequantized;
  std::vector<std::string> dropped;  // names of the scales and other parameters that are gone
};
// A checkpoint with dequantised weights, and the report about it.
struct Dequantized {
  std::unique_ptr<Checkpoint> checkpoint;
  DequantizeReport report;  // what was dequantised
};
// Replaces the quantised weights of `source` by floating-point arrays, and leaves out their scales
// and other parameters (docs/guides/dequantize.md lists the formats). The numbers are computed in
// float32 and rounded once. The result is lazy: reading a box of it reads the codes and scales of
// that box, with about `resources.memory` bytes of intermediate results at most. It shares
// `source`. The size of blocks comes from the config.json beside the files, else from the shapes.
// Other leaves stay as they are. Throws, naming the leaf: invalid_argument for a weight without
// scales, scales without a weight, blocks of ambiguous size, and two leaves of one name; data_loss
// for parts that do not fit each other; unimplemented for a format that Cairn does not dequantise.
// invalid_argument for a dtype that is not floating-point.
Dequantized dequantize(std::shared_ptr<const Checkpoint> source,
                       const DequantizeOptions& options = {});

// ---- merging ----

// Options of merge_checkpoints(). They select one method; without any, the result is the mean.
// Numbers are float64, and the operations are done in the order in which they are written here.
struct MergeOptions {
  // sum of weights[i] * x[i], one weight for each checkpoint. They are used as they are: they need
  // not sum to 1. With `base`, they are its a[i]. Empty: the mean, and 1 with `base`.
  std::vector<double> weights = {};
  // Decay of a moving average in the order of the checkpoints: e = x[0], then
  // e = ema * e + (1 - ema) * x[i]. From 0 to 1.
  std::optional<double> ema = {};
  // Task arithmetic: base + sum of scale * a[i] * (x[i] - base).
  std::shared_ptr<const Checkpoint> base = {};
  std::optional<double> scale = {};  // needs `base`; none: 1
  // Leaves that are not floating-point, and differ: true takes those of the first checkpoint and
  // lists them in ConvertReport::taken_first; false: they are an error that names them.
  bool take_first = false;
  // Globs over names, as in ConvertOptions. Other leaves are not compared, and cannot be read.
  std::vector<std::string> include = {}, exclude = {};
  // Floating-point type of the merged arrays, but not of scalars and complex arrays. None: that of
  // the first checkpoint.
  std::optional<DType> dtype = {};
  Resources resources = {};  // of the computations; about this memory for intermediate results
};
// The checkpoint whose floating-point and complex leaves are merged from those of the same names in
// all `sources`. The numbers are computed in float64 and rounded once. NaN and infinities propagate
// as IEEE 754 says. Other leaves are compared here, and must be equal. The tree, the types, and
// everything beside the leaves are those of the first checkpoint. The result is lazy: reading a box
// reads that box of every source. It shares the sources. Throws invalid_argument for options that
// make no sense together; for less than two sources (one with `base`); if names, shapes or kinds of
// types do not agree, and for leaves that differ, listing the first ten; data_loss for a source
// that lacks a part (Checkpoint::check_complete). An error in reading names the leaf and the
// checkpoint. convert() refuses a target that is one of the sources.
std::unique_ptr<Checkpoint> merge_checkpoints(
    std::vector<std::shared_ptr<const Checkpoint>> sources, const MergeOptions& options = {});
// Opens the last `count` complete steps of a directory of steps (read_steps), in ascending order.
// Throws invalid_argument for less than two and for OpenOptions::step, not_found if there are not
// so many.
std::vector<std::shared_ptr<const Checkpoint>> open_last_steps(const std::string& path,
                                                               std::size_t count,
                                                               const OpenOptions& options = {});

// ---- converting ----

// What convert() can write.
enum class TargetFormat : std::uint8_t {
  kSafetensors,  // "safetensors"
  kNpz,          // "npz"
  kMsgpack,      // "msgpack"
  kTensorFlow,   // "tensorflow": the target is the prefix of the files
  kTorch,        // "torch": a file of torch.save
  kDcp,          // "dcp": a folder of torch.distributed.checkpoint
  kOrbax,        // "orbax": OCDBT and Zarr v2
  kOrbaxZarr3,   // "orbax-zarr3": OCDBT and Zarr v3
  kOrbaxFiles    // "orbax-files": one folder per parameter, Zarr v2
};
// The format's name, as in the list above.
std::string_view target_format_name(TargetFormat format);
// The format of that name. Throws invalid_argument for another name.
TargetFormat parse_target_format(std::string_view name);
// The format of the path's extension, in any case: .safetensors, .npz, .msgpack, .pt or .pth
// (PyTorch), .index (TensorFlow). Throws invalid_argument for another one.
TargetFormat target_format_of(std::string_view path);
// The format in which a program saves a tree to a path that its user has chosen: as
// target_format_of(), and kOrbax for a folder, whose name has no known extension. Throws
// invalid_argument for the extension of a file of another program (.npy, .h5, .gguf, ...), which
// Cairn does not write, and lists those that it does.
TargetFormat save_format_of(std::string_view path);

// Options of a safetensors target.
struct SafetensorsTarget {
  // Entries of __metadata__, for example {"format", "pt"}, which the loaders of Hugging Face need.
  // They are added to those of a safetensors source, and replace those of the same key.
  std::vector<std::pair<std::string, std::string>> metadata = {};
  std::optional<std::uint64_t> max_shard_bytes = {};  // size limit of a file; none: no limit
  // As SafetensorsWriteOptions::beside.
  std::vector<std::pair<std::string, std::string>> beside = {};
  bool operator==(const SafetensorsTarget&) const = default;
};
// Options of a msgpack target.
struct MsgpackTarget {
  // None: kFlaxState, which flax restores into any state.
  std::optional<MsgpackDialect> dialect = {};
  bool operator==(const MsgpackTarget&) const = default;
};
// Options of a TensorFlow target.
struct TensorFlowTarget {
  // False: leaves get keys and objects that tf.train.Checkpoint(**tree) restores; a TensorFlow
  // source keeps its own. True: the keys are the names, without objects, as
  // tf.compat.v1.train.Saver restores them.
  bool plain_names = false;
  // True: as tf.train.Checkpoint.save(): the folder's file `checkpoint` names this checkpoint as
  // the latest, and the checkpoint has a save_counter. False: as tf.train.Checkpoint.write(), with
  // neither.
  bool name_latest = true;
  std::optional<std::uint64_t> max_shard_bytes = {};  // size limit of a data file; none: no limit
  bool operator==(const TensorFlowTarget&) const = default;
};
// Options of a Distributed Checkpoint of PyTorch.
struct DcpTarget {
  // Larger tensors are cut along their first dimension. PyTorch reads a chunk as a whole, also for
  // a small part of it. None: 256 MiB.
  std::optional<std::uint64_t> chunk_bytes = {};
  bool operator==(const DcpTarget&) const = default;
};
// Options of an Orbax target, as in SaveOptions.
struct OrbaxTarget {
  Compression compression = {};
  std::optional<std::int64_t> chunk_bytes = {};
  std::optional<std::int64_t> target_file_bytes = {};  // none: the default of SaveOptions
  std::optional<std::string> item = {};
  // Items that are not pytrees are copied byte for byte. True: symbolic links in them may lead out
  // of the source checkpoint, and what they lead to is copied. False: such a link is
  // failed_precondition.
  bool follow_links = false;
  Durability durability = Durability::kSynced;
  // With kCommitMarker and IfExists::kReplace, the old checkpoint is removed before the new one is
  // written. So a target that holds a part of the source is then invalid_argument.
  CommitProtocol commit_protocol = CommitProtocol::kAtomicRename;
  bool operator==(const OrbaxTarget&) const = default;
};

// Options of convert(). An option that the target format does not have is invalid_argument.
struct ConvertOptions {
  std::optional<TargetFormat> format = {};              // none: by the target's extension
  std::vector<std::string> include = {}, exclude = {};  // globs over names; empty include: all
  // (regular expression, replacement) pairs, applied to each name in order. Syntax and meaning are
  // those of Python's re.sub: every match is replaced; \1 is the first group, \g<0> the whole
  // match. The name has its keys joined with '.'. If no name of the source has a '/', and the
  // expression changes nothing, a '/' in it and in the replacement also stands for '.'.
  std::vector<std::pair<std::string, std::string>> rename = {};
  // Called with each name after `rename` (its keys joined with '.'). Returns the new name, which
  // convert() uses unchanged. In a job of several processes, it must return the same names in all
  // of them. Null: none.
  std::function<std::string(std::string_view)> rename_fn = {};
  // Splits each key of a dict at this separator, so that flat names become a nested tree: with ".",
  // the leaf "a.b" becomes the leaf "b" of the dict "a". For formats that hold trees (Orbax,
  // msgpack and PyTorch). "": keys stay as they are.
  std::string nest = {};
  // Floating-point type to which every floating-point array is cast; scalars are not cast. None: no
  // cast.
  std::optional<DType> dtype = {};
  // Skip leaves that the target format cannot hold, and list them in the report.
  bool skip_unsupported = false;
  IfExists if_exists = IfExists::kFail;  // what to do if the target exists
  StoreOptions store = {};               // how to reach the store, if the target is a URL
  bool dry_run = false;                  // decide and report, but write nothing
  // Options of one format each. Those of other formats than the target's keep their defaults.
  SafetensorsTarget safetensors = {};
  MsgpackTarget msgpack = {};
  TensorFlowTarget tensorflow = {};
  DcpTarget dcp = {};
  OrbaxTarget orbax = {};
  Resources resources = {};
  ProgressFn progress = {};
  // Several processes convert together. All call convert() with the same options, and all see the
  // same source and the same target folder. Each reads and writes its share of the bytes. Files are
  // identical to those of a single process. An Orbax checkpoint has the same content, but chunks
  // larger than both a process's share and 4 MiB are split.
  MultiprocessingOptions multiprocessing = {};
};
// Leaves that a rule scales or shifts, and whose elements were rounded so that the way back does
// not give all of them again.
struct InexactLeaves {
  std::string rule;  // "/rules/3"
  std::string name;  // the name of its leaves on the first side, as the rule writes it
  std::uint64_t elements = 0, inexact = 0;
};
// The report of convert().
struct ConvertReport {
  TargetFormat format = {};                                  // format written
  std::vector<std::string> files;                            // paths of the files written
  std::uint64_t tensors = 0, bytes = 0;                      // number of tensors, and their bytes
  std::vector<std::pair<std::string, std::string>> skipped;  // (name, reason)
  std::vector<std::pair<std::string, std::string>> renamed;  // (old name, new name)
  // Scalars written as 0-d arrays because the format has no scalars.
  std::vector<std::string> scalars;
  std::uint64_t cast = 0;  // number of tensors whose dtype was changed
  // (name, format) of each weight written that dequantize() has made, as in DequantizeReport. None:
  // the source is not from dequantize().
  std::optional<std::vector<std::pair<std::string, std::string>>> dequantized;
  // Of rules with two sides: the values they used, the leaves of the source that they do not
  // convert, and the rules that scaled leaves without an exact way back.
  std::vector<TransformValue> values;
  std::vector<std::string> unused;
  std::vector<InexactLeaves> inexact;
  // Names of the leaves written that differ between merged checkpoints, so that they are those of
  // the first one (MergeOptions::take_first). None: the source is not from merge_checkpoints().
  std::optional<std::vector<std::string>> taken_first;
  // Items of the Orbax checkpoint written, if it keeps the items of its source.
  std::vector<std::string> items;
  // (item or file of the source, reason) for everything beside the leaves that the options select,
  // but that the target cannot hold or the source lacks
  std::vector<std::pair<std::string, std::string>> left_out;
  // The decision of Compression::kAuto for the bytes that this process wrote. Empty for other
  // methods and formats.
  CompressionReport compression;
};
// Writes `source` to `target`, a path or a URL of a bucket. No leaf is lost silently. Throws
// invalid_argument, naming the leaf, if the target cannot hold a leaf (unless skip_unsupported is
// set), if it can hold none of the selected leaves, if two leaves have the same name after
// renaming, or if a name would be a leaf and a container of leaves. Throws not_found, before
// anything is written, if include and exclude select nothing of a checkpoint that has leaves.
// Throws already_exists as IfExists says.
//
// Items of an Orbax checkpoint that was opened without OpenOptions::item: an Orbax target gets the
// same items. Pytrees are written as `options` says; all other items are copied byte for byte, if
// include and exclude select their names. Another format gets one tree: the names of several
// pytrees begin with the item's name and a dot, and other items are left out (report.left_out).
// orbax.item renames the only pytree; it is invalid_argument if there are several. An item that
// cannot be read is data_loss, unless `exclude` names it. So is a part that is missing
// (Checkpoint::check_complete); with OpenOptions::allow_missing, report.left_out names it.
ConvertReport convert(const Checkpoint& source, const std::string& target,
                      const ConvertOptions& options);
// The report as JSON text (docs/reference/json.md).
std::string convert_json(const ConvertReport& report);

// Options of ModelFolder.
struct ModelFolderOptions {
  // Folder of another copy of the model, or a URL of one. All that transformers reads beside the
  // weights is copied from there: *.json but the indices of weights, and the files of tokenizers
  // and chat templates. Empty: nothing is copied.
  std::string assets = {};
  bool plain = false;       // without `quantization_config` in config.json
  StoreOptions store = {};  // how to read the assets, if they are at a URL
};
// The place for a checkpoint that may become the folder of a model, as transformers'
// from_pretrained() reads it. That is what `target` is if its name has no known extension and no
// format is chosen, and if the rules lead to the side "hf", or if there are assets and no rules
// with two sides. It may be a URL. Construct it, and convert() to target().
class ModelFolder {
 public:
  // `report`: of the rules; default: none. For a folder, sets the format (safetensors), the
  // metadata {"format", "pt"} and the assets (`safetensors.beside`) in `convert`, and makes the
  // folder; the last not with convert.dry_run. Throws not_found if the assets have no config.json,
  // already_exists if the folder has other files of their names (unless convert.if_exists allows
  // it), and invalid_argument for assets and a target that is not such a folder.
  ModelFolder(const TransformReport& report, std::string target, const ModelFolderOptions& options,
              ConvertOptions& convert);
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  // Removes the folders that it has made and that are empty.
  ~ModelFolder();

  // Where convert() writes: the path of the weights in the folder, or the target itself.
  [[nodiscard]] const std::string& target() const { return target_; }
  [[nodiscard]] bool is_folder() const { return is_folder_; }

 private:
  std::string target_;
  bool is_folder_ = false;
  std::shared_ptr<const void> made_;  // removes new folders that are still empty
};

// ---- resharding ----

// Options of reshard().
struct ReshardOptions {
  // The devices that will read the checkpoint. None: arrays keep their shardings, and only the
  // chunks change (orbax.chunk_bytes is then required).
  std::optional<Mesh> mesh = {};
  // (glob over names, partition of the matching arrays over the mesh) pairs; the first match
  // counts. Device arrays (jax.Array) without a match are replicated; host arrays without a match
  // stay unchanged.
  std::vector<std::pair<std::string, PartitionSpec>> specs = {};
  // One of the Orbax formats, or kDcp. None: the format in which an Orbax source is stored, else
  // kOrbax.
  std::optional<TargetFormat> format = {};
  // The chunk shape divides the box that a device reads. For kDcp: defaults.
  OrbaxTarget orbax = {};
  DcpTarget dcp = {};  // for kDcp: its chunk_bytes without a mesh; chunks are boxes with one
  IfExists if_exists = IfExists::kFail;  // what to do if the target exists
  StoreOptions store = {};               // how to reach the store, if the target is a URL
  bool dry_run = false;                  // decide and report, but write nothing
  Resources resources = {};
  ProgressFn progress = {};
  MultiprocessingOptions multiprocessing = {};  // as in ConvertOptions
};
// The report of reshard().
struct ReshardReport {
  // A resharded array.
  struct Leaf {
    std::string name;
    std::string dtype;
    Shape shape;
    Shape box;             // shape that a device reads; chunks divide it
    std::string sharding;  // sharding for people; "" if there is none
  };
  ConvertReport written;     // as convert() reports it
  std::vector<Leaf> arrays;  // all resharded arrays; scalars are not included
  // bytes of them that each device of the mesh reads; 0 without a mesh
  std::uint64_t device_bytes = 0;
};
// Writes the checkpoint again to `target`, a path or a URL of a bucket, stored in the boxes that
// devices of another topology will read, and records the new shardings. Values, tree and metadata
// stay the same. Throws invalid_argument if neither a mesh nor chunk_bytes is given, for specs
// without a mesh, for a mesh or spec that is malformed or does not divide an array (naming the
// array), for a glob that matches no array, and for a format without chunks. Throws also as
// convert().
ReshardReport reshard(const Checkpoint& source, const std::string& target,
                      const ReshardOptions& options);
// The report as JSON text (docs/reference/json.md).
std::string reshard_json(const ReshardReport& report);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
