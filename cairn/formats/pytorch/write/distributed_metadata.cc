// distributed_metadata.cc -- Source of the rules: what torch 2.13 writes, and what its
// dataclasses in torch.distributed.checkpoint.metadata take.
#include <cairn/formats/pytorch/write/distributed_metadata.h>

#include <cairn/base/byte_io.h>
#include <cairn/formats/pytorch/pickle/pickle_writer.h>
#include <cairn/formats/pytorch/tensors/element.h>

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch {
namespace {

constexpr std::string_view kModule = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kVersion = "1.0.0";

class MetadataPickler {
 public:
  MetadataPickler(std::span<const StateEntry> entries, const DistributedFile& any,
                  std::span<const WrittenFile> files)
      : entries_(entries), file_(any), parts_(entries.size()) {
    for (const WrittenFile& file : files)
      for (const WrittenPart& part : file.parts) {
        parts_[part.entry].push_back(all_.size());
        all_.push_back({&part, &file.name});
      }
  }

  Bytes run() {
    object("Metadata");
    members({{"state_dict_metadata", [&] { values(); }},
             {"planner_data", [&] { paths(); }},
             {"storage_data", [&] { places(); }},
             {"version", [&] { out_.text(kVersion); }}});
    return std::move(out_).take();
  }

 private:
  using Write = std::function<void()>;

  void object(std::string_view name, std::string_view module = kModule) {
    out_.global(module, name);
    out_.empty_tuple();
    out_.make_object();
  }
  // The attributes of the last object.
  void members(const std::vector<std::pair<std::string_view, Write>>& all) {
    out_.dict(all.size(), [&](std::size_t i) {
      out_.text(all[i].first);
      all[i].second();
    });
    out_.build();
  }

  // torch.Size
  void size(DType dtype, std::span<const std::int64_t> values) {
    out_.global("torch", "Size");
    if (values.size() > 3) out_.open();
    for (std::size_t i = 0; i < values.size(); ++i) {
      // Two elements of 4 bits are one element of PyTorch.
      const bool is_halved = is_packed_type(dtype) && i + 1 == values.size();
      out_.integer(is_halved ? values[i] / 2 : values[i]);
    }
    out_.close_tuple(values.size());
    out_.close_tuple(1);
    out_.call();
  }

  void values() {
    out_.dict(entries_.size(), [&](std::size_t i) {
      out_.text(entries_[i].name);
      if (entries_[i].is_tensor)
        tensor(i);
      else
        object("BytesStorageMetadata");
    });
  }

  void tensor(std::size_t entry) {
    const DType dtype = file_.dtype_of(entry);
    object("TensorStorageMetadata");
    members({{"properties", [&] { properties(dtype); }},
             {"size", [&] { size(dtype, file_.shape_of(entry)); }},
             {"chunks", [&] { chunks(entry); }}});
  }

  void properties(DType dtype) {
    object("TensorProperties");
    out_.open();
    out_.global("torch", element_of_type(dtype)->name);
    out_.global("torch.serialization", "_get_layout");
    out_.text("torch.strided");
    out_.close_tuple(1);
    out_.call();
    out_.boolean(false);  // requires_grad
    out_.global(kModule, "_MEM_FORMAT_ENCODING");
    out_.integer(std::uint64_t{0});  // torch.contiguous_format
    out_.close_tuple(1);
    out_.call();
    out_.boolean(false);  // pin_memory
    out_.close_tuple(5);
    out_.build();
  }

  void chunks(std::size_t entry) {
    const DType dtype = file_.dtype_of(entry);
    out_.list(parts_[entry].size(), [&](std::size_t i) {
      const Box& box = *all_[parts_[entry][i]].part->box;
      object("ChunkStorageMetadata");
      members({{"offsets", [&] { size(dtype, box.origin); }},
               {"sizes", [&] { size(dtype, box.shape); }}});
    });
  }

  void paths() {
    out_.dict(entries_.size(), [&](std::size_t i) {
      const KeyPath& path = entries_[i].path;
      out_.text(entries_[i].name);
      if (path.size() > 3) out_.open();
      for (const Key& key : path) {
        if (key.type == KeyType::kSequence)
          out_.integer(static_cast<std::uint64_t>(std::stoull(key.text)));
        else
          out_.text(key.text);
      }
      out_.close_tuple(path.size());
    });
  }

  void places() {
    std::vector<std::size_t> chunks(entries_.size(), 0);  // so far
    out_.dict(all_.size(), [&](std::size_t i) {
      const WrittenPart& part = *all_[i].part;
      object("MetadataIndex");
      std::vector<std::pair<std::string_view, Write>> index = {
          {"fqn", [&] { out_.text(entries_[part.entry].name); }}};
      if (part.box) {
        index.emplace_back("index",
                           [&] { out_.integer(static_cast<std::uint64_t>(chunks[part.entry]++)); });
        index.emplace_back("offset", [&] { size(file_.dtype_of(part.entry), part.box->origin); });
      } else {
        index.emplace_back("index", [&] { out_.none(); });
      }
      members(index);
      object("_StorageInfo", "torch.distributed.checkpoint.filesystem");
      members({{"relative_path", [&] { out_.text(*all_[i].file); }},
               {"offset", [&] { out_.integer(part.offset); }},
               {"length", [&] { out_.integer(part.length); }}});
    });
  }

  std::span<const StateEntry> entries_;
  const DistributedFile& file_;
  struct Place {
    const WrittenPart* part;
    const std::string* file;
  };
  std::vector<Place> all_;                       // the parts of all files
  std::vector<std::vector<std::size_t>> parts_;  // by entry: its parts
  pickle::PickleWriter out_;
};

}  // namespace

Bytes parts_message(std::span<const WrittenPart> parts) {
  ByteWriter out;
  for (const WrittenPart& part : parts) {
    const std::size_t rank = part.box ? part.box->shape.size() : 0;
    out.u64(part.entry).u8(part.box ? 1 : 0).u64(rank).u64(part.offset).u64(part.length);
    for (std::size_t i = 0; i < rank; ++i)
      out.u64(static_cast<std::uint64_t>(part.box->origin[i]))
          .u64(static_cast<std::uint64_t>(part.box->shape[i]));
  }
  return std::move(out).take();
}

std::vector<WrittenPart> parts_of_message(ByteView message) {
  std::vector<WrittenPart> parts;
  for (ByteReader in(message); !in.at_end();) {
    WrittenPart& part = parts.emplace_back();
    part.entry = in.u64();
    if (in.u8() != 0) part.box.emplace();
    const std::uint64_t rank = in.u64();
    part.offset = in.u64();
    part.length = in.u64();
    for (std::uint64_t i = 0; i < rank; ++i) {
      part.box->origin.push_back(static_cast<std::int64_t>(in.u64()));
      part.box->shape.push_back(static_cast<std::int64_t>(in.u64()));
    }
  }
  return parts;
}

Bytes distributed_metadata(std::span<const StateEntry> entries, const DistributedFile& any,
                           std::span<const WrittenFile> files) {
  return MetadataPickler(entries, any, files).run();
}

}  // namespace cairn::inline v0::pytorch
