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

// Elements that are added up at once: the sums stay in the first cache.
constexpr int64_t kElements = 2048;
// Sequences that are read at once, so that each sum is loaded and stored once for all of them.
constexpr int kSequences = 4;

// Adds `count` elements of each of `n` sequences to the sums, in order; the first ones of all,
// where `is_first`, become them.
template <typename Type, int n>
void AddSequences(const std::array<const typename Type::Stored*, kSequences>& from, int64_t count,
                  bool is_first, typename Type::Sum* sums) {
  if (is_first) {
    for (int64_t i = 0; i < count; ++i) {
      typename Type::Sum sum = Type::Of(from[0][i]);
      for (int k = 1; k < n; ++k) sum += Type::Of(from[k][i]);
      sums[i] = sum;
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    typename Type::Sum sum = sums[i];
    for (int k = 0; k < n; ++k) sum += Type::Of(from[k][i]);
    sums[i] = sum;
  }
}

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
    std::array<const Stored*, kSequences> from;
    const int64_t all = std::min(kElements, end - chunk);
    // Those that other sequences have too. To the ones behind them nothing is added.
    const int64_t shared =
        std::clamp(int64_t{SharedOf(row, sequence + 1)} * width - chunk, int64_t{0}, all);
    const auto* const own = static_cast<const Stored*>(gradient.source) +
                            GradientRowOf(task, sequence).begin * width + chunk;
    auto* const sum_to = to + (chunk - begin);
    for (int64_t i = shared; i < all; ++i) sum_to[i] = Type::Alone(own[i]);
    int64_t count = shared;
    for (uint32_t k = sequence; count > 0;) {
      // The next sequences that have all of these elements, and what the one behind has of them.
      int n = 0;
      int64_t next = count;
      const bool is_first = k == sequence;
      for (; n < kSequences && next == count; ++n, ++k) {
        from[n] = static_cast<const Stored*>(gradient.source) +
                  GradientRowOf(task, k).begin * width + chunk;
        next = std::min(count, int64_t{SharedOf(row, k + 1)} * width - chunk);
      }
      if (n == kSequences) {
        AddSequences<Type, kSequences>(from, count, is_first, sums.data());
      } else {
        AddSequences<Type, 1>(from, count, is_first, sums.data());
        for (int i = 1; i < n; ++i) {
          from[0] = from[i];
          AddSequences<Type, 1>(from, count, /*is_first=*/false, sums.data());
        }
      }
      count = next;
    }
    for (int64_t i = 0; i < shared; ++i) sum_to[i] = Type::From(sums[i]);
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
