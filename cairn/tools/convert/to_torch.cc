// to_torch.cc -- converts a plan to a tree that PyTorch reads.
#include <cairn/tools/convert/to_torch.h>

#include <cairn/distributed/process_group.h>
#include <cairn/pytorch.h>
#include <cairn/tools/convert/planned_tree.h>
#include <cairn/tools/dcp/dcp_folder.h>

#include <vector>

namespace cairn::inline v0 {
namespace {

// `shares_ties`: as PlannedTreeOptions.
Tree torch_tree(const PlannedSource& from, const ConvertOptions& options, bool shares_ties) {
  Tree tree;
  distributed::ProcessGroup(options.multiprocessing)
      .step("convert: leaves", distributed::StepKind::kControl, [&] {
        tree = planned_tree(from, {.values_in_memory = true, .shares_ties = shares_ties});
      });
  return tree;
}

// The options that both forms have.
template <class Options>
Options write_options(const PlannedSource& from, const ConvertOptions& options) {
  Options write;
  if (const auto types = from.plan.key_types.find(""); types != from.plan.key_types.end())
    write.key_types = types->second;
  write.if_exists = options.if_exists;
  write.store = options.store;
  write.resources = {.threads = options.resources.threads, .memory = from.plan.memory};
  write.progress = options.progress;
  write.multiprocessing = options.multiprocessing;
  return write;
}

}  // namespace

void write_as_torch(const PlannedSource& from, const std::string& target, const FetchFn& fetch,
                    const ConvertOptions& options) {
  write_torch(target, torch_tree(from, options, true), from.plan.targets, fetch,
              write_options<TorchWriteOptions>(from, options));
}

void write_as_dcp(const PlannedSource& from, const std::string& target, const FetchFn& fetch,
                  const ConvertOptions& options) {
  auto write = write_options<DcpOptions>(from, options);
  if (options.dcp.chunk_bytes) write.chunks.chunk_bytes = *options.dcp.chunk_bytes;
  for (const Relayout& relayout : from.plan.relayouts)
    write.chunks.shapes.push_back(relayout.piece);
  write_dcp(target, torch_tree(from, options, false), from.plan.targets, fetch, write);
}

}  // namespace cairn::inline v0
