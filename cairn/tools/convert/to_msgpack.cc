// to_msgpack.cc -- converts a plan to a tree that can be serialized; its arrays are fetched later.
#include <cairn/tools/convert/to_msgpack.h>

#include <cairn/distributed/process_group.h>
#include <cairn/msgpack.h>
#include <cairn/tools/convert/planned_tree.h>

namespace cairn::inline v0 {

void write_as_msgpack(const PlannedSource& from, const std::string& target, const FetchFn& fetch,
                      const ConvertOptions& options) {
  MsgpackWriteOptions write;
  write.encoding.dialect = options.msgpack.dialect.value_or(MsgpackDialect::kFlaxState);
  write.if_exists = options.if_exists;
  write.store = options.store;
  write.resources = {.threads = options.resources.threads, .memory = from.plan.memory};
  write.progress = options.progress;
  write.multiprocessing = options.multiprocessing;
  Tree tree;
  distributed::ProcessGroup(options.multiprocessing)
      .step("convert: leaves", distributed::StepKind::kControl,
            [&] { tree = planned_tree(from, {.timestamps = true}); });
  write_msgpack(target, tree, from.plan.targets, fetch, write);
}

}  // namespace cairn::inline v0
