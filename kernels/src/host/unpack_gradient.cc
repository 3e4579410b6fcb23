#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/backends.h"
#include "src/error_word.h"
#include "src/gradient_arithmetic.h"
#include "src/host/check_sequences.h"

namespace batchplan::kernels::host {
namespace {

// Elements that are added up at once: sums and sources stay in the first cache.
constexpr int64_t kElements = 2048;

// The gradient of what sequence `sequence` laid.
template <typename Type>
void SumSequence(const GradientTask& task, uint32_t sequence) {
  using Stored = typename Type::Stored;
  const auto [row, sequences, gradient] = task;
  const auto width = static_cast<int64_t>(gradient.elements_per_token);
  const Shard shard = ShardOf(row, sequence);
  const int64_t begin = int64_t{SharedOf(row, sequence)} * width;
  const int64_t end = begin + shard.cells * width;
  auto* const to = static_cast<Stored*>(gradient.destination) + shard.begin * width;
  for (int64_t chunk = begin; chunk < end; chunk += kElements) {
    std::array<typename Type::Sum, kElements> sums;
    int64_t count = std::min(kElements, end - chunk);
    const int64_t all = count;
    for (uint32_t k = sequence;; ++k) {
      const auto* const from = static_cast<const Stored*>(gradient.source) +
                               GradientRowOf(task, k).begin * width + chunk;
      if (k == sequence) {
        for (int64_t i = 0; i < count; ++i) sums[i] = Type::Of(from[i]);
      } else {
        for (int64_t i = 0; i < count; ++i) sums[i] += Type::Of(from[i]);
      }
      // The next one has the tokens before what it lays itself.
      count = std::min(count, int64_t{SharedOf(row, k + 1)} * width - chunk);
      if (count <= 0) break;
    }
    for (int64_t i = 0; i < all; ++i) to[chunk - begin + i] = Type::From(sums[i]);
  }
}

}  // namespace

batchplan_status UnpackGradient(const GradientTask& task, batchplan_status* error_word) {
  const batchplan_status status =
      CheckSequences(task.row, task.sequences, /*has_rows=*/true, task.gradient.width, error_word);
  const size_t token_bytes = task.gradient.elements_per_token * SizeOf(task.gradient.data_type);
  const bool exists = status == BATCHPLAN_OK;
  WithElements(task.gradient.data_type, [&](auto type) {
    for (uint32_t sequence = 0; exists && sequence < task.row.num_sequences; ++sequence) {
      SumSequence<decltype(type)>(task, sequence);
    }
  });
  // All bits of a zero are 0.
  const Shard rest = exists ? ShardOf(task.row, task.row.num_sequences) : Shard{0, task.row.width};
  if (rest.cells > 0) {
    std::memset(static_cast<std::byte*>(task.gradient.destination) + rest.begin * token_bytes, 0,
                rest.cells * token_bytes);
  }
  return status;
}

}  // namespace batchplan::kernels::host
