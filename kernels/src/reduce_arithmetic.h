// How a packed field is summed up per sequence, one text for the host executor and the CUDA
// kernels: the order of the additions, and what each one adds.
//
// A sequence is cut into chunks of kChunk tokens. Of a chunk, lane l of kLanes adds up the tokens
// l, l + kLanes and so on; then the lanes are added pairwise, lane l and lane l + half for halves
// of kLanes / 2 .. 1; and then the chunks in their order. Doubles throughout, no fused
// multiply-add, so that every executor gets the same bits.

#ifndef BATCHPLAN_KERNELS_SRC_REDUCE_ARITHMETIC_H_
#define BATCHPLAN_KERNELS_SRC_REDUCE_ARITHMETIC_H_

#include <stdint.h>
#include <string.h>

#include "batchplan/kernels/reduce.h"
#include "src/elements.h"
#include "src/host_device.h"
#include "src/row_arithmetic.h"

namespace batchplan::kernels {

inline constexpr uint32_t kLanes = 256;
inline constexpr uint32_t kChunk = 8 * kLanes;

BATCHPLAN_HOST_DEVICE constexpr uint32_t ChunksOf(uint32_t terms) {
  return static_cast<uint32_t>((uint64_t{terms} + kChunk - 1) / kChunk);
}

BATCHPLAN_HOST_DEVICE inline double Product(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

// What is added up of a sequence: values and weights.
struct SequenceSums {
  double values;
  double weights;
};

BATCHPLAN_HOST_DEVICE inline SequenceSums operator+(const SequenceSums& a, const SequenceSums& b) {
  return {a.values + b.values, a.weights + b.weights};
}

// What is added up of a row: the sums and the means of its sequences.
struct SequenceTotals {
  double sum;
  double mean;
};

BATCHPLAN_HOST_DEVICE inline SequenceTotals operator+(const SequenceTotals& a,
                                                      const SequenceTotals& b) {
  return {a.sum + b.sum, a.mean + b.mean};
}

// The tokens of a sequence that are visited: all of it, or the shard of one rank, in which some may
// be padding. Never more than the row has.
struct VisitedTokens {
  Shard shard;
  uint32_t length;
  // Cells of the row, or of all ranks' rows, before the first.
  uint32_t begin;
  uint32_t count;
};

BATCHPLAN_HOST_DEVICE inline VisitedTokens TokensToVisit(const Row& row, uint32_t sequence) {
  const Shard shard = ShardOf(row, sequence);
  const uint32_t length = LengthOf(row, sequence);
  if (row.rank != BATCHPLAN_ALL_RANKS) return {shard, length, shard.begin, shard.cells};
  return {shard, length, shard.begin * row.context_parallel,
          Least(length, shard.cells * row.context_parallel)};
}

// The cell of the row, or of all ranks' rows, with visited token number `visit`; -1 if that adds
// nothing.
BATCHPLAN_HOST_DEVICE inline int64_t CellToVisit(const Row& row, const VisitedTokens& tokens,
                                                 uint32_t visit) {
  if (visit >= tokens.count) return -1;
  if (row.rank == BATCHPLAN_ALL_RANKS) {
    const CellRun from = CellOfToken(row, tokens.shard, visit);
    return from.rank == kNone ? -1 : int64_t{from.rank} * row.cells + from.cell;
  }
  const uint32_t token = TokenOfCell(row, row.rank, tokens.shard, visit).token;
  return token < tokens.length ? int64_t{tokens.shard.begin + visit} : -1;
}

// What a token adds: read first, so that a device reads many at once.
struct Term {
  uint64_t value;
  uint64_t weight;
  bool exists;
};

BATCHPLAN_HOST_DEVICE inline Term TermAt(const batchplan_reduction& reduction, int64_t cell) {
  if (cell < 0) return {};
  const bool weighs = reduction.weights != nullptr;
  return {BitsAt(reduction.values, reduction.value_type, cell),
          weighs ? BitsAt(reduction.weights, reduction.weight_type, cell) : 0, true};
}

BATCHPLAN_HOST_DEVICE inline SequenceSums SumsOf(const batchplan_reduction& reduction,
                                                 const Term& term) {
  if (!term.exists) return {};
  const double weight =
      reduction.weights == nullptr ? 1 : ElementOf(term.weight, reduction.weight_type);
  // Masked: its value, even NaN, does not count.
  if (weight == 0) return {};
  return {Product(ElementOf(term.value, reduction.value_type), weight), weight};
}

BATCHPLAN_HOST_DEVICE inline double Quotient(double numerator, double denominator) {
  return denominator == 0 ? 0 : numerator / denominator;
}

// Writes what is asked for of sequence `sequence`, and to `totals` unless that is null.
BATCHPLAN_HOST_DEVICE inline void WriteSequence(const batchplan_reduction& reduction,
                                                SequenceTotals* totals, uint32_t sequence,
                                                const SequenceSums& sums) {
  const double denominator =
      reduction.denominators != nullptr ? reduction.denominators[sequence] : sums.weights;
  const double mean = Quotient(sums.values, denominator);
  if (reduction.sums != nullptr) reduction.sums[sequence] = static_cast<float>(sums.values);
  if (reduction.weight_sums != nullptr) {
    reduction.weight_sums[sequence] = static_cast<float>(sums.weights);
  }
  if (reduction.means != nullptr) reduction.means[sequence] = static_cast<float>(mean);
  if (totals != nullptr) totals[sequence] = {sums.values, mean};
}

BATCHPLAN_HOST_DEVICE inline void WriteTotals(const batchplan_reduction& reduction,
                                              const SequenceTotals& total) {
  const double denominator =
      reduction.total_denominator != nullptr ? *reduction.total_denominator : 1;
  if (reduction.sum_total != nullptr) {
    *reduction.sum_total = static_cast<float>(Quotient(total.sum, denominator));
  }
  if (reduction.mean_total != nullptr) {
    *reduction.mean_total = static_cast<float>(Quotient(total.mean, denominator));
  }
}

// The workspace: what each sequence adds to the totals, and the chunks' sums of each sequence that
// has several. The sums of sequence s, which begins at cell b of the row, begin at place b / kChunk
// + s, which leaves each sequence as many places as it can need.
struct Workspace {
  SequenceTotals* totals;
  SequenceSums* chunks;
};

BATCHPLAN_HOST_DEVICE inline uint32_t ChunkPlace(const VisitedTokens& tokens, uint32_t sequence) {
  return tokens.begin / kChunk + sequence;
}

constexpr size_t WorkspaceSize(uint32_t num_sequences, uint32_t row_width) {
  return num_sequences * sizeof(SequenceTotals) +
         (size_t{num_sequences} + row_width / kChunk + 1) * sizeof(SequenceSums);
}

// No workspace if `memory` is null.
inline Workspace WorkspaceAt(void* memory, uint32_t num_sequences) {
  auto* const totals = static_cast<SequenceTotals*>(memory);
  if (totals == nullptr) return {};
  return {totals, reinterpret_cast<SequenceSums*>(totals + num_sequences)};
}

constexpr bool AsksForTotals(const batchplan_reduction& reduction) {
  return reduction.sum_total != nullptr || reduction.mean_total != nullptr;
}

}  // namespace batchplan::kernels

#endif  // BATCHPLAN_KERNELS_SRC_REDUCE_ARITHMETIC_H_
