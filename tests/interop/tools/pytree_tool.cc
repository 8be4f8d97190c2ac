// pytree_tool.cc -- drives PyTreeCheckpointHandler as a list of jobs on stdin says; trees are as in
// tree_json.h. A job with "owners" is a save by several processes (threads, here), each with the
// shards of its own devices.
//
// "aggregate_save" and "aggregate_restore" are MsgpackHandler's; "dir" is then the file. With
// "primary", two processes save, each to a file with its number behind that name.
// "save_checkpoint" is a whole checkpoint by cairn::save, with "use_ocdbt" and "use_zarr3".
// "save_step" is one by AsyncCheckpointer, with the item "item_name". "save_in_place" is one whose
// marker comes last; with "force" it replaces an older one.
//
// In:  [{"op": "save" | "async_save" | "save_checkpoint" | "save_step" | "finalize" | "restore" |
// "metadata", "dir": folder, "options": {"use_ocdbt": true, ...},
//        "item": tree, "save_args": tree, "ocdbt_target_data_file_size": n, "custom_metadata":
//        text, "restore_args": tree,
//        "transforms": [[pattern, {"original_key", "use_fallback", "value_fn", "multi_value_fn",
//        "inputs": [[pattern, restore args], ...]}]], "nested": false, "to_stored": true,
//        "partial": false, "events": true, "owners": [[device, ...] of process 0, ...], "primary": 0, "array":
//        {"use_replica_parallel": true, ...},
//        "item_metadata": folder, "args_metadata": folder: the metadata of the tree that is stored there is the item,
//        or the restore_args
//        "function": [[new path, stored path, {"skip": true, "name": text, "type": text, "value": tree, "no_info":
//        true}], ...]: a legacy_transform_fn that makes a tree of dicts of these leaves
//        "infos": true: "typestrs" are those of a legacy_transform_fn's infos
//        "late": true: an error of async_save's futures says so
//        "calls": true: of the handler of strings, with the number of leaves
//        "closed": true: the handler is closed first
//        "callbacks": true: of the ArrayHandler; "told" lists their calls, and when the save returned
//        "validator": text: an array_metadata_validator that refuses with this text, or accepts if it is ""
//        "priorities": {name: "synchronous" | "prioritized" | "deprioritized"}: by key_priority
//        "numpy_only": true: the registry has only the handler of host arrays
//        "barrier_prefix": text or null: the names of the collectives of process 0 are returned
//        }]
// Out: for each job {"tree": ..., "events": [...]}, {"done": true, "compared": [[[name, ...],
// [name, ...]], ...], "copied": [[name, ...] before the save returned, [name, ...] later],
// "barriers": [text, ...]} or {"error": text, "code": "invalid_argument"}
#include <cairn/base/json/json.h>
#include <cairn/open.h>
#include <cairn/orbax/aggregate_handler.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tests/interop/tools/answer_jobs.h"
#include "tests/interop/tools/save_jobs.h"
#include "tests/interop/tools/tree_json.h"
#include "tests/support/processes.h"

namespace {

using namespace cairn;
using namespace cairn::testing;

// Collects events, of any thread.
class Events {
 public:
  void add(const Event& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(parse_json(event_json(event)));
  }
  Json taken() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  std::mutex mutex_;
  JsonArray events_;
};

// Passes all calls on, and keeps the names of the collectives.
class NamedCalls : public Coordinator {
 public:
  explicit NamedCalls(std::shared_ptr<Coordinator> job) : job_(std::move(job)) {}
  [[nodiscard]] std::size_t process_index() const override { return job_->process_index(); }
  [[nodiscard]] std::size_t process_count() const override { return job_->process_count(); }
  void barrier(std::string_view name, Timeout timeout) override {
    add(name);
    job_->barrier(name, timeout);
  }
  Bytes broadcast(std::string_view name, ByteView value, std::size_t root,
                  Timeout timeout) override {
    add(name);
    return job_->broadcast(name, value, root, timeout);
  }
  std::vector<Bytes> all_gather(std::string_view name, ByteView value, Timeout timeout) override {
    add(name);
    return job_->all_gather(name, value, timeout);
  }
  std::vector<Bytes> exchange(std::string_view name, ByteView value, const Delivery& between,
                              Timeout timeout) override {
    add(name);
    return job_->exchange(name, value, between, timeout);
  }
  void abort(std::string_view name, std::string_view why) noexcept override {
    job_->abort(name, why);
  }
  [[nodiscard]] Json names() const {
    const std::lock_guard lock(mutex_);
    return names_;
  }

 private:
  void add(std::string_view name) {
    const std::lock_guard lock(mutex_);
    names_.emplace_back(std::string(name));
  }
  std::shared_ptr<Coordinator> job_;
  mutable std::mutex mutex_;
  JsonArray names_;
};

// Returns the names of the collectives of process 0, whose events go to the observer.
Json save_together(const Json& job, const Observer& observer) {
  const PyTreeSaveArgs whole = save_args_of(job);
  Json names;
  const auto errors = run_as_processes(
      job.find("owners")->as_array()->size(), [&](const std::shared_ptr<Coordinator>& mine) {
        const auto named = std::make_shared<NamedCalls>(mine);
        const bool is_first = mine->process_index() == 0;
        save_part(job, whole, named, is_first ? observer : Observer());
        if (is_first) names = named->names();
      });
  for (const auto& error : errors)
    if (error) throw Error(*error);
  return names;
}

// ---- priorities ----

// The order in which arrays are copied from their devices.
class Copies {
 public:
  // The tree with device arrays that are copied when they are needed, all of which tell.
  Tree watched(const Tree& tree) {
    return map_leaves(tree, [&](const KeyPath& path, const Tree& leaf) {
      const auto* whole = leaf.custom<ShardedArray>();
      if (whole == nullptr) return leaf;
      ShardedArray out = *whole;
      for (ArrayShard& shard : out.shards)
        shard.source = ShardCopy([this, name = path.back().text, from = *whole, box = shard.box](
                                     const Box& part, const MutableArrayView& to) {
          add(name);
          Box inside = part;
          for (std::size_t d = 0; d < part.rank(); ++d) inside.origin[d] += box.origin[d];
          copy_box(from, inside, to);
        });
      return Tree(std::move(out));
    });
  }
  // The names since the last call, each once.
  Json taken() {
    const std::lock_guard lock(mutex_);
    JsonArray out;
    for (const std::string& name : std::exchange(names_, {}))
      if (std::find(out.begin(), out.end(), Json(name)) == out.end()) out.emplace_back(name);
    return out;
  }

 private:
  void add(const std::string& name) {
    const std::lock_guard lock(mutex_);
    names_.push_back(name);
  }
  std::mutex mutex_;
  std::vector<std::string> names_;
};

std::shared_ptr<const TypeHandlerRegistry> registry_with_priorities(const Json& by_name) {
  ArrayHandler::Options array;
  array.key_priority = [by_name](const KeyPath& path) {
    const std::string& priority = *by_name.find(path.back().text)->as_string();
    if (priority == "synchronous") return TransferPriority::kSynchronous;
    return priority == "prioritized" ? TransferPriority::kAsynchronousPrioritized
                                     : TransferPriority::kAsynchronousDeprioritized;
  };
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(ShardedArray), std::make_shared<ArrayHandler>(array), {nullptr, true});
  return registry;
}

std::shared_ptr<const TypeHandlerRegistry> registry_without_devices() {
  auto registry = std::make_shared<TypeHandlerRegistry>();
  registry->add(typeid(Array), std::make_shared<NumpyHandler>());
  return registry;
}

// Notes the calls of an ArrayHandler's callbacks.
class Callbacks {
 public:
  // The function to be told; null if nobody asks.
  Told told(bool asked) {
    if (!asked) return nullptr;
    return [this](const char* what, const KeyPath& path) {
      add(JsonArray{what, param_name(path)});
    };
  }
  void returned() { add(JsonArray{"returned"}); }
  Json taken() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }

 private:
  void add(Json call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }
  std::mutex mutex_;
  JsonArray calls_;
};

// Notes the calls that the handler of strings gets.
class CountingStrings : public StringHandler {
 public:
  explicit CountingStrings(JsonArray& calls) : calls_(calls) {}
  [[nodiscard]] std::string typestr() const override { return "counted"; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const override {
    calls_.push_back(JsonArray{"metadata", infos.size()});
    return StringHandler::metadata(infos);
  }
  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs> args) const override {
    calls_.push_back(JsonArray{"serialize", values.size(), infos.front().value_typestr});
    return StringHandler::serialize(values, infos, args);
  }
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo> infos,
                                              std::span<const AnyRestoreArgs> args) const override {
    calls_.push_back(JsonArray{"deserialize", infos.size()});
    return StringHandler::deserialize(infos, args);
  }
  void finalize(const std::string& directory) const override {
    calls_.push_back(JsonArray{"finalize", directory});
  }

 private:
  JsonArray& calls_;
};

std::shared_ptr<const TypeHandlerRegistry> counting_registry(JsonArray& calls) {
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(std::string), std::make_shared<CountingStrings>(calls), {nullptr, true});
  return registry;
}

void wait_for(const std::vector<std::shared_future<void>>& futures, bool says_late) {
  try {
    for (const auto& future : futures) future.get();
  } catch (const Error& e) {
    if (!says_late) throw;
    throw Error(e.code(), "late: " + e.message());
  }
}

// Leaves everything as it is, and notes the typestrs of the infos.
LegacyTransformFn typestrs_into(Json& found) {
  return [&found](const Tree& /*item*/, const StoredStructure& stored) {
    for (const TreeEntry& entry : flatten(stored.param_infos))
      if (const auto* info = entry.value.custom<ParamInfo>())
        found.set(info->name, info->value_typestr);
    return stored;
  };
}

// Each of two processes saves to a file of its own.
void aggregate_save_together(const std::string& path, const Tree& tree, std::size_t primary) {
  const auto errors = run_as_processes(2, [&](const std::shared_ptr<Coordinator>& mine) {
    MsgpackHandler::Options options;
    options.multiprocessing_options = {.coordinator = mine, .primary_host = primary};
    MsgpackHandler(options).serialize(path + std::to_string(mine->process_index()), tree);
  });
  for (const auto& error : errors)
    if (error) throw Error(*error);
}

// Saves in the background; returns what was copied before the call returned, and what later.
Json save_watched(PyTreeCheckpointHandler& handler, const std::string& directory,
                  PyTreeSaveArgs args) {
  Copies copies;
  args.item = copies.watched(args.item);
  const auto futures = handler.async_save(directory, args);
  Json before = copies.taken();
  for (const auto& future : futures) future.get();
  return JsonArray{std::move(before), copies.taken()};
}

// ---- legacy_transform_fn ----

KeyPath path_of(const Json& keys) {
  KeyPath path;
  for (const Json& key : *keys.as_array()) path.push_back({*key.as_string()});
  return path;
}

const Tree& leaf_at(const Tree& tree, const KeyPath& path) {
  const Tree* node = &tree;
  for (const Key& key : path) node = node->find(key.text);
  return *node;
}

LegacyTransformFn function_of(const Json& moves) {
  return [moves](const Tree& /*item*/, const StoredStructure& stored) {
    std::vector<TreeEntry> structure, infos;
    for (const Json& move : *moves.as_array()) {
      const KeyPath to = path_of(move.as_array()->at(0)), from = path_of(move.as_array()->at(1));
      const Json& change = move.as_array()->at(2);
      Tree leaf = leaf_at(stored.structure, from), info = leaf_at(stored.param_infos, from);
      if (const auto* of = info.custom<ParamInfo>()) {
        ParamInfo other = *of;
        set(change, "skip", other.skip_deserialize);
        if (const Json* name = given(change, "name")) other.name = *name->as_string();
        info = Tree(CustomLeaf::of(std::move(other)));
      }
      if (const Json* type = given(change, "type"))
        leaf = Tree(CustomLeaf::of(LeafType{*type->as_string()}));
      if (const Json* value = given(change, "value")) leaf = tree_from_json(*value);
      structure.push_back({to, std::move(leaf)});
      if (!given(change, "no_info")) infos.push_back({to, std::move(info)});
    }
    return StoredStructure{unflatten(std::move(structure)), unflatten(std::move(infos))};
  };
}

// ---- transforms, with the two functions that the test knows ----

// The value as text.
Tree shown(const Tree& value) { return Tree("f:" + to_text(tree_to_json(value))); }

// The key, the arguments and what was read, as text.
Tree all_shown(std::string_view key, const Tree& stored, const AnyRestoreArgs& args) {
  const ArrayRestoreArgs* array = array_restore_args(args);
  const auto dtype = array ? array->dtype : std::get<RestoreArgs>(args).dtype;
  JsonArray leaves;
  for (const TreeEntry& entry : flatten(stored, DictOrder::kSorted)) {
    std::string path;
    for (const Key& part : entry.path) path += "/" + part.text;
    const bool is_known = !std::holds_alternative<EmptyNode>(entry.value.value()) &&
                          !std::holds_alternative<Placeholder>(entry.value.value());
    leaves.push_back(JsonArray{path, is_known ? tree_to_json(entry.value) : Json()});
  }
  return Tree("m:" + to_text(JsonArray{std::string(key), array != nullptr,
                                       dtype ? Json(dtype_name(*dtype)) : Json(),
                                       Json(std::move(leaves))}));
}

AnyRestoreArgs any_args(const Json& json) {
  const Tree tree = tree_from_json(json);
  if (const auto* array = tree.custom<ArrayRestoreArgs>()) return *array;
  return *tree.custom<RestoreArgs>();
}

RestoreTransform transform_of(const Json& spec) {
  RestoreTransform out;
  if (const Json* key = given(spec, "original_key")) out.transform.original_key = *key->as_string();
  out.transform.use_fallback = given(spec, "use_fallback") != nullptr;
  if (given(spec, "value_fn")) out.transform.value_fn = shown;
  if (given(spec, "multi_value_fn")) out.multi_value_fn = all_shown;
  if (const Json* inputs = given(spec, "inputs")) {
    out.transform.multi_value_fn_input_args.emplace();
    for (const Json& input : *inputs->as_array()) {
      out.transform.multi_value_fn_input_args->push_back(*input.as_array()->at(0).as_string());
      out.input_args.push_back(any_args(input.as_array()->at(1)));
    }
  }
  return out;
}

// Nested: the same transforms as a tree of dicts, split at "/".
RestoreTransforms transforms_of(const Json& list, bool nested) {
  RestoreTransforms out;
  for (const Json& pair : *list.as_array())
    out.emplace_back(*pair.as_array()->at(0).as_string(), transform_of(pair.as_array()->at(1)));
  if (!nested || out.empty()) return out;
  std::vector<TreeEntry> entries;
  for (const auto& [pattern, transform] : out) {
    TreeEntry& entry = entries.emplace_back();
    for (std::size_t at = 0; at <= pattern.size();) {
      const std::size_t end = std::min(pattern.find('/', at), pattern.size());
      entry.path.push_back({pattern.substr(at, end - at)});
      at = end + 1;
    }
    entry.value = Tree(CustomLeaf::of(transform));
  }
  return flatten_restore_transforms(unflatten(std::move(entries)));
}

Json run(const Json& job) {
  PyTreeCheckpointHandlerOptions options =
      given(job, "options") ? options_of(*job.find("options")) : PyTreeCheckpointHandlerOptions{};
  Events events;
  JsonArray compared;
  if (const Json* refuses = given(job, "validator"))
    options.array_metadata_validator = [&compared,
                                        why = *refuses->as_string()](const auto& by_process) {
      const auto names = [](const std::vector<SavedArrayMetadata>& arrays) {
        JsonArray out;
        for (const SavedArrayMetadata& array : arrays) out.emplace_back(array.param_name);
        return out;
      };
      JsonArray all;
      for (const auto& [process, arrays] : by_process)
        all.push_back(JsonArray{static_cast<std::int64_t>(process), names(arrays)});
      compared.emplace_back(std::move(all));
      if (!why.empty()) throw Error(Code::kDataLoss, why);
    };
  if (const Json* by_name = given(job, "priorities"))
    options.type_handler_registry = registry_with_priorities(*by_name);
  Callbacks callbacks;
  if (const Json* array = given(job, "array"); array != nullptr && !given(job, "owners"))
    options.type_handler_registry =
        registry_of(*array, callbacks.told(given(job, "callbacks") != nullptr));
  JsonArray calls;
  if (given(job, "calls")) options.type_handler_registry = counting_registry(calls);
  if (given(job, "numpy_only")) options.type_handler_registry = registry_without_devices();
  if (given(job, "events")) options.observer = [&](const Event& event) { events.add(event); };
  const Observer observer = options.observer;
  PyTreeCheckpointHandler handler(std::move(options));
  const std::string& op = *job.find("op")->as_string();
  const std::string& directory = *job.find("dir")->as_string();
  Json out;
  if (given(job, "closed")) handler.close();
  if (given(job, "owners")) {
    Json names = save_together(job, observer);
    out.set("done", true);
    if (job.find("barrier_prefix") != nullptr) out.set("barriers", std::move(names));
  } else if (op == "save_watched") {
    out.set("copied", save_watched(handler, directory, save_args_of(job)));
    out.set("done", true);
  } else if (op == "save" || op == "async_save") {
    PyTreeSaveArgs args = save_args_of(job);
    if (const Json* of = given(job, "item_metadata"))
      args.item = handler.metadata(*of->as_string()).tree;
    if (op == "save") {
      handler.save(directory, args);
    } else {
      const auto futures = handler.async_save(directory, args);
      callbacks.returned();
      wait_for(futures, given(job, "late") != nullptr);
    }
    handler.finalize(directory);
    out.set("done", true);
    if (given(job, "callbacks")) out.set("told", callbacks.taken());
  } else if (op == "save_checkpoint") {
    SaveOptions save_options;
    set(*job.find("options"), "use_ocdbt", save_options.use_ocdbt);
    set(*job.find("options"), "use_zarr3", save_options.use_zarr3);
    save(directory, tree_from_json(*job.find("item")), save_options);
    out.set("done", true);
  } else if (op == "save_in_place") {
    PyTreeCheckpointHandlerOptions in_place = options_of(*job.find("options"));
    in_place.commit_protocol = CommitProtocol::kCommitMarker;
    Checkpointer(in_place).save(
        directory, save_args_of(job),
        {.if_exists = given(job, "force") ? IfExists::kReplace : IfExists::kFail});
    out.set("done", true);
  } else if (op == "save_step") {
    AsyncCheckpointer checkpointer(options_of(*job.find("options")));
    checkpointer.save(directory, save_args_of(job), {.item = *job.find("item_name")->as_string()});
    checkpointer.wait_until_finished();
    out.set("done", true);
  } else if (op == "finalize") {
    handler.finalize(directory);
    out.set("done", true);
    if (given(job, "validator")) out.set("compared", std::move(compared));
  } else if (op == "restore") {
    PyTreeRestoreArgs args;
    if (const Json* of = given(job, "item_metadata"))
      args.item = handler.metadata(*of->as_string()).tree;
    if (const Json* of = given(job, "args_metadata"))
      args.restore_args = handler.metadata(*of->as_string()).tree;
    if (const Json* of = given(job, "function")) args.legacy_transform_fn = function_of(*of);
    if (const Json* of = given(job, "item")) args.item = tree_from_json(*of);
    if (const Json* of = given(job, "restore_args")) args.restore_args = tree_from_json(*of);
    bool nested = false;
    set(job, "nested", nested);
    if (const Json* of = given(job, "transforms")) args.transforms = transforms_of(*of, nested);
    set(job, "to_stored", args.transforms_default_to_original);
    set(job, "partial", args.partial_restore);
    Json typestrs = JsonObject();
    if (given(job, "infos")) args.legacy_transform_fn = typestrs_into(typestrs);
    out.set("tree", tree_to_json(handler.restore(directory, args)));
    if (given(job, "infos")) out.set("typestrs", std::move(typestrs));
  } else if (op == "metadata") {
    const PyTreeMetadata metadata = handler.metadata(directory);
    out.set("tree", tree_to_json(metadata.tree));
    out.set("custom_metadata", metadata.custom_metadata);
    out.set("use_zarr3", metadata.use_zarr3);
  } else if (op == "aggregate_save") {
    MsgpackHandler::Options rich;
    set(job, "rich", rich.support_rich_types);
    const Tree tree = tree_from_json(*job.find("item"));
    if (const Json* primary = given(job, "primary"))
      aggregate_save_together(directory, tree, static_cast<std::size_t>(*primary->as_int64()));
    else
      MsgpackHandler(rich).serialize(directory, tree);
    out.set("done", true);
  } else if (op == "aggregate_restore") {
    out.set("tree", tree_to_json(MsgpackHandler().deserialize(directory)));
  } else {
    throw std::runtime_error("no such job: " + op);
  }
  handler.close();
  if (given(job, "calls")) out.set("calls", std::move(calls));
  if (given(job, "events")) out.set("events", events.taken());
  return out;
}

}  // namespace

int main() {
  cairn::JsonLimits limits;
  limits.max_depth = 500;
  cairn::testing::answer_list(run, limits);
}
