// device_name.h -- TensorFlow's names of devices: "/job:worker/replica:0/task:1/device:CPU:0",
// every part of which may be absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

struct DeviceName {
  std::string job;
  std::optional<std::int64_t> replica, task;
  std::string type;  // "CPU"
  std::optional<std::int64_t> index;

  // Throws invalid_argument, in the words of TensorFlow's DeviceSpec, for what is no such name.
  static DeviceName parse(std::string_view text);
  // The same task, whatever its device: tensors are saved by task.
  [[nodiscard]] std::string task_name() const;
};

}  // namespace cairn
