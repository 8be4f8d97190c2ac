// checkpoint.h -- Checkpoint: the common interface of an opened checkpoint of any format. Opening
// reads metadata only; reading fetches values.
#pragma once

#include <cairn/bytes.h>
#include <cairn/error.h>
#include <cairn/observer.h>
#include <cairn/storage/store_options.h>
#include <cairn/tree.h>
#include <cairn/types.h>
#include <cairn/verify_report.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

class Executor;  // internal to the library

// Options of cairn::open and of the functions that open one format. A choice that does not apply to
// the opened checkpoint (a step, an item, a metadata key or a version) is invalid_argument.
struct OpenOptions {
  // Step to open below a step root (a directory of steps). None: the latest complete step. Throws
  // not_found if the root does not have the step.
  std::optional<std::int64_t> step = {};
  // Name of the item to open in a composite checkpoint (one directory per item). None: every pytree
  // item. In a folder of a trainer of PyTorch: name of the file to open; none: the model. Throws
  // not_found for an unknown name, invalid_argument for an item without arrays.
  std::optional<std::string> item = {};
  OcdbtVersion version = {};  // version of the OCDBT database to read; default: the newest
  // File name of the array metadata where it is neither .zarray nor zarr.json. "": find it.
  std::string metadata_key = {};
  // Name of the msgpack file that older versions of Orbax store beside the arrays.
  std::string aggregate_filename = "checkpoint";
  // Open a temporary or unfinished directory, which is failed_precondition otherwise.
  bool allow_uncommitted = false;
  // Use the rest of a checkpoint of which a part is missing (CheckpointInfo::missing). False: it
  // opens, so that it can be looked at, but load(), convert(), reshard() and diff() throw data_loss
  // and name the part. If all trees are missing, they throw in either case.
  bool allow_missing = false;
  Resources resources = {};  // of all reads of the opened checkpoint
  StoreOptions store = {};   // how to reach the store, if the checkpoint is at a URL
  // A request to stop ends open(), load() and verify() soon, with the error cancelled, also while a
  // store does not answer. It has no effect on an opened checkpoint.
  std::stop_token cancel = {};
};

// The kind of a leaf.
enum class LeafKind : std::uint8_t {
  kArray,        // an array or a number
  kString,       // a string, or an array of strings
  kEmpty,        // an empty node: None, or a container without children
  kPlaceholder,  // structure without data
  // A leaf whose element type and shape are unknown, because its metadata is missing or damaged.
  kUnknown,
  // A leaf of a type handler that Cairn does not have; `typestr` is the name that the handler gave
  // to its type. It is not damaged, but Cairn cannot read it: `error` is set.
  kCustom,
};

// Description of one leaf of a checkpoint (array, scalar or string) or of one empty node.
struct TensorInfo {
  std::string name;                 // parameter name: the path's keys joined with '.'
  KeyPath path;                     // path from the root of the item's tree
  std::optional<std::string> item;  // set if the checkpoint has several pytree items
  LeafKind kind = LeafKind::kArray;
  // Orbax's name of the type: "jax.Array", "np.ndarray", "scalar", "string", "placeholder", "None",
  // ...
  std::string typestr;
  DType dtype = DType::kOpaque;  // element type in memory; kOpaque if Cairn does not interpret it
  // "float32"; for kOpaque the stored name ("|S8"); "string" for strings, "bytes" for Zarr's
  // strings of bytes; else "".
  std::string dtype_name;
  std::size_t element_size = 0;  // bytes per element in memory
  Shape shape;                   // extents; empty for rank 0
  // Bytes in memory, with one byte per 2- or 4-bit element. For a string: its UTF-8 bytes; for
  // strings in chunks or slices: the stored bytes.
  std::uint64_t nbytes = 0;
  // Bytes of its chunks in the store; 0 if it has no stored value of its own.
  std::uint64_t stored_nbytes = 0;
  // Shape of the stored chunks; for sharded arrays of the inner chunks; empty if there are none.
  Shape chunk_shape;
  std::string sharding;  // sharding as JSON text, as stored; "" if none is recorded
  // Why the leaf cannot be read; "" if it can. Reasons: its kind is kUnknown, or its elements have
  // no fixed size.
  std::string error;
  // Code of `error`. kUnimplemented and kIo do not mean that the array is damaged.
  Code error_code = Code::kDataLoss;

  // "item/name" if the checkpoint has several pytree items, else the name.
  [[nodiscard]] std::string full_name() const { return item ? *item + "/" + name : name; }
  // Whether the leaf has array data, even if nothing more is known about it.
  [[nodiscard]] bool is_array() const {
    return kind == LeafKind::kArray || kind == LeafKind::kUnknown;
  }
  // Whether the leaf is a string or an array of strings (of this shape). read_strings() reads both.
  // Strings of TensorFlow and Zarr's strings of bytes may hold any bytes, others hold UTF-8.
  [[nodiscard]] bool is_string() const { return kind == LeafKind::kString; }
  // Whether a type handler that Cairn does not have wrote the leaf.
  [[nodiscard]] bool is_custom() const { return kind == LeafKind::kCustom; }
  // Whether the metadata of the leaf is complete. Also true for an undamaged leaf that Cairn cannot
  // read: an array with another element type, or a leaf of a custom type handler.
  [[nodiscard]] bool is_described() const {
    return error.empty() || kind == LeafKind::kArray || is_custom();
  }
};

// The content of an array's own metadata file (`.zarray`, `zarr.json`), in one form for both
// versions of Zarr.
struct ZarrMetadata {
  // A compressor and its level, if it has one.
  struct Compression {
    std::string algorithm;  // "zstd", "gzip", "blosc", ...
    std::optional<std::int64_t> level = {};
    bool operator==(const Compression&) const = default;
  };
  int zarr_format = 2;  // 2 or 3
  Shape shape = {};
  std::string dtype = {};                       // as stored: "<f4" in Zarr v2, "float32" in v3
  Shape chunk_shape = {};                       // of the stored values; for shards, of the shards
  std::optional<Compression> compression = {};  // none: not compressed
  std::string order = {};                       // Zarr v2: "C" or "F"
  std::string dimension_separator = {};         // Zarr v2: "." or "/"
  // Zarr v3: the shape of the chunks inside a shard. None if there are no shards, or if the array
  // has rank 0.
  std::optional<Shape> inner_chunk_shape = {};
  bool operator==(const ZarrMetadata&) const = default;
};

// A part of a checkpoint that its own records name, but that is not there: it was not copied, or it
// was removed.
struct MissingPart {
  std::string item;    // name of the item; "" if the checkpoint is one tree without items
  std::string path;    // of the folder or file that is missing
  std::string record;  // path of the file that names it; "" if other files show that it was there
  std::string text;    // a sentence for people: what is missing, and which file says so
  // True: another file lists the leaves of the part. They are in tensors(), and reading them fails.
  // False: nobody knows them, or OpenOptions::allow_missing leaves them out.
  bool is_listed = false;
};

// Description of an opened checkpoint. `facts` and `layout` are for people, the other members for
// programs.
struct CheckpointInfo {
  // "orbax", "zarr", "safetensors", "msgpack", "npz", "npy", "tensorflow" or "pytorch"
  std::string format;
  // Layout in words: "step 12 of a manager root, item 'default', OCDBT, Zarr v2".
  std::string layout;
  std::string path;  // the file or directory that was opened in the end (of the step or the item)
  std::optional<std::int64_t> step;  // step number, if the checkpoint is a step
  // every item on disk, if the checkpoint is a composite or the folder of a trainer
  std::vector<std::string> items;
  // (label, value) pairs in display order: versions, options, generation, commit time, ...
  std::vector<std::pair<std::string, std::string>> facts;
  // Warnings that a program should show its user before it uses the leaves: a part of the
  // checkpoint is missing, so that there may be more leaves. They include the texts of `missing`.
  std::vector<std::string> warnings;
  // Parts that the checkpoint records and lacks. If one item was chosen (OpenOptions::item), those
  // of this item.
  std::vector<MissingPart> missing;
  bool allow_missing = false;  // as in OpenOptions
  // JSON text; "" if there is none. Of Orbax: what _CHECKPOINT_METADATA has about the checkpoint.
  std::string custom_metadata;
  // (item, JSON text) pairs of Orbax: what the _METADATA of an item ("": of the only tree) has
  // about its tree.
  std::vector<std::pair<std::string, std::string>> item_metadata;
  // (subject, text) pairs that distinguish these values from others of the same leaves. Opening
  // collects them without reading values: checksums where the format stores them beside the names,
  // else each file's size and modification time. Empty where `facts` suffice (Orbax).
  std::vector<std::pair<std::string, std::string>> revision;
  // The `__metadata__` of a safetensors file, or of all files of a set together; else empty.
  std::vector<std::pair<std::string, std::string>> file_metadata;
};

// An object of the program that saved a TensorFlow checkpoint: a layer, an optimizer, a variable.
// Numbers of objects are indices into Checkpoint::objects().
struct ProgramObject {
  // A child object, reached by an attribute name.
  struct Child {
    std::string name;
    std::size_t object = 0;  // the child's number
  };
  // A stored value of the object.
  struct Value {
    std::string name;                  // name of the object's attribute: "VARIABLE_VALUE"
    std::string full_name;             // the variable's name in the program; may be empty
    std::vector<std::size_t> tensors;  // indices into tensors(); usually one
  };
  // A value that an optimizer keeps for a variable.
  struct Slot {
    std::string name;          // slot name: "m"
    std::size_t variable = 0;  // number of the variable's object
    std::size_t object = 0;    // number of the object that holds the slot's value
  };
  std::vector<Child> children;
  std::vector<Value> values;
  std::vector<Slot> slots;
};

// One box of one tensor in a bulk read.
struct ReadRequest {
  std::size_t tensor = 0;  // index into tensors()
  Box box;                 // elements to read, in the tensor's coordinates
  // Destination: the tensor's dtype and the box's shape; any strides. The caller owns the memory.
  MutableArrayView out;
};

// Which conversions of elements are allowed.
enum class Casting : std::uint8_t {
  kUnsafe,  // all, as Array::cast()
  // Those that keep the number, and those of floating-point numbers to smaller ones, which round.
  // Refused are: integers that the new type cannot hold exactly, fractions, NaN and infinities to
  // integers, complex numbers with an imaginary part to real ones, and all numbers to bool.
  kChecked
};

// One box of one tensor, to be read to a new array.
struct ArrayRequest {
  std::size_t tensor = 0;  // index into tensors()
  Box box;                 // elements to read, in the tensor's coordinates
  // The type of the new array. None: the stored one.
  std::optional<DType> dtype = {};
  Casting casting = Casting::kUnsafe;  // which conversions to it are allowed
};

// The leaves of a checkpoint, in the tree's order. A copy shares them. They stay valid as long as
// one of the copies, even if the checkpoint is destroyed:
//   for (const TensorInfo& tensor : open(path)->tensors())
class TensorList {
 public:
  using value_type = TensorInfo;
  using const_iterator = const TensorInfo*;
  using iterator = const_iterator;

  explicit TensorList(std::shared_ptr<const std::vector<TensorInfo>> leaves);
  explicit TensorList(std::vector<TensorInfo> leaves = {});

  [[nodiscard]] const TensorInfo* data() const { return leaves_->data(); }
  [[nodiscard]] std::size_t size() const { return leaves_->size(); }
  [[nodiscard]] bool empty() const { return leaves_->empty(); }
  [[nodiscard]] const TensorInfo* begin() const { return data(); }
  [[nodiscard]] const TensorInfo* end() const { return data() + size(); }
  [[nodiscard]] const TensorInfo& operator[](std::size_t i) const { return (*leaves_)[i]; }
  [[nodiscard]] const TensorInfo& at(std::size_t i) const { return leaves_->at(i); }
  [[nodiscard]] const TensorInfo& front() const { return leaves_->front(); }
  [[nodiscard]] const TensorInfo& back() const { return leaves_->back(); }

 private:
  std::shared_ptr<const std::vector<TensorInfo>> leaves_;
};

// An opened checkpoint of any format. All methods are safe to call from many threads. The object
// may keep files open and mapped until it is destroyed. An implementation has to define info(),
// tensors() and the bulk read(), and read_string() if it has strings.
class Checkpoint {
 public:
  Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  virtual ~Checkpoint();

  // Description of the checkpoint, a copy.
  [[nodiscard]] virtual CheckpointInfo info() const = 0;
  // Every leaf and empty node. stored_nbytes is filled. All calls return the same list.
  [[nodiscard]] virtual TensorList tensors() const = 0;
  // Reads all boxes as one plan: sorted by file and offset, coalesced, in parallel, within the
  // memory limit of OpenOptions. Every request must name an array. Throws invalid_argument if the
  // destination's dtype or shape does not match, out_of_range for a box outside the array. The
  // first damaged tensor throws data_loss, naming the tensor.
  virtual void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const = 0;
  // The value of a string leaf. Throws invalid_argument if tensors()[index] is not a string.
  [[nodiscard]] virtual std::string read_string(std::size_t index) const;
  // The values of an array of strings in C order; for a string leaf, its single value.
  [[nodiscard]] virtual std::vector<std::string> read_strings(std::size_t index) const {
    return {read_string(index)};
  }
  // A view of the stored bytes in the mapped file, without a copy. Possible where the array is one
  // uncompressed chunk in a local file; nullopt otherwise.
  [[nodiscard]] virtual std::optional<Array> try_view(std::size_t /*index*/) const {
    return std::nullopt;
  }
  // Implementation name ("threefry2x32") if this array holds the data of a typed PRNG key, else "".
  [[nodiscard]] virtual std::string random_key_impl(std::size_t /*index*/) const { return ""; }
  // Throws data_loss that names the parts in info().missing, except listed ones, unless there are
  // none or OpenOptions::allow_missing is set and something is left. Functions that pass the whole
  // checkpoint on call it first.
  void check_complete() const;
  // The pytree with the index into tensors() (a std::int64_t) in place of each leaf and empty node.
  // Unlike the paths, it distinguishes tuples from lists where the format does.
  [[nodiscard]] Tree structure() const;
  // The same with leaf(index) in place of each index; `leaf` is called once for each.
  [[nodiscard]] virtual Tree tree_of(const std::function<Tree(std::size_t index)>& leaf) const;
  // structure() and tree_of() with tuples and named tuples also where Orbax records them beside the
  // tree (SaveOptions::support_rich_types). Throws data_loss if this record contradicts the tree.
  [[nodiscard]] Tree rich_structure() const;
  [[nodiscard]] virtual Tree rich_tree_of(
      const std::function<Tree(std::size_t index)>& leaf) const {
    return tree_of(leaf);
  }
  // The dicts whose keys are not str in Python, as far as the checkpoint records them. Throws
  // data_loss if the record is damaged.
  [[nodiscard]] virtual std::vector<DictKeyTypes> key_types() const { return {}; }
  // (leaf, earlier leaf) pairs of indices: both show the same elements of one stored tensor, as the
  // tied weights of a PyTorch model do. convert() stores them once where the target can.
  [[nodiscard]] virtual std::vector<std::pair<std::size_t, std::size_t>> ties() const { return {}; }
  // The Zarr metadata of an array, its compressor for example. nullopt: the array is not a Zarr
  // array, or one that TensorStore does not read.
  [[nodiscard]] virtual std::optional<ZarrMetadata> zarr_metadata(std::size_t /*index*/) const {
    return std::nullopt;
  }
  // Objects of the program that saved the checkpoint; object 0 is the root. Empty where the format
  // does not store them. The graph may share children and may contain cycles.
  [[nodiscard]] virtual std::vector<ProgramObject> objects() const { return {}; }
  // Reads all stored bytes and checks everything that can be checked. Damage becomes a finding in
  // the report, and the check continues. The default reads every array, in pieces, and every
  // string.
  [[nodiscard]] virtual VerifyReport verify(const ProgressFn& progress) const;

  // ---- conveniences on top ----
  // Index of a tensor by name, by "item/name" where there are several items, by another name that
  // the format knows (find_other), with '/' in place of '.' ("params/w" for "params.w"), or by the
  // escaped form in which a name is shown (printable_text). The first of these that is found
  // counts. Throws not_found and suggests similar names; throws invalid_argument, listing them, for
  // a name that several items have and for a spelling of several names.
  [[nodiscard]] std::size_t index(std::string_view name) const;
  // Description of the named tensor, a copy. Throws as index().
  [[nodiscard]] TensorInfo info(std::string_view name) const { return tensors()[index(name)]; }
  // Reads one box into `out`, which has the tensor's dtype and the box's shape. Throws as index()
  // and the bulk read().
  void read(std::string_view name, const Box& box, const MutableArrayView& out) const;
  // Reads a whole array into new memory, which the result alone owns and may change. Throws
  // invalid_argument for a leaf that is not an array, else as index() and the bulk read().
  [[nodiscard]] Array read(std::string_view name) const;
  // The same for a known type: for (float x : checkpoint.read<float>("w")). Throws
  // invalid_argument, before it reads, if T is not the array's type; no element is converted.
  template <ElementType T>
  [[nodiscard]] TypedArray<T> read(std::string_view name) const {
    check_type(name, dtype_of<T>());
    return TypedArray<T>(read(name));
  }
  // Reads boxes to new arrays; the result is parallel to them. Where a request names a type, it
  // converts on all threads of OpenOptions: 16 MiB for each thread at a time (48 to 256 MiB), or
  // one chunk if that is larger. A compressed array without chunks is one chunk. Throws as the bulk
  // read(), and invalid_argument for a conversion from or to kOpaque. Throws invalid_argument, with
  // its name and index, for the first element that must not be converted (Casting::kChecked). Small
  // arrays share memory, as those of load().
  [[nodiscard]] std::vector<Array> read_arrays(std::span<const ArrayRequest> requests,
                                               const ProgressFn& progress = {}) const;
  // As try_view(), but throws failed_precondition with the reason if the array cannot be mapped,
  // and invalid_argument for a leaf that is not an array.
  [[nodiscard]] Array view(std::string_view name) const;
  // Reads everything into memory. Throws as check_complete() and the bulk read(). Python and NumPy
  // scalars are returned as such. Arrays of less
  // than 2 MiB share blocks of 16 MiB: a kept array keeps its whole block alive. The arrays are
  // read-only, as those of view() are.
  [[nodiscard]] Tree load(const ProgressFn& progress = {}) const;
  // The same without the structure: the leaves and empty nodes, parallel to tensors(). tree_of() or
  // rich_tree_of() puts them together.
  [[nodiscard]] std::vector<Tree> load_leaves(const ProgressFn& progress = {}) const;

 protected:
  // Index of the tensor that the format knows by this additional name; nullopt if there is none.
  [[nodiscard]] virtual std::optional<std::size_t> find_other(std::string_view /*name*/) const {
    return std::nullopt;
  }
  // The threads that convert elements: by default all cores.
  [[nodiscard]] virtual Executor& executor() const;

 private:
  [[nodiscard]] Tree other_leaf(std::size_t index) const;  // a leaf that is not an array
  void check_type(std::string_view name, DType wanted) const;

  struct Names;
  std::unique_ptr<Names> names_;  // tensors by name; made by the first call of index()
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
