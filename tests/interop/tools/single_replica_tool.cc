// single_replica_tool.cc -- restores with SingleReplicaArrayHandler in several processes (threads,
// here), as a list of jobs on stdin says; trees are as in tree_json.h.
//
// In:  [{"dirs": [folder of process 0, ...], "owners": [[device, ...] of process 0, ...] or [null]
// for one that is alone and does not say,
//        "options": {"replica_axis_index": 0, "primary_replica_id": 0,
//        "broadcast_memory_limit_bytes": n,
//        "broadcast_memory_scaling_factor": x}, "restore_args": [tree of process 0, ...], "item":
//        target}]
// Out: for each job {"tree": ..., "events": [name, ...] of all processes}, arrays put together of
// all processes' shards, the other leaves process 0's; or {"error": text, "code":
//      "invalid_argument"}, of the first process that failed
#include <cairn/array/box.h>
#include <cairn/base/json/json.h>
#include <cairn/orbax/checkpointer.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tests/interop/tools/answer_jobs.h"
#include "tests/interop/tools/tree_json.h"
#include "tests/support/processes.h"
#include "tests/support/same_bytes.h"

namespace {

using namespace cairn;
using namespace cairn::testing;

const Json* given(const Json& json, const char* name) {
  const Json* found = json.find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::shared_ptr<const TypeHandlerRegistry> registry_of(const Json& json) {
  SingleReplicaArrayHandler::Options options;
  if (const Json* of = given(json, "replica_axis_index"))
    options.replica_axis_index = *of->as_int64();
  if (const Json* of = given(json, "primary_replica_id"))
    options.primary_replica_id = *of->as_int64();
  if (const Json* of = given(json, "broadcast_memory_limit_bytes"))
    options.broadcast_memory_limit_bytes = *of->as_int64();
  if (const Json* of = given(json, "broadcast_memory_scaling_factor"))
    options.broadcast_memory_scaling_factor = *of->as_double();
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(ShardedArray), std::make_shared<SingleReplicaArrayHandler>(options),
                {nullptr, true});
  return registry;
}

// Throws unless every shard is that part of the array.
void check_shards(const ShardedArray& array) {
  const Array whole = gather_shards(array);
  for (const ArrayShard& shard : array.shards) {
    Array want = Array::allocate(array.dtype, shard.box.shape),
          have = Array::allocate(array.dtype, shard.box.shape);
    copy_elements(subview(whole.view(), shard.box), want.mutable_view());
    copy_elements(std::get<HostMemory>(shard.source).view, have.mutable_view());
    if (!same_array(have, want)) throw Error(Code::kDataLoss, "replicas differ");
  }
  if (array.shards.size() != device_boxes(array.sharding, array.shape).size())
    throw Error(Code::kDataLoss, "devices are missing");
}

Tree together(const std::vector<Tree>& trees) {
  return map_leaves(trees[0], [&](const KeyPath& path, const Tree& leaf) {
    const auto* first = leaf.custom<ShardedArray>();
    if (first == nullptr) return leaf;
    ShardedArray all = *first;
    for (std::size_t p = 1; p < trees.size(); ++p) {
      const Tree* node = &trees[p];
      for (const Key& key : path) node = node->find(key.text);
      const auto& shards = node->custom<ShardedArray>()->shards;
      all.shards.insert(all.shards.end(), shards.begin(), shards.end());
    }
    check_shards(all);
    return Tree(std::move(all));
  });
}

// Names of events, of any thread.
class EventNames {
 public:
  [[nodiscard]] Observer observer() {
    return [this](const Event& event) {
      const std::lock_guard lock(mutex_);
      names_.emplace_back(std::string(event.name));
    };
  }
  [[nodiscard]] Json taken() { return names_; }

 private:
  std::mutex mutex_;
  JsonArray names_;
};

Tree restore(const Json& job, const Observer& observer) {
  const auto& owners = *job.find("owners")->as_array();
  std::vector<Tree> trees(owners.size());
  const auto errors =
      run_as_processes(owners.size(), [&](const std::shared_ptr<Coordinator>& mine) {
        const std::size_t me = mine->process_index();
        PyTreeCheckpointHandlerOptions options;
        options.resources.threads = 1;
        options.observer = observer;
        options.type_handler_registry = registry_of(*job.find("options"));
        options.multiprocessing_options = {.coordinator = mine,
                                           .timeout = std::chrono::seconds(60)};
        if (!owners[me].is_null()) {
          auto& devices = options.multiprocessing_options.local_devices.emplace();
          for (const Json& device : *owners[me].as_array()) devices.push_back(*device.as_int64());
        }
        PyTreeRestoreArgs args;
        args.restore_args = tree_from_json((*job.find("restore_args")->as_array())[me]);
        if (const Json* of = given(job, "item")) args.item = tree_from_json(*of);
        trees[me] =
            Checkpointer(options).restore(*(*job.find("dirs")->as_array())[me].as_string(), args);
      });
  const auto failed = std::find_if(errors.begin(), errors.end(),
                                   [](const auto& error) { return error.has_value(); });
  if (failed == errors.end()) return together(trees);
  for (const auto& error : errors)
    if (!error || error->code() != (*failed)->code())
      throw Error(Code::kDataLoss, "not all processes failed alike: " + (*failed)->message());
  throw Error(**failed);
}

}  // namespace

int main() {
  cairn::testing::answer_list([](const Json& job) {
    EventNames events;
    Json tree = tree_to_json(restore(job, events.observer()));
    return JsonObject{{"tree", std::move(tree)}, {"events", events.taken()}};
  });
}
