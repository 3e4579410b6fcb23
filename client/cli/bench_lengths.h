// Lengths for a benchmark without a file of them: random, and the same for one seed.

#ifndef BATCHPLAN_CLIENT_CLI_BENCH_LENGTHS_H_
#define BATCHPLAN_CLIENT_CLI_BENCH_LENGTHS_H_

#include <cstdint>

#include "batchplan/v1/options.pb.h"

namespace batchplan::cli {

// Fills `manifest`, empty so far, with `sequences` lengths of 16 to `longest` tokens (at least 16),
// lognormal with median 900 and sigma 0.9 before they are cut: answers as RL on mathematics has
// them.
void FillLengths(uint32_t sequences, uint32_t longest, uint64_t seed, v1::Manifest* manifest);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_BENCH_LENGTHS_H_
