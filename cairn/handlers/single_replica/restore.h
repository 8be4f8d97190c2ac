// restore.h -- arrays that one replica's processes read and give to the others, step by step, in
// all processes at once.
#pragma once

#include <cairn/distributed/consistency.h>
#include <cairn/distributed/process_group.h>
#include <cairn/distributed/transfer.h>
#include <cairn/handlers.h>
#include <cairn/handlers/array_restore.h>
#include <cairn/handlers/single_replica/replicas.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::handlers {

class SingleReplicaRestore {
 public:
  // `infos` and `args` run parallel, are not empty, and live as long as it.
  SingleReplicaRestore(std::span<const ParamInfo> infos, std::span<const AnyRestoreArgs> args,
                       const SingleReplicaArrayHandler::Options& options);

  // The arrays, in the order of `infos`. Once. Throws what SingleReplicaArrayHandler does.
  std::vector<ShardedArray> run();

 private:
  // The steps.
  void agree_on_arguments();
  void agree_on_arrays();
  void read();
  void broadcast();
  void add_parcels(RestoringArray& array, std::vector<distributed::Transfer>& transfers) const;

  [[nodiscard]] Bytes check_arguments();
  void take_mesh(const NamedSharding& sharding);
  [[nodiscard]] std::int64_t own_limit() const;
  void describe_arrays();
  [[nodiscard]] std::vector<std::uint64_t> bytes_per_device() const;

  std::span<const ParamInfo> infos_;
  std::span<const AnyRestoreArgs> args_;
  const SingleReplicaArrayHandler::Options& options_;
  const ItemReader& reader_;
  MultiprocessingOptions processes_;
  distributed::ProcessGroup group_;
  std::optional<Replicas> replicas_;
  std::vector<NamedSharding> shardings_;  // of the results
  distributed::Consent meant_;            // what the arguments say
  std::uint64_t longest_message_ = 0;     // that all coordinators take
  bool reads_ = false;                    // whether this process is one of the primary replica's
  std::vector<TensorInfo> stored_;        // where it is
  std::vector<RestoringArray> arrays_;
  std::int64_t limit_ = 0;  // of a group
};

}  // namespace cairn::handlers
