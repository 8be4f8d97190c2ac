// single_replica_reader.h -- restores by SingleReplicaArrayHandler over a reader that counts; the
// processes are threads.
#pragma once

#include <cairn/array/box.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/item_storage.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/processes.h"

namespace cairn::testing {

using Job = std::shared_ptr<Coordinator>;
using Stored = std::map<std::string, Array>;

inline Array numbers(DType dtype, Shape shape, std::uint64_t seed) {
  Array array = Array::allocate(dtype, std::move(shape));
  std::mt19937_64 random(seed);
  for (std::byte& b : std::span(array.mutable_view().data, array.bytes().size()))
    b = static_cast<std::byte>(random() & 0x7fU);
  return array;
}

// Arrays in memory, as one process reads them.
class Reader final : public ItemReader {
 public:
  Reader(
      const Stored& stored, MultiprocessingOptions processes,
      std::function<void()> before_reading = [] {})
      : stored_(stored),
        processes_(std::move(processes)),
        before_reading_(std::move(before_reading)) {}
  [[nodiscard]] std::vector<TensorInfo> arrays_under(std::span<const std::string_view> names,
                                                     const std::string&) const override {
    looked = true;
    std::vector<TensorInfo> infos;
    for (const std::string_view name : names) {
      const auto it = stored_.find(std::string(name));
      if (it == stored_.end()) throw Error(Code::kNotFound, std::string(name) + ": is not there");
      TensorInfo& info = infos.emplace_back();
      info.name = name;
      info.dtype = it->second.dtype();
      info.element_size = it->second.element_size();
      info.shape = info.chunk_shape = it->second.shape();
    }
    return infos;
  }
  [[nodiscard]] std::optional<std::string> sharding(const std::string&) const override {
    return std::nullopt;
  }
  // has no effect
  [[nodiscard]] std::string random_key_impl(const std::string&) const override {
    return "threefry2x32";
  }
  void read(std::span<const Read> reads) const override {
    before_reading_();
    for (const Read& read : reads) {
      boxes.emplace_back(std::string(read.name), read.box);
      copy_elements(subview(stored_.at(std::string(read.name)).view(), read.box), read.out);
    }
  }
  [[nodiscard]] std::string string_in(const std::string&, const std::string&) const override {
    return "";
  }
  [[nodiscard]] MultiprocessingOptions processes() const override { return processes_; }

  mutable std::vector<std::pair<std::string, Box>> boxes;  // that were read
  mutable bool looked = false;

 private:
  const Stored& stored_;
  MultiprocessingOptions processes_;
  std::function<void()> before_reading_;
};

inline MultiprocessingOptions processes_of(
    const Job& job, std::vector<std::int64_t> devices,
    Coordinator::Timeout timeout = std::chrono::seconds(60)) {
  return {.coordinator = job,
          .local_devices = std::move(devices),
          .timeout = timeout,
          .write_timeout = timeout};
}

inline std::vector<ShardedArray> restore(
    const std::shared_ptr<const Reader>& reader,
    const std::vector<std::pair<std::string, AnyRestoreArgs>>& leaves,
    const SingleReplicaArrayHandler::Options& options) {
  std::vector<ParamInfo> infos;
  std::vector<AnyRestoreArgs> args;
  for (const auto& [name, of] : leaves) {
    ParamInfo& info = infos.emplace_back();
    info.name = name;
    info.is_ocdbt_checkpoint = true;
    info.reader = reader;
    args.push_back(of);
  }
  std::vector<ShardedArray> out;
  for (const Tree& tree : SingleReplicaArrayHandler(options).deserialize(infos, args))
    out.push_back(*tree.custom<ShardedArray>());
  return out;
}

// Two processes, each one replica of two devices; a of float32 (4, 2), b of int8 (4).
inline const Mesh kMesh = make_mesh({2, 2}, {"r", "m"});

inline const Stored& stored_two() {
  static const Stored stored = {{"a", numbers(DType::kFloat32, {4, 2}, 1)},
                                {"b", numbers(DType::kInt8, {4}, 2)}};
  return stored;
}

struct Asked {
  SingleReplicaArrayHandler::Options options;
  std::vector<std::pair<std::string, AnyRestoreArgs>> leaves;
  std::optional<std::vector<std::int64_t>> devices;
  SingleReplicaArrayRestoreArgs& args(std::size_t i) {
    return std::get<SingleReplicaArrayRestoreArgs>(leaves[i].second);
  }
};

inline Asked right(std::size_t process) {
  Asked asked;
  asked.devices = {static_cast<std::int64_t>(process * 2),
                   static_cast<std::int64_t>(process * 2 + 1)};
  for (const auto& [name, array] : stored_two()) {
    SingleReplicaArrayRestoreArgs args;
    args.sharding = NamedSharding{kMesh, {{"m"}}};
    args.dtype = array.dtype();
    args.global_shape = array.shape();
    asked.leaves.emplace_back(name, args);
  }
  return asked;
}

inline std::vector<std::optional<Error>> run_two(
    const std::function<void(std::size_t process, Asked& asked)>& change) {
  return run_as_processes(2, [&](const Job& job) {
    Asked asked = right(job->process_index());
    change(job->process_index(), asked);
    MultiprocessingOptions processes = processes_of(job, {});
    processes.local_devices = asked.devices;
    const auto restored =
        restore(std::make_shared<Reader>(stored_two(), processes), asked.leaves, asked.options);
    for (const ShardedArray& array : restored) EXPECT_EQ(array.shards.size(), 2U);
  });
}

}  // namespace cairn::testing
