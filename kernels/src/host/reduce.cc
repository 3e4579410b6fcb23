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
auto AddUp(uint32_t count, const Term& term) {
  using Sums = decltype(term(0U));
  Sums sums{};
  for (uint32_t chunk = 0; chunk < ChunksOf(count); ++chunk) {
    std::array<Sums, kLanes> lanes{};
    const uint32_t begin = chunk * kChunk;
    const uint32_t terms = Least(count - begin, kChunk);
    for (uint32_t i = 0; i < terms; ++i) lanes[i % kLanes] = lanes[i % kLanes] + term(begin + i);
    for (uint32_t half = kLanes / 2; half > 0; half /= 2) {
      for (uint32_t lane = 0; lane < half; ++lane) lanes[lane] = lanes[lane] + lanes[lane + half];
    }
    sums = sums + lanes[0];
  }
  return sums;
}

}  // namespace

batchplan_status Reduce(const Row& row, const batchplan_reduction& reduction,
                        batchplan_status* error_word, const Workspace& workspace) {
  for (uint32_t sequence = 0; sequence < row.num_sequences; ++sequence) {
    if (const batchplan_status status = CheckSequence(row, sequence); status != BATCHPLAN_OK) {
      ReportError(error_word, status);
      return status;
    }
  }
  SequenceTotals* const totals = AsksForTotals(reduction) ? workspace.totals : nullptr;
  for (uint32_t sequence = 0; sequence < row.num_sequences; ++sequence) {
    const VisitedTokens tokens = TokensToVisit(row, sequence);
    const SequenceSums sums = AddUp(tokens.count, [&](uint32_t visit) {
      return SumsOf(reduction, TermAt(reduction, CellToVisit(row, tokens, visit)));
    });
    WriteSequence(reduction, totals, sequence, sums);
  }
  if (AsksForTotals(reduction)) {
    WriteTotals(reduction, AddUp(row.num_sequences, [&](uint32_t i) { return totals[i]; }));
  }
  return BATCHPLAN_OK;
}

}  // namespace batchplan::kernels::host
