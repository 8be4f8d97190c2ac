// dcp_plan.cc -- agrees with the other processes on who writes what.
#include <cairn/tools/dcp/dcp_plan.h>

#include <cairn/distributed/consistency.h>

#include <fmt/format.h>

namespace cairn::inline v0 {

using distributed::ProcessGroup;
using distributed::StepKind;

std::string dcp_data_file(std::size_t rank) { return fmt::format("__{}_0.distcp", rank); }

Bytes DcpPlan::metadata() const { return pytorch::distributed_metadata(entries, *own, files); }

DcpPlan plan_dcp(const ProcessGroup& group, const Tree& tree, std::span<const TensorSource> sources,
                 const std::vector<DictKeyTypes>& key_types, const pytorch::ChunkRules& chunks) {
  DcpPlan plan;
  distributed::ConsistencyCheck check("writes");
  std::vector<Bytes> messages = group.gather("write: entries", StepKind::kControl, [&] {
    plan.entries = pytorch::flatten_state(tree);
    std::string names;
    for (const pytorch::StateEntry& entry : plan.entries)
      names += entry.name + (entry.is_tensor ? " (a tensor)\n" : "\n");
    check.add("the processes do not save the same entries", names);
    return check.message();
  });
  check.check(messages, group, "write: other entries");
  messages = group.gather("write: plan", StepKind::kControl, [&] {
    plan.own = std::make_unique<pytorch::DistributedFile>(
        plan.entries, sources, key_types, chunks,
        pytorch::WriterShare{.sources = {group.index(), group.count()},
                             .has_values = group.is_primary()});
    return pytorch::parts_message(plan.own->parts());
  });
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].empty()) continue;
    if (rank == group.index()) plan.number = plan.files.size();
    plan.files.push_back({dcp_data_file(rank), pytorch::parts_of_message(messages[rank])});
  }
  return plan;
}

}  // namespace cairn::inline v0
