// device_name.cc -- parses TensorFlow's device names as its DeviceSpec does.
#include <cairn/formats/tensorflow/sharding/device_name.h>

#include <cairn/base/text.h>
#include <cairn/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace cairn::inline v0 {
namespace {

std::int64_t parse_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(Code::kInvalidArgument,
                fmt::format("invalid literal for int() with base 10: '{}'", text));
  return value;
}

// The type of a short form ("/gpu:0") in capitals; empty if it is not one.
std::string short_type(std::string_view text) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  constexpr std::array<std::string_view, 5> kTypes = {"CPU", "GPU", "TPU", "EPU", "CUSTOM"};
  return std::find(kTypes.begin(), kTypes.end(), upper) == kTypes.end() ? "" : upper;
}

void set_type(DeviceName& name, std::string_view spec, std::string type, std::string_view index) {
  if (!name.type.empty())
    throw Error(
        Code::kInvalidArgument,
        fmt::format("Multiple device types are not allowed while parsing the device spec: {}.",
                    spec));
  name.type = std::move(type);
  name.index = index == "*" ? std::nullopt : std::optional(parse_number(index));
}

}  // namespace

DeviceName DeviceName::parse(std::string_view text) {
  DeviceName name;
  for (const std::string_view part : split(text, '/')) {
    const std::vector<std::string_view> words = split(part, ':');
    const std::string_view first = words[0];
    if (words.size() == 2 && first == "job") {
      name.job = words[1];
    } else if (words.size() == 2 && first == "replica") {
      name.replica = parse_number(words[1]);
    } else if (words.size() == 2 && first == "task") {
      name.task = parse_number(words[1]);
    } else if (words.size() <= 2 && !short_type(first).empty()) {
      set_type(name, text, short_type(first), words.size() == 2 ? words[1] : "*");
    } else if (words.size() == 3 && first == "device") {
      const bool is_old = words[1] == "cpu" || words[1] == "gpu";  // lower case of old programs
      set_type(name, text, is_old ? short_type(words[1]) : std::string(words[1]), words[2]);
    } else if (!first.empty()) {
      throw Error(
          Code::kInvalidArgument,
          fmt::format("Unknown attribute '{}' is encountered while parsing the device spec: '{}'.",
                      first, text));
    }
  }
  return name;
}

std::string DeviceName::text() const {
  const auto number = [](std::optional<std::int64_t> value) {
    return value ? std::to_string(*value) : "None";
  };
  const auto word = [](const std::string& value) { return value.empty() ? "None" : value; };
  return fmt::format("<DeviceSpec(job={}, replica={}, task={}, device_type={}, device_index={})>",
                     word(job), number(replica), number(task), word(type), number(index));
}

std::string DeviceName::task_name() const {
  std::string text = job.empty() ? "" : "/job:" + job;
  if (replica) text += fmt::format("/replica:{}", *replica);
  if (task) text += fmt::format("/task:{}", *task);
  return text + "/device:CPU:0";
}

}  // namespace cairn::inline v0
