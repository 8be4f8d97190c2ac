// array_reader.cc -- opens, describes, reads and checks the stored arrays of a pytree.
#include <cairn/handlers/array_reader.h>

#include <cairn/array/box.h>
#include <cairn/base/json/scan.h>
#include <cairn/base/observer/progress_pump.h>
#include <cairn/base/text.h>
#include <cairn/base/work_partition.h>
#include <cairn/zarr/codec/objects.h>
#include <cairn/zarr/metadata/chunk_grid.h>

#include <algorithm>
#include <atomic>
#include <charconv>

namespace cairn::inline v0::handlers {
namespace {

constexpr std::string_view kMissing = "no array is stored under this name";
// arrays per task; in a database, opening one takes half a microsecond
constexpr std::size_t kOpenedTogether = 256;
constexpr std::size_t kKeysTogether = 1024;  // keys per task

zarr::ZarrArray open_with_key(const StorePtr& store, const std::string& name,
                              const std::string& metadata_key, zarr::MetadataCache& cache) {
  const std::string key = zarr::ZarrArray::key_prefix(name) + metadata_key;
  const auto text = store->read_at_most(key, zarr::kMaxMetadataBytes);
  if (!text) throw Error(Code::kNotFound, "no Zarr array at " + store->describe(key));
  return {store, name,
          with_context([&] { return store->describe(key); },
                       [&] { return cache.parse(2, as_text(*text)); })};
}

zarr::ZarrArray open_array(const StorePtr& store, const std::string& name, const ArrayKeys& keys,
                           zarr::MetadataCache& cache) {
  if (!keys.metadata_key.empty()) return open_with_key(store, name, keys.metadata_key, cache);
  if (keys.zarr_format == 0) return zarr::ZarrArray::open(store, name, 0, &cache);
  try {
    return zarr::ZarrArray::open(store, name, keys.zarr_format, &cache);
  } catch (const Error& e) {
    if (e.code() != Code::kNotFound) throw;
    return zarr::ZarrArray::open(store, name, 0, &cache);
  }
}

// "0", "1.2", "1/2", "c", "c/1/2", "c.1": the chunk names of both Zarr versions.
bool is_chunk_key(std::string_view rest) {
  if (rest == "c") return true;
  if (rest.starts_with("c/") || rest.starts_with("c.")) rest.remove_prefix(2);
  return !rest.empty() && std::all_of(rest.begin(), rest.end(), [](char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '/';
  });
}

bool is_metadata_name(std::string_view rest) {
  return rest == ".zarray" || rest == "zarr.json" || rest == ".zattrs";
}

// The numbers in the part of a key after the array's name. Returns nullopt if one of them is not a
// grid position.
std::optional<std::vector<std::int64_t>> chunk_position(std::string_view rest) {
  std::vector<std::int64_t> position;
  while (!rest.empty()) {
    const auto digit = rest.find_first_of("0123456789");
    if (digit == std::string_view::npos) break;
    rest.remove_prefix(digit);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc()) return std::nullopt;
    position.push_back(number);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  return position;
}

bool is_chunk_of(const zarr::ZarrArray& array, std::string_view key) {
  const auto& metadata = array.metadata();
  const std::size_t rank = metadata.shape.size();
  if (rank == 0) return key == array.chunk_key({});
  const auto position = chunk_position(key.substr(array.name().size()));
  if (!position || position->size() != rank) return false;
  for (std::size_t d = 0; d < rank; ++d)
    if (metadata.shape[d] == 0 ||
        (*position)[d] > (metadata.shape[d] - 1) / metadata.chunk_shape[d])
      return false;
  return key == array.chunk_key(*position);
}

using Arrays = std::span<const std::optional<zarr::ZarrArray>>;

// The tensor that `key` is a chunk of. Names may contain '/', so several may fit: "x/c/0" has the
// form of a chunk of "x" and of one of "x/c". The longest name whose array has the chunk wins, or
// else the longest name.
std::optional<std::size_t> tensor_of_chunk(std::string_view key, const NameTable& names,
                                           Arrays arrays) {
  std::optional<std::size_t> longest;
  std::vector<std::size_t> others;  // nearly always none
  const auto note = [&](std::optional<std::size_t> tensor) {
    if (tensor && longest) others.push_back(*tensor);
    if (!longest) longest = tensor;
  };
  const bool decided = any_parent_from_end(key, [&](std::string_view name) {
    if (!is_chunk_key(key.substr(name.size() + 1))) return true;
    const auto tensor = names.find(name);
    // a chunk of a name that ends in '/' does not belong to another name
    note(tensor ? tensor : names.find(key.substr(0, name.size() + 1)));
    return false;
  });
  if (!decided && is_chunk_key(key)) note(names.find(""));
  const auto has_it = [&](std::size_t tensor) {
    return arrays[tensor] && is_chunk_of(*arrays[tensor], key);
  };
  if (others.empty() || has_it(*longest)) return longest;
  const auto found = std::ranges::find_if(others, has_it);
  return found == others.end() ? longest : std::optional(*found);
}

std::uint64_t view_bytes(const MutableArrayView& view) {
  return static_cast<std::uint64_t>(element_count(view.shape)) * view.element_size;
}

// The chunks of one array that this process checks.
struct Task {
  std::size_t check;
  zarr::ChunkRun run;
};

std::int64_t chunks_of(const zarr::ArrayMetadata& metadata) {
  return element_count(zarr::grid_shape(metadata.shape, metadata.chunk_shape));
}

// Counts elements if they have no fixed size.
std::uint64_t weight_of(const zarr::ArrayMetadata& metadata) {
  return WorkPartition::weight(static_cast<std::uint64_t>(element_count(metadata.shape)) *
                               std::max<std::size_t>(metadata.element_size, 1));
}

std::vector<Task> tasks_of(std::span<const ArrayCheck> checks, WorkShare share) {
  std::uint64_t total = 0;
  for (const auto& check : checks) total += weight_of(check.array->metadata());
  WorkPartition line(share, total);
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const auto& metadata = checks[i].array->metadata();
    const auto run =
        line.next(weight_of(metadata), static_cast<std::uint64_t>(chunks_of(metadata)));
    if (!run.empty())
      tasks.push_back(
          {i, {static_cast<std::int64_t>(run.begin), static_cast<std::int64_t>(run.end)}});
  }
  return tasks;
}

}  // namespace

bool is_missing(const TensorInfo& tensor) { return tensor.error == kMissing; }

void describe_array(const zarr::ArrayMetadata& metadata, TensorInfo& tensor) {
  const bool strings = zarr::has_strings(metadata);
  tensor.kind = strings ? LeafKind::kString : LeafKind::kArray;
  tensor.dtype = metadata.dtype;
  tensor.element_size = metadata.element_size;
  tensor.dtype_name = metadata.dtype_name;
  tensor.shape = metadata.shape;
  tensor.chunk_shape = metadata.read_chunk_shape();
  tensor.nbytes = 0;
  if (strings) {
    tensor.typestr = "string";
    tensor.dtype_name =
        zarr::object_codec_of(metadata.codecs) == zarr::ObjectCodec::kVlenUtf8 ? "string" : "bytes";
  } else if (metadata.element_size == 0) {
    tensor.error = "elements of type " + metadata.dtype_name +
                   " have no fixed size: Cairn checks them, but does not read them";
  }
  tensor.error_code = tensor.error.empty() ? tensor.error_code : Code::kUnimplemented;
  const auto count = static_cast<std::uint64_t>(element_count(metadata.shape));
  if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(metadata.element_size),
                             &tensor.nbytes))
    throw Error(Code::kDataLoss, "shape " + shape_text(metadata.shape) + " of " +
                                     metadata.dtype_name + " takes more than 2^64 bytes");
}

StoredArrays open_arrays(const StorePtr& store, const ArrayKeys& keys,
                         std::span<TensorInfo> tensors, Executor* executor) {
  StoredArrays arrays(tensors.size());
  const auto open_one = [&](std::size_t i, const StorePtr& from, zarr::MetadataCache& cache) {
    if (tensors[i].kind != LeafKind::kUnknown) return;
    try {
      arrays[i] = open_array(from, tensors[i].name, keys, cache);
      describe_array(arrays[i]->metadata(), tensors[i]);
    } catch (const Error& e) {
      arrays[i].reset();
      tensors[i].kind = LeafKind::kUnknown;
      tensors[i].dtype_name.clear();
      tensors[i].error = e.code() == Code::kNotFound ? std::string(kMissing) : e.message();
      tensors[i].error_code = e.code();
    }
  };
  Executor& workers = executor != nullptr ? *executor : default_executor();
  workers.for_each((tensors.size() + kOpenedTogether - 1) / kOpenedTogether, [&](std::size_t part) {
    // Threads that count the users of one object wait for each other. So each task has metadata of
    // its own, and a count of its own for the store.
    const StorePtr counted_here(std::make_shared<StorePtr>(store), store.get());
    zarr::MetadataCache cache;
    const std::size_t end = std::min(tensors.size(), (part + 1) * kOpenedTogether);
    for (std::size_t i = part * kOpenedTogether; i < end; ++i) open_one(i, counted_here, cache);
  });
  return arrays;
}

void fill_stored_sizes(std::span<const ListEntry> keys, const NameTable& names,
                       std::span<const std::optional<zarr::ZarrArray>> arrays,
                       std::span<TensorInfo> tensors, Executor* executor) {
  // The strings of Orbax have no chunks.
  const auto has_chunks = [&](std::size_t i) { return tensors[i].is_array() || arrays[i]; };
  Executor& workers = executor != nullptr ? *executor : default_executor();
  workers.for_each((keys.size() + kKeysTogether - 1) / kKeysTogether, [&](std::size_t part) {
    const auto rest = keys.subspan(part * kKeysTogether);
    for (const auto& entry : rest.first(std::min(rest.size(), kKeysTogether))) {
      const auto tensor = tensor_of_chunk(entry.key, names, arrays);
      if (!tensor || !has_chunks(*tensor)) continue;
      // The chunks of one array may be in several tasks.
      std::atomic_ref(tensors[*tensor].stored_nbytes)
          .fetch_add(entry.size, std::memory_order_relaxed);
    }
  });
  // Leaves that share a name share the array.
  for (const auto& [later, first] : names.repeated())
    if (has_chunks(later)) tensors[later].stored_nbytes = tensors[first].stored_nbytes;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (arrays[i] && tensors[i].is_string()) tensors[i].nbytes = tensors[i].stored_nbytes;
}

std::vector<std::pair<std::size_t, std::string>> find_stray_chunks(
    std::span<const ListEntry> keys, const NameTable& names,
    std::span<const std::optional<zarr::ZarrArray>> arrays) {
  std::vector<std::pair<std::size_t, std::string>> strays;
  for (const auto& entry : keys) {
    const auto tensor = tensor_of_chunk(entry.key, names, arrays);
    if (tensor && arrays[*tensor] && !is_chunk_of(*arrays[*tensor], entry.key))
      strays.emplace_back(*tensor, entry.key);
  }
  return strays;
}

bool is_group(const StorePtr& store, const std::string& key) {
  const auto is = try_call([&] {
    const auto text = store->read_at_most(key, kMaxGroupBytes);
    if (!text) return false;
    JsonScanner scan(without_byte_order_mark(as_text(*text)));
    std::string_view member;
    bool group = false;
    scan.begin_object();
    while (scan.next_member(member)) {
      const bool is_type = member == "node_type";
      if (is_type) group = false;
      if (is_type && scan.peek() == '"')
        group = scan.string() == "group";
      else
        scan.skip();
    }
    return group;
  });
  return is && is.value();
}

std::vector<std::string> find_array_names(const StorePtr& store, std::span<const ListEntry> keys) {
  std::vector<std::string> names;
  for (const auto& entry : keys) {
    const std::string_view last = name_of(entry.key);
    if (last != ".zarray" && (last != "zarr.json" || is_group(store, entry.key))) continue;
    const std::size_t slash = entry.key.rfind('/');
    names.push_back(entry.key.substr(0, slash == std::string::npos ? 0 : slash));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::optional<std::string_view> array_of_key(std::string_view key) {
  const auto is_array_key = [](std::string_view k) {
    return is_chunk_key(k) || is_metadata_name(k);
  };
  std::string_view array;
  const bool found = any_parent(key, [&](std::string_view name) {
    array = name;
    return is_array_key(key.substr(name.size() + 1));
  });
  if (found) return array;
  return is_array_key(key) ? std::optional(std::string_view()) : std::nullopt;
}

bool is_metadata_key(std::string_view key) { return is_metadata_name(name_of(key)); }

void read_arrays(std::span<const zarr::BoxRead> reads, const WorkLimits& limits,
                 const ProgressFn& progress) {
  Progress counter;
  for (const auto& read : reads) counter.total += view_bytes(*read.out);
  with_progress(counter, progress, [&] {
    ByteBudget budget(limits.memory);
    zarr::read_boxes(reads, {.executor = limits.executor,
                             .budget = &budget,
                             .progress = &counter,
                             .streams = limits.streams});
  });
}

std::vector<std::string> read_strings(const zarr::ZarrArray& array, zarr::MissingChunk missing,
                                      std::uint64_t memory) {
  return zarr::read_strings(array, missing, zarr::most_object_bytes(memory));
}

std::vector<CheckedArray> verify_arrays(std::span<const ArrayCheck> checks, WorkShare share,
                                        const WorkLimits& limits, const ProgressFn& progress) {
  const std::vector<Task> tasks = tasks_of(checks, share);
  Progress counter;
  for (const Task& task : tasks) {
    const auto& metadata = checks[task.check].array->metadata();
    const std::uint64_t chunk_bytes =
        static_cast<std::uint64_t>(element_count(metadata.chunk_shape)) * metadata.element_size;
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(element_count(metadata.shape)) * metadata.element_size;
    counter.total +=
        std::min(bytes, static_cast<std::uint64_t>(task.run.end - task.run.begin) * chunk_bytes);
  }
  std::vector<CheckedArray> found(tasks.size());
  with_progress(counter, progress, [&] {
    ByteBudget budget(limits.memory);
    Executor& executor = limits.executor != nullptr ? *limits.executor : default_executor();
    executor.for_each(tasks.size(), [&](std::size_t i) {
      const ArrayCheck& check = checks[tasks[i].check];
      const zarr::ReadContext context{.executor = limits.executor,
                                      .budget = &budget,
                                      .progress = &counter,
                                      .inline_values_protected = check.in_database,
                                      .must_suit_tensorstore = check.must_suit_tensorstore};
      found[i] =
          zarr::verify_array(*check.array, check.label, check.missing, context, tasks[i].run);
      found[i].tensor = tasks[i].check;
    });
  });
  return found;
}

}  // namespace cairn::inline v0::handlers
