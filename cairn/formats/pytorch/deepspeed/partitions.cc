#include <cairn/formats/pytorch/deepspeed/partitions.h>

#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/tensors/place.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0::pytorch::deepspeed {
namespace {

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 61U;
// Fragments of all parameters: this many, and one more for so many elements that are stored. Each
// takes far more memory than an element.
constexpr std::uint64_t kMostFragments = 200'000;
constexpr std::uint64_t kElementsPerFragment = 16;

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  if (a > kMostElements || b > kMostElements - a) data_loss("its parameters fit into no memory");
  return a + b;
}

std::uint64_t ceil_divided(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b == 0 ? 0 : 1);
}

class Partitioner {
 public:
  explicit Partitioner(const Lengths& lengths) : lengths_(lengths) {
    std::uint64_t stored = 0;
    for (const auto& of_rank : lengths)
      for (const std::uint64_t length : of_rank) stored = sum(stored, length);
    fragments_left_ = kMostFragments + stored / kElementsPerFragment;
  }

  Partitioned& add(const Parameter& parameter, std::size_t group) {
    return found_.emplace_back(Partitioned{.parameter = &parameter, .group = group});
  }
  void add(Partitioned& to, const Fragment& fragment) {
    if (fragment.count == 0) return;
    if (fragments_left_-- == 0)
      throw Error(Code::kUnimplemented, "its parameters are in too many parts");
    to.fragments.push_back(fragment);
  }

  // Of ZeRO 1 and 2: the vectors of all ranks are one vector.
  void add_group(std::size_t group, const std::vector<Parameter>& parameters,
                 const std::vector<std::uint64_t>& paddings) {
    if (!paddings.empty() && paddings.size() != parameters.size())
      data_loss(fmt::format("group {} has {} parameters and {} paddings", group, parameters.size(),
                            paddings.size()));
    std::uint64_t all = 0;
    for (const auto& of_rank : lengths_) all = sum(all, of_rank[group]);
    std::uint64_t at = 0, rank_begin = 0;
    std::uint32_t rank = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::uint64_t count = elements_in(parameters[i].shape);
      if (count > all || at > all - count) fail_length(group, parameters, all);
      Partitioned& found = add(parameters[i], group);
      for (std::uint64_t done = 0; done < count;) {
        const std::uint64_t length = lengths_[rank][group];
        const std::uint64_t from = at + done - rank_begin;
        if (from >= length) {
          rank_begin += length;
          ++rank;
          continue;
        }
        const std::uint64_t part = std::min(count - done, length - from);
        add(found, {.rank = rank,
                    .group = static_cast<std::uint32_t>(group),
                    .from = from,
                    .begin = done,
                    .count = part});
        done += part;
      }
      at = sum(at + count, paddings.empty() ? 0 : paddings[i]);
    }
    // DeepSpeed pads a group to a multiple of twice the number of ranks; it may leave the padding
    // out of the file.
    const std::uint64_t alignment = 2 * lengths_.size();
    if (ceil_divided(at, alignment) != ceil_divided(all, alignment))
      fail_length(group, parameters, all);
  }

  // Of ZeRO 3: all ranks have vectors of the same lengths.
  void add_parameter(const Parameter& parameter) {
    const std::uint64_t count = elements_in(parameter.shape);
    const std::uint64_t of_rank = ceil_divided(count, lengths_.size());
    skip_full_vectors();
    Partitioned& found = add(parameter, std::min(group_, lengths_[0].size() - 1));
    const std::size_t group = group_;
    const std::uint64_t from = from_;
    for (std::uint32_t rank = 0; rank < lengths_.size(); ++rank) {
      group_ = group;
      from_ = from;
      for (std::uint64_t done = 0; done < of_rank;) {
        skip_full_vectors();
        if (group_ == lengths_[0].size())
          data_loss(
              fmt::format("{}: lies behind the end of the parts of the ranks", parameter.name));
        const std::uint64_t part = std::min(of_rank - done, lengths_[0][group_] - from_);
        const std::uint64_t begin = std::min(count, rank * of_rank + done);
        add(found, {.rank = rank,
                    .group = static_cast<std::uint32_t>(group_),
                    .from = from_,
                    .begin = begin,
                    .count = std::min(part, count - begin)});
        from_ += part;
        done += part;
      }
    }
  }
  void check_end() {
    skip_full_vectors();
    if (group_ < lengths_[0].size())
      data_loss(
          fmt::format("the parts of the ranks are longer than all parameters: {} elements "
                      "of group {} are left",
                      lengths_[0][group_] - from_, group_));
  }

  [[nodiscard]] std::vector<Partitioned> take() && { return std::move(found_); }

 private:
  [[noreturn]] static void fail_length(std::size_t group, const std::vector<Parameter>& parameters,
                                       std::uint64_t all) {
    std::uint64_t needed = 0;
    for (const Parameter& parameter : parameters)
      needed = sum(needed, elements_in(parameter.shape));
    data_loss(fmt::format("the parameters of group {} have {} elements, the parts of all ranks {}",
                          group, needed, all));
  }

  void skip_full_vectors() {
    while (group_ < lengths_[0].size() && from_ == lengths_[0][group_]) {
      ++group_;
      from_ = 0;
    }
  }

  const Lengths& lengths_;
  std::uint64_t fragments_left_ = 0;
  std::size_t group_ = 0;  // of ZeRO 3: where the next parameter begins
  std::uint64_t from_ = 0;
  std::vector<Partitioned> found_;
};

}  // namespace

std::uint64_t elements_in(const Shape& shape) {
  TorchTensor bytes;
  bytes.element.size = 1;
  bytes.shape = shape;
  return memory_of(bytes);
}

std::vector<Partitioned> partition_groups(const std::vector<std::vector<Parameter>>& groups,
                                          const std::vector<std::vector<std::uint64_t>>& paddings,
                                          const Lengths& lengths) {
  Partitioner partitioner(lengths);
  const auto check = [&](std::size_t found, const char* what) {
    if (found != groups.size())
      data_loss(
          fmt::format("there are {} groups of parameters, but {} {}", groups.size(), found, what));
  };
  for (const auto& of_rank : lengths) check(of_rank.size(), "parts of a rank");
  if (!paddings.empty()) check(paddings.size(), "lists of paddings");
  for (std::size_t g = 0; g < groups.size(); ++g)
    partitioner.add_group(g, groups[g],
                          paddings.empty() ? std::vector<std::uint64_t>() : paddings[g]);
  return std::move(partitioner).take();
}

std::vector<Partitioned> partition_parameters(const std::vector<std::vector<Parameter>>& groups,
                                              const Lengths& lengths) {
  for (std::size_t rank = 0; rank < lengths.size(); ++rank)
    if (lengths[rank] != lengths[0])
      data_loss(fmt::format("the parts of rank {} have other lengths than those of rank 0", rank));
  Partitioner partitioner(lengths);
  for (const auto& group : groups)
    for (const Parameter& parameter : group) partitioner.add_parameter(parameter);
  partitioner.check_end();
  return std::move(partitioner).take();
}

}  // namespace cairn::inline v0::pytorch::deepspeed
