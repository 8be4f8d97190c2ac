// to_torch.cc -- converts a plan to a tree that torch.load reads.
#include <cairn/tools/convert/to_torch.h>

#include <cairn/distributed/process_group.h>
#include <cairn/pytorch.h>
#include <cairn/tools/convert/planned_tree.h>

namespace cairn::inline v0 {

void write_as_torch(const PlannedSource& from, const std::string& target, const FetchFn& fetch,
                    const ConvertOptions& options) {
  TorchWriteOptions write;
  if (const auto types = from.plan.key_types.find(""); types != from.plan.key_types.end())
    write.key_types = types->second;
  write.if_exists = options.if_exists;
  write.store = options.store;
  write.resources = {.threads = options.resources.threads, .memory = from.plan.memory};
  write.progress = options.progress;
  write.multiprocessing = options.multiprocessing;
  Tree tree;
  distributed::ProcessGroup(options.multiprocessing)
      .step("convert: leaves", distributed::StepKind::kControl, [&] {
        tree = planned_tree(from, {.bytes_in_memory = true});
      });
  write_torch(target, tree, from.plan.targets, fetch, write);
}

}  // namespace cairn::inline v0
