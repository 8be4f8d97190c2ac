// device_name.h -- TensorFlow's device names: "/job:worker/replica:0/task:1/device:CPU:0". Every
// part may be absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// The parts of a name.
struct DeviceName {
  std::string job;
  std::optional<std::int64_t> replica, task;
  std::string type;  // "CPU"
  std::optional<std::int64_t> index;

  // Parses a name. Throws invalid_argument, in the words of TensorFlow's DeviceSpec, if it is
  // malformed.
  static DeviceName parse(std::string_view text);
  // The name of the task, without the device: tensors are saved by task.
  [[nodiscard]] std::string task_name() const;
  // The parts as Python prints a DeviceSpec.
  [[nodiscard]] std::string text() const;
};

}  // namespace cairn::inline v0
