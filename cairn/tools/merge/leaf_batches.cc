#include <cairn/tools/merge/leaf_batches.h>

#include <cairn/tools/merge/leaf_pairs.h>
#include <cairn/tools/transform/lazy_pieces.h>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kPieceCost = 512;  // bytes of its arrays and requests themselves

}  // namespace

void in_batches(std::span<const CostedBox> boxes, std::uint64_t memory,
                const std::function<void(std::span<const LeafPiece>)>& work) {
  std::vector<LeafPiece> batch;
  std::uint64_t total = 0;
  const auto flush = [&] {
    if (!batch.empty()) work(batch);
    batch.clear();
    total = 0;
  };
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const auto cost = [&](const Box& part) {
      return kPieceCost +
             static_cast<std::uint64_t>(element_count(part.shape)) * boxes[i].element_cost;
    };
    in_pieces(boxes[i].box, memory, cost, [&](const Box& piece) {
      const std::uint64_t bytes = cost(piece);
      if (total + bytes > memory) flush();
      batch.push_back({i, piece});
      total += bytes;
    });
  }
  flush();
}

std::vector<Array> read_pieces(const Checkpoint& checkpoint, std::span<const LeafPiece> pieces,
                               const std::function<std::size_t(std::size_t number)>& index_of) {
  const TensorList tensors = checkpoint.tensors();
  std::vector<Array> arrays;
  std::vector<ReadRequest> requests;
  arrays.reserve(pieces.size());
  for (const LeafPiece& piece : pieces) {
    const std::size_t index = index_of(piece.number);
    const TensorInfo& leaf = tensors[index];
    arrays.push_back(Array::allocate(leaf.dtype, leaf.element_size, piece.box.shape));
    requests.push_back({index, piece.box, arrays.back().mutable_view()});
  }
  with_context([&] { return source_text(checkpoint); }, [&] { checkpoint.read(requests, {}); });
  return arrays;
}

}  // namespace cairn::inline v0
