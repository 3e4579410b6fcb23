// What trainers in use do today, as their code does it rather than as it should: yardsticks for the
// planner's plans. NeMo-RL, ROLL and verl as read in 2026; none of them is the planner's code.

#ifndef BATCHPLAN_TESTS_SUPPORT_REFERENCE_SYSTEMS_H_
#define BATCHPLAN_TESTS_SUPPORT_REFERENCE_SYSTEMS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace batchplan::testing {

// The sequences of each micro-batch of each rank, in execution order; every rank has equally many
// micro-batches.
using RankMicrobatches = std::vector<std::vector<std::vector<uint32_t>>>;

// NeMo-RL's modified first fit decreasing, whose last phase puts each leftover into the least
// loaded leftover bin that holds it. Lengths are in 1 .. capacity.
std::vector<std::vector<uint32_t>> NemoRlBins(std::span<const uint32_t> lengths, uint32_t capacity);

// Makes the number of bins a multiple of `multiple`: each new bin gets the last sequence of the bin
// with the most. Needs that many sequences.
void NemoRlAddBins(std::vector<std::vector<uint32_t>>& bins, uint32_t multiple);

// These bins, dealt over the ranks in the order of packing.
RankMicrobatches NemoRlPlan(std::span<const uint32_t> lengths, uint32_t capacity, uint32_t ranks);

// Karmarkar-Karp as verl and ROLL have it: states of k sets, the two of the largest spread merged
// crosswise. `equal_sizes` needs k to divide the number of loads. O(n k log(n k)).
std::vector<std::vector<uint32_t>> VerlPartition(std::span<const uint64_t> loads, uint32_t k,
                                                 bool equal_sizes);

// Karmarkar-Karp into equally many sequences a rank, on the workload 24576 * L + L^2 (verl) or on
// tokens (ROLL); then, as both do, on the workload into ceil(tokens / capacity) micro-batches, the
// maximum over ranks, without a look at their tokens: some may exceed the capacity. Small ones
// stand at both ends. Needs `ranks` to divide the number of sequences.
RankMicrobatches VerlPlan(std::span<const uint32_t> lengths, uint32_t capacity, uint32_t ranks);
RankMicrobatches RollPlan(std::span<const uint32_t> lengths, uint32_t capacity, uint32_t ranks);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_REFERENCE_SYSTEMS_H_
