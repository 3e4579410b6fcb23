#include "server/service/request_cost.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace batchplan {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

// More than a sequence takes on the wire.
constexpr uint64_t kBytesOfASequence = 16;

uint64_t Add(uint64_t a, uint64_t b) { return a > kMost - b ? kMost : a + b; }

uint64_t Multiply(uint64_t a, uint64_t b) { return b > 0 && a > kMost / b ? kMost : a * b; }

// The least multiple of `multiple` that is `minimum` or more; both at least 1.
uint64_t RoundUp(uint64_t minimum, uint64_t multiple) {
  return Multiply((minimum - 1) / multiple + 1, multiple);
}

// The bytes of the varints 0 .. count - 1, of 32 bits at most.
uint64_t VarintBytes(uint64_t count) {
  uint64_t bytes = count;
  // Each seven bits more take a byte more.
  for (const int bits : {7, 14, 21, 28}) {
    const uint64_t first = uint64_t{1} << bits;
    if (count > first) bytes = Add(bytes, count - first);
  }
  return bytes;
}

}  // namespace

uint64_t SequencesPlanned(const RequestOutline& outline) {
  return Multiply(outline.sequences, std::max<uint64_t>(outline.passes, 1));
}

uint64_t LeastMicrobatches(const RequestOutline& outline) {
  if (!outline.allow_empty_microbatches) return 0;
  const uint64_t ranks = std::max<uint64_t>(outline.data_parallel, 1);
  const uint64_t stages =
      outline.virtual_pipeline > 1 ? std::max<uint64_t>(outline.pipeline_parallel, 1) : 1;
  const uint64_t mini_batches =
      outline.mini_batch_size == 0
          ? 1
          : std::max<uint64_t>(outline.sequences / outline.mini_batch_size, 1);
  uint64_t microbatches = 0;
  for (const OutlinedPass& pass : outline.pass_options) {
    const uint64_t multiple =
        std::lcm(std::max<uint64_t>(pass.microbatch_count_multiple, 1), stages);
    const uint64_t of_a_rank = RoundUp(std::max<uint64_t>(pass.min_microbatches, 1), multiple);
    microbatches = Add(microbatches, Multiply(Multiply(of_a_rank, ranks),
                                              pass.ignore_mini_batches ? 1 : mini_batches));
  }
  return microbatches;
}

uint64_t LeastAnswerBytes(const RequestOutline& outline) {
  if (outline.overlong == v1::OVERLONG_POLICY_DROP) return 0;
  // sequence_index and sequence_lengths; microbatch_offsets and row_widths.
  const uint64_t of_a_pass = Add(VarintBytes(outline.sequences), outline.sequences);
  return Add(Multiply(of_a_pass, outline.passes), Multiply(2, LeastMicrobatches(outline)));
}

uint64_t CostOf(const RequestOutline& outline) {
  return std::max(Add(SequencesPlanned(outline), LeastMicrobatches(outline)),
                  outline.message_bytes / kBytesOfASequence);
}

}  // namespace batchplan
