#include "server/service/admission/request_limits.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/ids.h"
#include "server/fitting/step_report.h"
#include "server/planner/pass/pass.h"
#include "server/planner/request/options.h"
#include "server/service/admission/rpc_status.h"

namespace batchplan {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

// More bytes than any sequence has on the wire.
constexpr uint64_t kBytesOfASequence = 24;

// This many values of loads cost as much planning time as a sequence.
constexpr uint64_t kLoadsOfASequence = 4;

uint64_t Add(uint64_t a, uint64_t b) { return a > kMost - b ? kMost : a + b; }

uint64_t Multiply(uint64_t a, uint64_t b) { return b > 0 && a > kMost / b ? kMost : a * b; }

// The least multiple of `multiple` that is at least `minimum`; both are at least 1.
uint64_t RoundUp(uint64_t minimum, uint64_t multiple) {
  return Multiply((minimum - 1) / multiple + 1, multiple);
}

// The size of the varints 0 .. count - 1, which have at most 32 bits.
uint64_t VarintBytes(uint64_t count) {
  uint64_t bytes = count;
  // A varint has one more byte for every seven bits.
  for (const int bits : {7, 14, 21, 28}) {
    const uint64_t first = uint64_t{1} << bits;
    if (count > first) bytes = Add(bytes, count - first);
  }
  return bytes;
}

// The ranks of the pool, with dynamic_context.
uint64_t PoolRanks(const RequestOutline& outline) {
  return Multiply(std::max<uint64_t>(outline.data_parallel, 1),
                  std::max<uint64_t>(outline.context_parallel, 1));
}

// The least number of groups in a slot: one may fill the pool unless max_size forbids it.
uint64_t FewestGroups(const RequestOutline& outline) {
  if (outline.max_size == 0) return 1;
  return (PoolRanks(outline) - 1) / outline.max_size + 1;
}

// The most sizes that groups can have, each with its own lengths and costs; 1 without
// dynamic_context.
uint64_t MostSizes(const RequestOutline& outline) {
  if (!outline.dynamic_context) return 1;
  const uint64_t pool = PoolRanks(outline);
  const uint64_t most = outline.max_size == 0 ? pool : std::min<uint64_t>(outline.max_size, pool);
  const uint64_t least = std::max<uint64_t>(outline.min_size, 1);
  uint64_t sizes = most == pool && !std::has_single_bit(pool) ? 1 : 0;
  if (most >= least) sizes += std::bit_width(most / least);
  return std::max<uint64_t>(sizes, 1);
}

static_assert(kMaxIdBytes <= OutlinedString::kMaxKeptBytes);

absl::Status CheckOutlinedId(const char* field, const OutlinedString& id) {
  return id.bytes == id.text.size() ? CheckId(field, id.text) : CheckIdBytes(field, id.bytes);
}

absl::Status CheckCount(const char* field, uint64_t count, uint64_t limit) {
  if (count <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", count, " entries; the limit is ", limit));
}

// `size` is the plan's size in words.
absl::Status TooLarge(const std::string& size, uint64_t max_message_bytes) {
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("the plan takes ", size,
                   " bytes, more than the server's max_message_bytes=", max_message_bytes));
  SetRetryAfter(-absl::InfiniteDuration(), &status);
  return status;
}

}  // namespace

uint64_t SequencesPlanned(const RequestOutline& outline) {
  return Multiply(outline.sequences, std::max<uint64_t>(outline.passes, 1));
}

uint64_t LeastMicrobatches(const RequestOutline& outline) {
  if (!outline.allow_empty_microbatches) return 0;
  const uint64_t ranks = outline.dynamic_context ? FewestGroups(outline)
                                                 : std::max<uint64_t>(outline.data_parallel, 1);
  uint64_t group = 1;
  if (outline.virtual_pipeline > 1) {
    group = outline.group_size > 0 ? outline.group_size : outline.pipeline_parallel;
    group = std::max<uint64_t>(group, 1);
  }
  // A selection may take any number of sequences.
  const uint64_t mini_batches =
      outline.mini_batch_size == 0 || outline.selection
          ? 1
          : std::max<uint64_t>(outline.sequences / outline.mini_batch_size, 1);
  uint64_t microbatches = 0;
  for (const OutlinedPass& pass : outline.pass_options) {
    const uint64_t multiple =
        std::lcm(std::max<uint64_t>(pass.microbatch_count_multiple, 1), group);
    const uint64_t of_a_rank = RoundUp(std::max<uint64_t>(pass.min_microbatches, 1), multiple);
    microbatches = Add(microbatches, Multiply(Multiply(of_a_rank, ranks),
                                              pass.ignore_mini_batches ? 1 : mini_batches));
  }
  return microbatches;
}

uint64_t LeastAnswerBytes(const RequestOutline& outline) {
  if (outline.overlong == v1::OVERLONG_POLICY_DROP) return 0;
  // Each position is in the passes, in deferred or in excluded.
  if (outline.selection) return VarintBytes(outline.sequences);
  // sequence_index, sequence_lengths; then microbatch_offsets and row_widths.
  const uint64_t of_a_pass = Add(VarintBytes(outline.sequences), outline.sequences);
  return Add(Multiply(of_a_pass, outline.passes), Multiply(2, LeastMicrobatches(outline)));
}

uint64_t CostOf(const RequestOutline& outline) {
  const uint64_t times = outline.shared_prefixes ? 2 : 1;
  const uint64_t sequences = Multiply(SequencesPlanned(outline), MostSizes(outline));
  const uint64_t loads =
      Multiply(Add(outline.load_values, outline.items), std::max<uint64_t>(outline.passes, 1)) /
      kLoadsOfASequence;
  return std::max(Add(Add(Multiply(times, sequences), loads), LeastMicrobatches(outline)),
                  outline.message_bytes / kBytesOfASequence);
}

absl::Status CheckLimits(const RequestOutline& outline, const RequestLimits& limits) {
  absl::Status status = CheckOutlinedId("job_id", outline.job_id);
  status.Update(CheckOutlinedId("request_id", outline.request_id));
  if (const uint64_t planned = SequencesPlanned(outline); planned > limits.max_sequences) {
    const std::string in_all =
        outline.passes > 1 ? absl::StrCat(" in ", outline.passes, " passes, ", planned, " in all")
                           : "";
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("manifest.lengths has ", outline.sequences, " sequences", in_all,
                     ", more than the server's max_sequences=", limits.max_sequences)));
  }
  if (outline.items > limits.max_sequences) {
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("manifest.items has ", outline.items,
                     " items, more than the server's max_sequences=", limits.max_sequences)));
  }
  // Beyond these, each pass may have one micro-batch a sequence.
  if (const uint64_t least = LeastMicrobatches(outline), planned = SequencesPlanned(outline);
      least > kMaxEmptyMicrobatches && least - kMaxEmptyMicrobatches > planned) {
    status.Update(absl::InvalidArgumentError(absl::StrCat(
        "min_microbatches and microbatch_count_multiple ask for ", least,
        " micro-batches over all passes, mini-batches and ",
        outline.dynamic_context
            ? absl::StrCat("groups of topology.dynamic_context on ", PoolRanks(outline), " ranks")
            : absl::StrCat("the ranks of data_parallel ", outline.data_parallel),
        ", more than ", kMaxEmptyMicrobatches,
        " beyond one a sequence and pass, the limit where allow_empty_microbatches is set")));
  }
  // A parsed entry that is empty has a hundred times its size on the wire.
  status.Update(CheckCount("passes", outline.passes, kMaxPasses));
  status.Update(CheckCount("microbatches", outline.microbatches, kMaxReportedMicrobatches));
  return status;
}

absl::Status CheckAnswerFits(const RequestOutline& outline, uint64_t max_message_bytes) {
  const uint64_t bytes = LeastAnswerBytes(outline);
  if (bytes <= max_message_bytes) return absl::OkStatus();
  return TooLarge(absl::StrCat("at least ", bytes), max_message_bytes);
}

absl::Status CheckSendable(uint64_t bytes, uint64_t max_message_bytes) {
  if (bytes <= max_message_bytes) return absl::OkStatus();
  return TooLarge(absl::StrCat(bytes), max_message_bytes);
}

}  // namespace batchplan
