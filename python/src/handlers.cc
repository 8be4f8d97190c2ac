// handlers.cc -- the handler's saves for Python. Its restores are those of the reader.
#include "handlers.h"

#include "calls.h"
#include "coordinator.h"
#include "gil.h"
#include "leaf_handlers.h"
#include "values/arrays.h"
#include "values/text.h"
#include "values/trees.h"

#include <cairn/error.h>
#include <cairn/observer.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

using Texts = std::vector<std::string>;

// The save arguments of leaves: (keys, dtype or None, chunk bytes or None, shard axes, shape of a
// shard or None, shape of its chunks or None) each.
std::map<Texts, SaveArgs> leaf_arguments(nb::list given) {
  std::map<Texts, SaveArgs> result;
  for (const nb::handle one : given) {
    SaveArgs args;
    if (const auto name = nb::cast<std::optional<std::string>>(one[1])) {
      args.dtype = dtype_from_name(*name);
      if (!args.dtype) throw Error(Code::kInvalidArgument, "dtype: unknown type '" + *name + "'");
    }
    args.chunk_byte_size = nb::cast<std::optional<std::int64_t>>(one[2]);
    args.shard_axes = nb::cast<std::vector<std::int64_t>>(one[3]);
    args.write_chunk_shape = nb::cast<std::optional<Shape>>(one[4]);
    args.read_chunk_shape = nb::cast<std::optional<Shape>>(one[5]);
    result.emplace(nb::cast<Texts>(one[0]), std::move(args));
  }
  return result;
}

// The tree of arguments for a tree to be saved. Leaves that have none get None.
Tree argument_tree(const Tree& item, const std::map<Texts, SaveArgs>& arguments) {
  return map_leaves(item, [&](const KeyPath& path, const Tree&) {
    Texts keys;
    for (const Key& key : path) keys.push_back(key.text);
    const auto found = arguments.find(keys);
    return found == arguments.end() ? Tree() : Tree(CustomLeaf::of(found->second));
  });
}

// A validator that calls a function of Python, or null for None. The function gets {process:
// [(name, write shape, chunk shape, implementation of a random key), ...]}.
ArrayMetadataValidator array_validator(nb::object function) {
  if (function.is_none()) return {};
  return [kept = keep_alive(std::move(function))](
             const std::map<std::size_t, std::vector<SavedArrayMetadata>>& by_process) {
    const WithGil locked;
    nb::dict recorded;
    for (const auto& [process, arrays] : by_process) {
      nb::list some;
      for (const SavedArrayMetadata& one : arrays)
        some.append(nb::make_tuple(to_str(one.param_name), one.write_shape, one.chunk_shape,
                                   to_str(one.random_key_impl)));
      recorded[nb::int_(process)] = some;
    }
    call_python(static_cast<PyObject*>(const_cast<void*>(kept.get())), recorded);
  };
}

// The events of a handler's saves, until Python takes them.
class EventLog {
 public:
  void add(const Event& event) {
    Entry entry{std::string(event_level_name(event.level)), std::string(event.name), {}, {}};
    if (event.duration) entry.seconds = std::chrono::duration<double>(*event.duration).count();
    for (const EventAttribute& one : event.attributes) {
      const auto copy = [&](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string_view>)
          entry.attributes.emplace_back(one.name, std::string(value));
        else
          entry.attributes.emplace_back(one.name, value);
      };
      std::visit(copy, one.value);
    }
    const std::lock_guard lock(mutex_);
    if (entries_.size() < kMost) entries_.push_back(std::move(entry));
  }
  // [(level, name, seconds or None, {attribute: value}), ...]
  nb::list take() {
    std::vector<Entry> taken;
    {
      const std::lock_guard lock(mutex_);
      taken.swap(entries_);
    }
    nb::list out;
    for (const Entry& entry : taken) {
      nb::dict attributes;
      for (const auto& [name, value] : entry.attributes)
        attributes[to_str(name)] = std::visit(
            [](const auto& one) {
              if constexpr (std::is_same_v<std::decay_t<decltype(one)>, std::string>)
                return to_str(one);
              else
                return nb::object(nb::cast(one));
            },
            value);
      out.append(nb::make_tuple(entry.level, entry.name, entry.seconds, attributes));
    }
    return out;
  }

 private:
  static constexpr std::size_t kMost = 10'000;  // if nobody takes them
  struct Entry {
    std::string level, name;
    std::optional<double> seconds;
    std::vector<std::pair<std::string, std::variant<std::string, std::int64_t, double>>> attributes;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

// A write that goes on in the background.
class PendingWrite {
 public:
  PendingWrite(std::vector<std::shared_future<void>> futures, std::stop_source stop,
               std::optional<Job> job, std::shared_ptr<EventLog> events)
      : futures_(std::move(futures)),
        stop_(std::move(stop)),
        job_(std::move(job)),
        events_(std::move(events)) {}
  // The write ends soon, and wait() throws cancelled.
  void cancel() {
    stop_.request_stop();
    if (job_) job_->cancel();
  }
  // Returns the events of the handler since take_events().
  [[nodiscard]] nb::list wait() const {
    run_long(job_, [&](const CallControl&) {
      for (const auto& future : futures_) future.get();
    });
    return events_->take();
  }

 private:
  std::vector<std::shared_future<void>> futures_;
  std::stop_source stop_;
  std::optional<Job> job_;
  std::shared_ptr<EventLog> events_;
};

// The writes of this process that may go on. A call that Ctrl-C interrupts loses its PendingWrite,
// but the folder cannot be removed before its write has ended.
class RunningWrites {
 public:
  void add(const std::string& directory, const std::vector<std::shared_future<void>>& futures,
           const std::stop_source& stop) {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const Entry& entry) { return entry.has_ended(); });
    all_.push_back({normal(directory), futures, stop});
  }
  // Ends the writes in a folder and below it. Their errors are ignored.
  void stop(const std::string& directory) {
    const std::string folder = normal(directory);
    std::vector<Entry> found;
    {
      const std::lock_guard lock(mutex_);
      for (const Entry& entry : all_)
        if (entry.directory == folder || entry.directory.starts_with(folder + "/"))
          found.push_back(entry);
    }
    for (Entry& entry : found) entry.stop.request_stop();
    for (const Entry& entry : found)
      for (const auto& future : entry.futures) future.wait();
  }

 private:
  struct Entry {
    std::string directory;
    std::vector<std::shared_future<void>> futures;
    std::stop_source stop;
    [[nodiscard]] bool has_ended() const {
      return std::all_of(futures.begin(), futures.end(), [](const auto& future) {
        return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      });
    }
  };
  static std::string normal(const std::string& directory) {
    if (directory.find("://") != std::string::npos) return directory;
    std::string text = std::filesystem::path(directory).lexically_normal().string();
    if (text.size() > 1 && text.ends_with('/')) text.pop_back();
    return text;
  }

  std::mutex mutex_;
  std::vector<Entry> all_;
};

RunningWrites& running_writes() {
  static auto* const all = new RunningWrites;  // threads may outlive static objects
  return *all;
}

constexpr double kLongestLimit = 1e9;  // seconds

// Calls that wait give Python's lock back: the threads of a save take it to return borrowed
// objects.
class TreeHandler {
 public:
  explicit TreeHandler(PyTreeCheckpointHandlerOptions options) : options_(std::move(options)) {
    // One event for each array is too many to keep.
    options_.observer = [log = events_](const Event& event) {
      if (event.name != "save.chunk_shape_chosen") log->add(event);
    };
    handler_ = std::make_unique<PyTreeCheckpointHandler>(options_);
  }
  TreeHandler(const TreeHandler&) = delete;
  TreeHandler& operator=(const TreeHandler&) = delete;
  ~TreeHandler() {
    const WithoutGil unlocked;
    handler_.reset();
  }

  PendingWrite async_save(const PathText& directory, nb::handle tree, nb::list leaf_args,
                          std::optional<std::int64_t> target_file_bytes,
                          const std::string& custom_metadata, nb::object processes,
                          std::optional<double> time_limit, const std::optional<nb::dict>& handlers,
                          bool waits) {
    join(std::move(processes), time_limit, handlers, waits);
    PyTreeSaveArgs args;
    const std::stop_source stop;
    args.cancel = stop.get_token();
    const auto prepare = [&] {
      args.item = tree_from(tree);
      const auto arguments = leaf_arguments(std::move(leaf_args));
      if (!arguments.empty()) args.save_args = argument_tree(args.item, arguments);
      args.ocdbt_target_data_file_size = target_file_bytes;
      args.custom_metadata = custom_metadata;
    };
    std::vector<std::shared_future<void>> futures;
    run_prepared(job_, prepare, [&](const CallControl& call) {
      const std::stop_callback interrupted(call.cancel, [&] {
        if (waits) stop.request_stop();
      });
      futures = handler_->async_save(directory.place(), args);
      if (!job_) running_writes().add(directory.place(), futures, stop);
    });
    return {std::move(futures), stop, job_, events_};
  }
  void finalize(const PathText& directory) {
    run_long(nb::none(), [&](const CallControl&) { handler_->finalize(directory.place()); });
  }
  void close() {
    run_long(nb::none(), [&](const CallControl&) { handler_->close(); });
  }
  nb::list take_events() { return events_->take(); }

 private:
  // Each save has a job, a time limit in seconds, and options of leaves' handlers of its own. If
  // the caller waits, everything is written before async_save() returns, and nothing is copied.
  void join(nb::object processes, std::optional<double> time_limit,
            const std::optional<nb::dict>& handlers, bool waits) {
    std::optional<std::chrono::milliseconds> limit;
    if (time_limit)
      limit = std::chrono::ceil<std::chrono::milliseconds>(
          std::chrono::duration<double>(std::min(*time_limit, kLongestLimit)));
    job_ = Job::of(std::move(processes));
    const bool is_plain = !handlers && options_.type_handler_registry == nullptr;
    const std::optional<std::uint64_t> copied =
        waits ? std::optional<std::uint64_t>(0) : std::nullopt;
    const bool is_same = limit == options_.save_timeout && copied == options_.background_copy_bytes;
    if (!job_ && is_same && is_plain) return;
    options_.save_timeout = limit;
    options_.background_copy_bytes = copied;
    options_.type_handler_registry = handlers ? leaf_handlers(*handlers) : nullptr;
    if (job_) options_.multiprocessing_options = job_->options();
    const WithoutGil unlocked;
    handler_ = std::make_unique<PyTreeCheckpointHandler>(options_);
  }

  std::shared_ptr<EventLog> events_ = std::make_shared<EventLog>();
  PyTreeCheckpointHandlerOptions options_;
  std::optional<Job> job_;
  std::unique_ptr<PyTreeCheckpointHandler> handler_;
};

}  // namespace

void define_handlers(nb::module_& module) {
  module.def(
      "merge_ocdbt_per_process_files",
      [](const PathText& directory, bool use_zarr3, bool enable_validation, bool separately) {
        std::size_t merged = 0;
        run_long(nb::none(), [&](const CallControl&) {
          merged = merge_ocdbt_per_process_files(
              directory.place(), {.use_zarr3 = use_zarr3,
                                  .enable_validation = enable_validation,
                                  .store_ocdbt_metadata_and_values_separately = separately});
        });
        return merged;
      },
      nb::arg("directory"), nb::arg("use_zarr3"), nb::arg("enable_validation"),
      nb::arg("store_ocdbt_metadata_and_values_separately"));
  nb::class_<LeafType>(module, "LeafType", "The type of a leaf that somebody else stores.")
      .def(nb::init<std::string>(), nb::arg("typestr"));
  module.def(
      "make_leaf_folder",
      [](const PathText& directory, bool use_ocdbt) {
        return to_str(make_leaf_folder(directory.place(), use_ocdbt));
      },
      nb::arg("directory"), nb::arg("use_ocdbt"));
  module.def(
      "make_shared_leaf_folder",
      [](const PathText& directory, const std::string& id) {
        return to_str(make_shared_leaf_folder(directory.place(), id));
      },
      nb::arg("directory"), nb::arg("id"));
  module.def(
      "place_leaf_folder",
      [](const PathText& folder, const PathText& directory) {
        const WithoutGil unlocked;
        place_leaf_folder(folder.place(), directory.place());
      },
      nb::arg("folder"), nb::arg("directory"));
  module.def(
      "place_shared_leaf_folders",
      [](const PathText& directory) {
        const WithoutGil unlocked;
        place_shared_leaf_folders(directory.place());
      },
      nb::arg("directory"));
  nb::class_<PendingWrite>(module, "PendingWrite", "A write that goes on in the background.")
      .def("wait", &PendingWrite::wait)
      .def("cancel", &PendingWrite::cancel);
  nb::class_<TreeHandler>(module, "TreeHandler", "Writes the files of one tree.")
      .def(
          "__init__",
          [](TreeHandler* self, bool use_ocdbt, bool use_zarr3, bool use_compression,
             bool support_rich_types, std::optional<std::int64_t> save_concurrent_bytes,
             bool enable_post_merge_validation, std::optional<std::int64_t> device_host_bytes,
             std::optional<double> auto_device_host_gb, nb::object validator) {
            PyTreeCheckpointHandlerOptions options;
            options.use_ocdbt = use_ocdbt;
            options.use_zarr3 = use_zarr3;
            options.use_compression = use_compression;
            options.pytree_metadata_options.support_rich_types = support_rich_types;
            options.save_concurrent_bytes = save_concurrent_bytes;
            options.enable_post_merge_validation = enable_post_merge_validation;
            options.save_device_host_concurrent_bytes = device_host_bytes;
            if (auto_device_host_gb) options.save_device_host_concurrent_gb = AutoLimit{};
            options.memory_limit_options.max_transfer_concurrent_gb = auto_device_host_gb;
            options.array_metadata_validator = array_validator(std::move(validator));
            new (self) TreeHandler(std::move(options));
          },
          nb::kw_only(), nb::arg("use_ocdbt"), nb::arg("use_zarr3"), nb::arg("use_compression"),
          nb::arg("support_rich_types"), nb::arg("save_concurrent_bytes").none(),
          nb::arg("enable_post_merge_validation"), nb::arg("device_host_bytes").none(),
          nb::arg("auto_device_host_gb").none(), nb::arg("validator").none() = nb::none())
      .def("async_save", &TreeHandler::async_save, nb::arg("directory"), nb::arg("tree").none(),
           nb::arg("leaf_args"), nb::arg("target_file_bytes").none(), nb::arg("custom_metadata"),
           nb::arg("processes").none() = nb::none(), nb::arg("time_limit").none() = nb::none(),
           nb::arg("handlers").none() = nb::none(), nb::arg("waits") = false)
      .def_static(
          "stop_writes",
          [](const PathText& directory) {
            const WithoutGil unlocked;
            running_writes().stop(directory.place());
          },
          nb::arg("directory"))
      .def("finalize", &TreeHandler::finalize, nb::arg("directory"))
      .def("take_events", &TreeHandler::take_events)
      .def("close", &TreeHandler::close);
}

}  // namespace cairn::python
