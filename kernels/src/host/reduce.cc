#include <array>
#include <cstdint>

#include "src/backends.h"
#include "src/error_word.h"
#include "src/reduce_arithmetic.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels::host {
namespace {

// Adds up `count` terms in the order that reduce_arithmetic.h states.
template <typename Term>
auto AddUp(int64_t count, const Term& term) {
  std::array<decltype(term(int64_t{0})), kLanes> lanes{};
  for (int64_t i = 0; i < count; ++i) lanes[i % kLanes] = lanes[i % kLanes] + term(i);
  for (uint32_t half = kLanes / 2; half > 0; half /= 2) {
    for (uint32_t lane = 0; lane < half; ++lane) lanes[lane] = lanes[lane] + lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace

batchplan_status Reduce(const Row& row, const batchplan_reduction& reduction,
                        batchplan_status* error_word, SequenceTotals* totals) {
  for (uint32_t sequence = 0; sequence < row.num_sequences; ++sequence) {
    if (const batchplan_status status = CheckSequence(row, sequence); status != BATCHPLAN_OK) {
      ReportError(error_word, status);
      return status;
    }
  }
  for (uint32_t sequence = 0; sequence < row.num_sequences; ++sequence) {
    const VisitedTokens tokens = TokensToVisit(row, sequence);
    const SequenceSums sums =
        AddUp(tokens.count, [&](int64_t visit) { return TermOf(row, reduction, tokens, visit); });
    WriteSequence(reduction, totals, sequence, sums);
  }
  if (AsksForTotals(reduction)) {
    WriteTotals(reduction, AddUp(row.num_sequences, [&](int64_t i) { return totals[i]; }));
  }
  return BATCHPLAN_OK;
}

}  // namespace batchplan::kernels::host
