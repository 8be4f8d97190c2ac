// checkpoint.h -- Checkpoint: what every format looks like once opened. Lazy: opening reads
// metadata only.
#pragma once

#include <cairn/error.h>
#include <cairn/kvstore.h>
#include <cairn/tree.h>
#include <cairn/types.h>
#include <cairn/verify_report.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

struct OpenOptions {
  std::optional<std::int64_t> step;  // of a step root; none: the latest complete one
  // of a composite; none: the only pytree item, or all of them
  std::optional<std::string> item;
  OcdbtVersion version;  // of the OCDBT database; none: the newest
  // name of array metadata that is neither .zarray nor zarr.json; "": look for it
  std::string metadata_key;
  // open a temporary or unfinished directory all the same
  bool allow_uncommitted = false;
  std::size_t threads = 0;  // 0: as many as the process may run on
  // bytes of working memory beyond what the caller asked to hold
  std::uint64_t memory = std::uint64_t{1} << 30U;
};

// One tensor (or scalar, string) of a checkpoint.
struct TensorInfo {
  std::string name;  // parameter name, keys joined with '.'
  KeyPath path;
  std::optional<std::string> item;  // set when the checkpoint has several pytree items
  // typestr: "jax.Array", "np.ndarray", "scalar", "string", "placeholder", "None", ...
  std::string kind;
  DType dtype = DType::kOpaque;
  // "float32"; for kOpaque as stored ("|S8"); "string" for strings; "" for empty nodes
  std::string dtype_name;
  std::size_t element_size = 0;
  Shape shape;
  // in memory, one byte per 4-bit element; of a string: its UTF-8 bytes
  std::uint64_t nbytes = 0;
  std::uint64_t stored_nbytes = 0;  // what its chunks take in the store (0 if nothing of its own)
  // of the stored chunks; inner chunks for sharded arrays; empty for none
  Shape chunk_shape;
  std::string sharding;  // JSON text as stored; "" if there is none
  // Why the array cannot be read: missing or damaged metadata, then dtype_name is "?"; or elements
  // of no fixed size. Else "".
  std::string error;
  // of `error`; kUnimplemented and kIo do not mean that the array is damaged
  Code error_code = Code::kDataLoss;

  // "item/name" where there are several items, else the name.
  [[nodiscard]] std::string full_name() const { return item ? *item + "/" + name : name; }
  // Whether it has array data: false for strings, placeholders and empty nodes.
  [[nodiscard]] bool is_array() const { return dtype_name != "string" && !dtype_name.empty(); }
  // Whether it is a string, or an array of them (of its shape), which is read by read_strings().
  [[nodiscard]] bool is_string() const { return dtype_name == "string"; }
  // Whether it is known what it is: also true for an array without damage that cannot be read for
  // its type.
  [[nodiscard]] bool is_described() const {
    return error.empty() || (is_array() && dtype_name != "?");
  }
};

// What an opened checkpoint is. Facts are ordered (label, value) pairs for people; the rest is for
// programs.
struct CheckpointInfo {
  std::string format;  // "orbax", "safetensors", "msgpack", "npz", "zarr"
  // what opening found, in words: "step 12 of a manager root, item 'default', OCDBT, Zarr v2"
  std::string layout;
  std::string path;  // what was opened in the end (the step's or item's directory)
  std::optional<std::int64_t> step;
  std::vector<std::string> items;  // of a composite: every item on disk
  // versions, options, generation, commit time, ...
  std::vector<std::pair<std::string, std::string>> facts;
  std::string custom_metadata;  // JSON text; "" if there is none
  // What tells these values from others of the same leaves, seen on opening without reading them:
  // (what of, text) pairs. Checksums where the format keeps them beside the names; else each file's
  // size and when it was changed last. None where facts tell it (Orbax).
  std::vector<std::pair<std::string, std::string>> revision;
};

// An object of the program whose state was saved: a layer, an optimizer, a variable (TensorFlow).
struct ProgramObject {
  struct Child {
    std::string name;
    std::size_t object = 0;
  };
  struct Value {
    std::string name;                  // of the object's attribute: "VARIABLE_VALUE"
    std::string full_name;             // the variable's name in the program; may be empty
    std::vector<std::size_t> tensors;  // into tensors(): mostly one
  };
  // What an optimizer keeps for a variable.
  struct Slot {
    std::string name;  // "m"
    std::size_t variable = 0;
    std::size_t object = 0;
  };
  std::vector<Child> children;
  std::vector<Value> values;
  std::vector<Slot> slots;
};

// Called from worker threads with (bytes done, bytes to do).
using ProgressFn = std::function<void(std::uint64_t, std::uint64_t)>;

// Where one tensor of a bulk read goes: `out` has the tensor's dtype and the shape of `box`.
struct ReadRequest {
  std::size_t tensor = 0;  // index into tensors()
  Box box;
  MutableArrayView out;
};

// An opened checkpoint of any format. Safe to use from many threads. It may keep files open and
// mapped.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  [[nodiscard]] virtual const CheckpointInfo& info() const = 0;
  // Every leaf and empty node, in the tree's order. stored_nbytes is filled.
  [[nodiscard]] virtual const std::vector<TensorInfo>& tensors() const = 0;
  // Reads many boxes as one plan: sorted by file and offset, coalesced, in parallel, within the
  // memory budget. Each must be an array. The first damaged one throws, naming its tensor.
  virtual void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const = 0;
  // The value of a string leaf. Throws invalid_argument if tensors()[index] is none.
  [[nodiscard]] virtual std::string read_string(std::size_t index) const = 0;
  // The values of an array of strings, in C order; of a string leaf its only one.
  [[nodiscard]] virtual std::vector<std::string> read_strings(std::size_t index) const {
    return {read_string(index)};
  }
  // The stored bytes themselves, mapped, where one raw chunk of a local file is the array. nullopt
  // where they are not.
  [[nodiscard]] virtual std::optional<Array> try_view(std::size_t index) const = 0;
  // The implementation ("threefry2x32") of a typed PRNG key whose data this array is; "" for all
  // others.
  [[nodiscard]] virtual std::string random_key_impl(std::size_t /*index*/) const { return ""; }
  // The pytree, with the index into tensors() (a std::int64_t) in place of each leaf and empty
  // node. Unlike the paths it tells tuples from lists, where the format does.
  [[nodiscard]] virtual Tree structure() const;
  // The objects of the program that saved it, by number, 0 being the root; none where the format
  // does not know them. Several may have the same child, and children may lead back.
  [[nodiscard]] virtual std::vector<ProgramObject> objects() const { return {}; }
  // Reads every byte there is, checks everything that can be checked, goes on after damage.
  [[nodiscard]] VerifyReport verify(const ProgressFn& progress) const;
  // The same for several processes: each checks its share, about the same number of bytes, and any
  // of them puts together what all have found, in the order of the shares. The report is that of
  // one process.
  [[nodiscard]] virtual VerifyPart verify_part(WorkShare share,
                                               const ProgressFn& progress) const = 0;
  [[nodiscard]] virtual VerifyReport join_verified(std::vector<VerifyPart> parts) const;

  // ---- conveniences on top ----
  // Index by name, or by "item/name" where there are several items; or by what else the format
  // calls it (find_other). not_found names close matches; a name that is in two items is an
  // invalid_argument that lists them.
  [[nodiscard]] std::size_t index(std::string_view name) const;
  [[nodiscard]] const TensorInfo& info(std::string_view name) const {
    return tensors()[index(name)];
  }
  void read(std::string_view name, const Box& box, const MutableArrayView& out) const;
  [[nodiscard]] Array read(std::string_view name) const;
  // As try_view, but an array that cannot be mapped is failed_precondition with the reason.
  [[nodiscard]] Array view(std::string_view name) const;
  // Everything, in memory. Python and NumPy scalars come back as such. Arrays of at most 256 KiB
  // share blocks of 16 MiB: one that is kept keeps its block. All are read-only, as arrays that
  // have been handed out are.
  [[nodiscard]] Tree load(const ProgressFn& progress = {}) const;

 protected:
  // What a name that no tensor has stands for all the same.
  [[nodiscard]] virtual std::optional<std::size_t> find_other(std::string_view /*name*/) const {
    return std::nullopt;
  }

 private:
  struct NameIndex;
  [[nodiscard]] const NameIndex& name_index() const;
  mutable std::once_flag name_index_made_;
  mutable std::shared_ptr<const NameIndex> name_index_;
};

}  // namespace cairn
