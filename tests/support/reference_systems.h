// Trainers' planners, exactly as their code plans today: yardsticks for our plans. NeMo-RL, ROLL
// and verl as read in 2026; none of this is the planner's code.

#ifndef BATCHPLAN_TESTS_SUPPORT_REFERENCE_SYSTEMS_H_
#define BATCHPLAN_TESTS_SUPPORT_REFERENCE_SYSTEMS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace batchplan::testing {

// The sequences of each micro-batch of each rank, in the order of execution. All ranks have equally
// many micro-batches.
using RankMicrobatches = std::vector<std::vector<std::vector<uint32_t>>>;

// NeMo-RL's modified first fit decreasing. Its last phase puts each leftover into the least loaded
// leftover bin that holds it. Lengths are in 1 .. capacity.
std::vector<std::vector<uint32_t>> NemoRlBins(std::span<const uint32_t> lengths, uint32_t capacity);

// Makes the number of bins a multiple of `multiple`: each new bin gets the last sequence of the bin
// with the most sequences. There must be enough sequences.
void NemoRlAddBins(std::vector<std::vector<uint32_t>>& bins, uint32_t multiple);

// NemoRlBins, dealt to the ranks in the order of packing.
RankMicrobatches NemoRlPlan(std::span<const uint32_t> lengths, uint32_t capacity, uint32_t ranks);

// Karmarkar-Karp as in verl and ROLL: states of k sets, where the two with the largest spread are
// merged crosswise. `equal_sizes` requires that k divides the number of loads. O(n k log(n k)).
std::vector<std::vector<uint32_t>> VerlPartition(std::span<const uint64_t> loads, uint32_t k,
                                                 bool equal_sizes);

// Karmarkar-Karp into equally many sequences a rank, by the workload 24576 * L + L^2 (verl) or by
// tokens (ROLL). Then, in both, by workload into ceil(tokens / capacity) micro-batches, the maximum
// over ranks. This ignores the tokens of micro-batches, so that some may exceed the capacity. Small
// ones are at both ends. `ranks` must divide the number of sequences.
RankMicrobatches VerlPlan(std::span<const uint32_t> lengths, uint32_t capacity, uint32_t ranks);
RankMicrobatches RollPlan(std::span<const uint32_t> lengths, uint32_t capacity, uint32_t ranks);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_REFERENCE_SYSTEMS_H_
