// item_storage.h -- where type handlers put the values of an item, and where they get them from.
// Only a program with a type handler of its own (type_handler.h) needs it.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// The calling process among those that save an item together.
struct SavingProcess {
  std::size_t index = 0;   // index of the process
  std::size_t count = 1;   // number of processes
  bool is_primary = true;  // writes everything that is not split: host values, strings, metadata
  bool writes_separately = false;  // each process saves into a folder of its own
};

// A part of an array that one process stores.
struct StorePart {
  Box box;         // in the array's coordinates
  ArrayView from;  // its elements, any strides; null: copied when they are needed
};

// An array to be stored under a parameter name.
struct StoreArray {
  std::string name;                    // parameter name
  DType dtype = DType::kUint8;         // stored type
  DType source_dtype = DType::kUint8;  // type of the given elements
  Shape shape;                         // of the whole array
  Shape write_shape = {};  // shape of the pieces in which it is stored; empty: one piece
  std::optional<std::int64_t> chunk_byte_size = {};  // target chunk size in bytes
  std::vector<std::int64_t> shard_axes = {};         // dimensions that are split first
  std::optional<Shape> write_chunk_shape = {}, read_chunk_shape = {};  // as in SaveArgs
  // File name of its metadata, below its name. "": .zarray or zarr.json.
  std::string metadata_key = {};
  // The elements in C order, and their owner. If `data` is null, `copy` copies parts of them out
  // when they are needed; it is called from one thread at a time.
  std::shared_ptr<const void> owner = {};
  const std::byte* data = nullptr;
  std::function<void(const Box& part, const MutableArrayView& out)> copy = {};
  // A jax.Array: array_metadatas and _METADATA record its pieces.
  bool device_array = false;
  // Arrays with a lower number are written before the first array with a higher number is copied.
  int priority = 0;
  std::string sharding = {};         // JSON text for _sharding; "" for none
  std::string random_key_impl = {};  // for a typed PRNG key; else ""
  // For an array that several processes store together: the parts that this process stores, each a
  // part of one piece of write_shape. None: all of the array. `owner` owns the memory of the parts.
  std::optional<std::vector<StorePart>> parts = {};
  // Store the values in a database separate from that of other arrays, where each process has its
  // own.
  bool in_replica_folder = false;
  // A device array of which array_metadatas and _METADATA record nothing about its pieces.
  bool is_unrecorded = false;
  // Called when all elements that this process stores are in host memory, and when they are
  // written. Null: nobody is told. Must not throw.
  std::function<void()> on_copied = {}, on_written = {};
};

// Collects what the handlers want stored. All of it is written together, after every handler was
// called.
class ItemWriter {
 public:
  ItemWriter() = default;
  ItemWriter(const ItemWriter&) = delete;
  ItemWriter& operator=(const ItemWriter&) = delete;
  virtual ~ItemWriter() = default;

  // These add a value to be stored under a parameter name.
  virtual void add_array(StoreArray array) = 0;
  void add_string(std::string name, std::string text) {
    add_string_in("", std::move(name), std::move(text));
  }
  // The same for a string in a JSON file of its own name (StringHandler::Options::filename).
  virtual void add_string_in(std::string file, std::string name, std::string text) = 0;
  // Whether the caller continues before everything is written. If so, a handler must first copy
  // values that the caller may change.
  [[nodiscard]] virtual bool is_background() const = 0;
  // Calls task(0) ... task(n-1) with the threads of the save, and returns when all have ended. The
  // first exception is thrown here. By default they run in the calling thread.
  virtual void run_tasks(std::size_t n, const std::function<void(std::size_t)>& task) const {
    for (std::size_t i = 0; i < n; ++i) task(i);
  }
  // Becomes ready when everything that was added is written; carries the error if a write fails.
  [[nodiscard]] virtual std::shared_future<void> written() const = 0;
  // The calling process. Host values that a process other than the primary adds are not stored.
  [[nodiscard]] virtual SavingProcess process() const { return {}; }
};

// Reads the stored values of an item. Safe to call from many threads.
class ItemReader {
 public:
  // A box of a stored array, and the memory to read it into, which has the array's dtype.
  struct Read {
    std::string_view name;
    Box box;
    MutableArrayView out;
  };

  ItemReader() = default;
  ItemReader(const ItemReader&) = delete;
  ItemReader& operator=(const ItemReader&) = delete;
  virtual ~ItemReader() = default;

  // Description of each array: dtype, shape and chunks. Throws not_found for an unknown array,
  // data_loss if its metadata is damaged.
  [[nodiscard]] std::vector<TensorInfo> arrays(std::span<const std::string_view> names) const {
    return arrays_under(names, "");
  }
  // The same for arrays whose metadata has its own file name (StoreArray::metadata_key).
  [[nodiscard]] virtual std::vector<TensorInfo> arrays_under(
      std::span<const std::string_view> names, const std::string& metadata_key) const = 0;
  // How the array was distributed over devices, as JSON. "": not recorded for this array. nullopt:
  // not recorded for any array.
  [[nodiscard]] virtual std::optional<std::string> sharding(const std::string& name) const = 0;
  // Implementation of the typed PRNG key whose data the array holds; "" for other arrays.
  [[nodiscard]] virtual std::string random_key_impl(const std::string& name) const = 0;
  // The content of the metadata file of a described array. nullopt: unknown.
  [[nodiscard]] virtual std::optional<ZarrMetadata> zarr_metadata(
      const std::string& /*name*/) const {
    return std::nullopt;
  }
  // Reads all boxes as one plan, in parallel. Errors name the array.
  virtual void read(std::span<const Read> reads) const = 0;
  // The stored string. Throws not_found.
  [[nodiscard]] std::string string(const std::string& name) const { return string_in("", name); }
  // The same for a string in a JSON file of its own name (StringHandler::Options::filename).
  [[nodiscard]] virtual std::string string_in(const std::string& file,
                                              const std::string& name) const = 0;
  // The processes that restore together, and this process's devices.
  [[nodiscard]] virtual MultiprocessingOptions processes() const { return {}; }
  // The threads that convert elements: by default all cores.
  [[nodiscard]] virtual Executor& executor() const;
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
