// One rank's part of the plan of a pass: its micro-batches, whose tensors it packs and unpacks.
//
//   absl::StatusOr<WorkerPlan> plan = worker.FetchPlan(request);
//   for (const WorkerMicrobatch& microbatch : plan->microbatches()) {
//     plan->Pack(microbatch, fields);       // the batch's tensors into this micro-batch's row
//     ...                                   // forward, loss, backward
//     plan->Reduce(microbatch, losses);     // packed losses to one mean a sequence
//     plan->Unpack(microbatch, outputs);    // the packed row back to the batch's order
//   }
//   absl::Status status = plan->CheckErrors();
//
// If sequences share tokens (Manifest.shared_prefixes), losses are computed from the unpacked
// outputs, and UnpackGradient brings their gradients back to the row.
//
//   v1::ReportStepRequest report;         // what it took, for the job's fit
//   *report.add_microbatches() = plan->Timing(microbatch, milliseconds);
//
// There are two kinds of tensors. The batch's are in the manifest's order, row i for sequence i,
// padded or ragged (BatchTensors). A micro-batch's are packed rows. Fields, reductions and layouts
// are the C API's, documented in batchplan/kernels.h; the plan supplies rows, offsets and stream.
//
// Groups that differ in size (Topology.dynamic_context). Each micro-batch says which ranks share
// it: first_rank .. first_rank + context_parallel - 1 of the pool. A group begins at a multiple of
// its size, so process groups of every aligned power of two, and of the whole pool, suffice for all
// plans. All ranks run equally many slots, in order; ranks that communicate only within their
// groups can't deadlock.
//
// Memory. All is allocated from the worker's allocator when the plan is made, which also computes
// the layouts of all micro-batches: one copy, and one launch a micro-batch. Afterwards no memory of
// the backend is allocated, and on the GPU only CheckErrors waits.
//
// Threads. A plan is for one rank and one thread at a time; different plans are independent.
//
// Errors. No exceptions; absl::Status with the kernels' sentence. Mistakes that the host can see
// are InvalidArgument at once. Mistakes in the backend's memory, such as a sequence longer than a
// field is wide, are returned at once by the host backend too; the GPU finds them while working,
// and CheckErrors reports them.

#ifndef BATCHPLAN_CLIENT_CPP_WORKER_PLAN_H_
#define BATCHPLAN_CLIENT_CPP_WORKER_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "batchplan/kernels.h"
#include "batchplan/pass_requirements.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "batchplan/worker_options.h"

namespace batchplan {

// One micro-batch of a rank. Views its plan, which must outlive it.
struct WorkerMicrobatch {
  uint32_t mini_batch = 0;
  // Its ordinal within the rank's mini-batch. Micro-batches of one slot run at the same time on all
  // data-parallel ranks, or groups.
  uint32_t slot = 0;
  // Its ordinal in the whole plan, for logs.
  uint32_t index = 0;

  // Positions in the manifest and planned lengths of its sequences, in the row's order, on the
  // host. None for an empty micro-batch, which a rank runs so that all ranks have equally many.
  absl::Span<const uint32_t> sequence_index;
  absl::Span<const uint32_t> sequence_lengths;
  // How many first tokens of each sequence are in the row already, as the sequence before has them
  // too; empty if the pass shares nothing. The row lays the other tokens end to end.
  absl::Span<const uint32_t> shared_tokens;

  // The context parallel ranks that share the row, this rank's place among them, and the number of
  // the first of them among all data_parallel * context_parallel ranks, where they stand side by
  // side. A slice from JoinBatch does not name its rank: without dynamic_context, first_rank is
  // then 0 on every rank.
  uint32_t context_parallel = 1;
  uint32_t context_parallel_rank = 0;
  uint32_t first_rank = 0;
  // The multiple that the lengths of its sequences are rounded up to.
  uint32_t length_multiple = 1;

  // Tokens of the row over all context parallel ranks, and on each of them. In the padded layout
  // the row is [sequences, sequence_width] flattened; in the packed layout sequence_width is 0.
  uint32_t row_width = 0;
  uint32_t row_width_per_rank = 0;
  uint32_t sequence_width = 0;

  // The longest sequence, and the longest padded one, for FlashAttention's max_seqlen: on the host,
  // without a wait for a device. With shared tokens the second is the most that a sequence lays.
  uint32_t max_seqlen = 0;
  uint32_t max_seqlen_padded = 0;

  // [sequences + 1] each, in the backend's memory. See batchplan_packed_layout.
  const int32_t* cu_seqlens = nullptr;
  const int32_t* cu_seqlens_padded = nullptr;
  const int32_t* cu_seqlens_padded_per_rank = nullptr;
  // In the backend's memory, for a pass that shares tokens, else nullptr. [row_width] For each
  // token the place from which on no token sees it: the mask of attention. [sequences] By this the
  // kernels find the sequence that laid a token.
  const int32_t* subtree_end = nullptr;
  const int32_t* least_shared = nullptr;
  // [sequences] sequence_index in the backend's memory.
  const uint32_t* device_sequence_index = nullptr;

  uint32_t num_sequences() const { return static_cast<uint32_t>(sequence_index.size()); }
};

// How the tensors of the batch lie: padded, [sequences of the manifest, width of the field, ...],
// or ragged, [num_tokens, ...] with row i from offsets[i] to offsets[i + 1].
struct BatchTensors {
  // nullptr: padded. Else [sequences of the manifest + 1], in the backend's memory.
  const int64_t* offsets = nullptr;
  uint64_t num_tokens = 0;
};

// Which part of a row the packed tensors hold.
enum class RowPart : uint8_t {
  // This rank's shard, [row_width_per_rank, ...].
  kOwnRank,
  // The shards of all context parallel ranks of the micro-batch, [context_parallel,
  // row_width_per_rank, ...], as from an all-gather over them.
  kAllRanks,
};

class WorkerPlan {
 public:
  // Prepares on the backend the part of `plan` of rank (options.data_parallel_rank,
  // options.context_parallel_rank), or of rank options.data_parallel_rank of the pool. Does not use
  // `plan`, and what `requirements` views, afterwards.
  //
  // Errors as by WorkerOptions::Validate and CheckPassPlan; InvalidArgument if a rank is not in the
  // topology; ResourceExhausted if the allocator returns nothing; and the kernels' errors about
  // layouts.
  static absl::StatusOr<WorkerPlan> Create(const v1::PassPlan& plan,
                                           const PassRequirements& requirements,
                                           const WorkerOptions& options,
                                           const std::string& fingerprint = "");

  // This rank's micro-batches in the order they run: by mini-batch, then slot. Every rank has
  // equally many.
  absl::Span<const WorkerMicrobatch> microbatches() const { return microbatches_; }

  uint32_t num_mini_batches() const { return num_mini_batches_; }
  // Sequences of the manifest: rows of the batch's tensors.
  uint32_t num_sequences() const { return num_sequences_; }
  // The planner's fingerprint of the whole plan, equal on ranks with the same plan; as given to
  // Create.
  const std::string& fingerprint() const { return fingerprint_; }
  const WorkerOptions& options() const { return options_; }

  // Fills the packed destination of every field, this rank's shard of the row, from the batch's
  // tensors. At most BATCHPLAN_MAX_FIELDS fields, one launch. See batchplan_pack.
  absl::Status Pack(const WorkerMicrobatch& microbatch, absl::Span<const batchplan_field> fields,
                    const BatchTensors& batch = {}) const;

  // The inverse of Pack: fills the rows of the micro-batch's sequences in the batch's tensors, and
  // leaves all other rows alone. From its own shard, a context parallel rank writes pad_value for
  // the tokens of other ranks: with a pad of 0, the sum over the micro-batch's ranks is complete.
  // See batchplan_unpack.
  absl::Status Unpack(const WorkerMicrobatch& microbatch, absl::Span<const batchplan_field> fields,
                      const BatchTensors& batch = {}, RowPart part = RowPart::kOwnRank) const;

  // The gradient of Unpack: for each token of the row the sum over the sequences that have it. If
  // nothing is shared it is Pack with a pad_value of 0. See batchplan_unpack_gradient.
  absl::Status UnpackGradient(const WorkerMicrobatch& microbatch,
                              const batchplan_gradient& gradient,
                              const BatchTensors& batch = {}) const;

  // Sums and means of a packed field for each sequence of the micro-batch, in the row's order; from
  // its own shard, this rank's part of them. Rows that share tokens must be unpacked instead. See
  // batchplan_reduce.
  absl::Status Reduce(const WorkerMicrobatch& microbatch, const batchplan_reduction& reduction,
                      RowPart part = RowPart::kOwnRank) const;

  // One entry a sequence, between the manifest's order and the row's: [num_sequences(), k] to
  // [microbatch.num_sequences(), k] and back, k the field's elements_per_token. For Reduce's
  // denominators and means. `width` and `token_shift` of the fields are not used. One launch each.
  absl::Status GatherPerSequence(const WorkerMicrobatch& microbatch,
                                 absl::Span<const batchplan_field> fields) const;
  absl::Status ScatterPerSequence(const WorkerMicrobatch& microbatch,
                                  absl::Span<const batchplan_field> fields) const;

  // The micro-batch's times for ReportStep, with its tokens, its place, the context parallel ranks
  // and this stage's part of the model. For a stage whose share is 0 it is without tokens, and so
  // does not count for the fit. `milliseconds`: its forward and backward on this rank, without
  // waiting for others. `peak_bytes`: its peak of device memory, with the allocator's counter reset
  // before it; 0 if not measured. `loads`: what it computed of each load that the report names, in
  // its order (microbatch_loads.h). The place is that in the whole plan: for one rank's slice, set
  // its rank.
  v1::MicrobatchTiming Timing(const WorkerMicrobatch& microbatch, double milliseconds,
                              uint64_t peak_bytes = 0, absl::Span<const double> loads = {}) const;

  // Waits for the stream, returns the first error that was found in the backend's memory since the
  // plan was made or since the last CheckErrors, and forgets it.
  absl::Status CheckErrors() const;

 private:
  // Where the parts of the plan's memory lie, in bytes from its beginning.
  struct MemoryMap {
    size_t error_word = 0;
    size_t sequence_index = 0;
    size_t sequence_lengths = 0;
    // None if the pass shares nothing.
    size_t shared_tokens = 0;
    // 0, 1, 2, ...: the offsets of sequences of one token each.
    size_t counting = 0;
    // The three offset arrays of the first micro-batch, with shared tokens also subtree_end and
    // least_shared, then of the second, and so on.
    size_t layouts = 0;
    size_t workspace = 0;
    size_t workspace_size = 0;
    size_t size = 0;
  };

  using Memory = std::unique_ptr<void, std::function<void(void*)>>;

  WorkerPlan() = default;

  // Sets which ranks share the micro-batch.
  void SetGroup(const v1::PassPlan& plan, const PassRequirements& requirements,
                WorkerMicrobatch& microbatch) const;
  absl::Status ReadMicrobatches(const v1::PassPlan& plan, const PassRequirements& requirements);
  absl::Status MapMemory();
  absl::Status Allocate();
  // Copies the plan's arrays to the backend and computes the layouts.
  absl::Status Upload();

  template <typename T>
  T* At(size_t offset) const {
    return reinterpret_cast<T*>(static_cast<unsigned char*>(memory_.get()) + offset);
  }
  batchplan_row RowOf(const WorkerMicrobatch& microbatch, RowPart part) const;
  batchplan_row RowOfSingleTokens(const WorkerMicrobatch& microbatch) const;
  batchplan_sequences RowsOf(const WorkerMicrobatch& microbatch, const BatchTensors& batch) const;

  WorkerOptions options_;
  std::string fingerprint_;
  uint32_t num_mini_batches_ = 0;
  uint32_t num_sequences_ = 0;
  // This stage's.
  double model_share_ = 1;
  uint32_t most_sequences_ = 0;
  uint32_t widest_row_ = 0;
  bool shares_ = false;
  std::vector<WorkerMicrobatch> microbatches_;
  // Copied to the backend, in this order: the error word, sequence_index, sequence_lengths and
  // shared_tokens of all micro-batches, the counting offsets. The spans of microbatches_ view it.
  std::vector<uint32_t> uploaded_;
  MemoryMap map_;
  Memory memory_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_WORKER_PLAN_H_
