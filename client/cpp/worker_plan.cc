#include "batchplan/worker_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "batchplan/kernels/status.h"
#include "batchplan/worker_options.h"
#include "server/planner/request/lengths.h"

namespace batchplan {
namespace {

// The alignment that the kernels require of a workspace, used for all memory here.
constexpr size_t kAlignment = 256;

WorkerAllocator HostAllocator() {
  return {
      .allocate =
          [](size_t bytes) {
            return ::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow);
          },
      .free = [](void* memory,
                 size_t /*bytes*/) { ::operator delete (memory, std::align_val_t{kAlignment}); }};
}

// Whether the plan has the groups of all ranks. The slice of one rank has one micro-batch a slot.
bool HoldsGroups(const PassRequirements& requirements) {
  return requirements.pool && requirements.data_parallel == requirements.pool->ranks;
}

batchplan_plan ViewOf(const v1::PassPlan& plan, const PassRequirements& requirements) {
  return {.sequence_index = plan.sequence_index().data(),
          .sequence_lengths = plan.sequence_lengths().data(),
          .microbatch_offsets = plan.microbatch_offsets().data(),
          .row_widths = plan.row_widths().data(),
          .microbatches_per_rank = plan.microbatches_per_rank().data(),
          .context_sizes = HoldsGroups(requirements) ? plan.context_sizes().data() : nullptr,
          .num_sequences = static_cast<uint32_t>(plan.sequence_index_size()),
          .num_microbatches = static_cast<uint32_t>(plan.row_widths_size()),
          .num_mini_batches = static_cast<uint32_t>(plan.microbatches_per_rank_size()),
          .data_parallel = requirements.data_parallel,
          .shared_tokens = nullptr};
}

absl::Status CheckPoolRank(const WorkerOptions& options, const ContextPool& pool) {
  if (options.data_parallel_rank >= pool.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("WorkerOptions.data_parallel_rank is ", options.data_parallel_rank,
                     ", but with dynamic_context the pool has ", pool.ranks, " ranks"));
  }
  if (options.context_parallel_rank != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "WorkerOptions.context_parallel_rank is ", options.context_parallel_rank,
        "; must be 0 with dynamic_context, where data_parallel_rank is that of the pool"));
  }
  return absl::OkStatus();
}

absl::Status CheckRanks(const WorkerOptions& options, const PassRequirements& requirements) {
  if (requirements.pool) return CheckPoolRank(options, *requirements.pool);
  if (options.data_parallel_rank >= requirements.data_parallel) {
    return absl::InvalidArgumentError(
        absl::StrCat("WorkerOptions.data_parallel_rank is ", options.data_parallel_rank,
                     ", but data_parallel is ", requirements.data_parallel));
  }
  if (options.context_parallel_rank >= requirements.context_parallel) {
    return absl::InvalidArgumentError(
        absl::StrCat("WorkerOptions.context_parallel_rank is ", options.context_parallel_rank,
                     ", but context_parallel is ", requirements.context_parallel));
  }
  return absl::OkStatus();
}

absl::Status CheckStage(const WorkerOptions& options, const PassRequirements& requirements) {
  if (options.pipeline_rank >= requirements.stage_shares.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("WorkerOptions.pipeline_rank is ", options.pipeline_rank,
                     ", but pipeline_parallel is ", requirements.stage_shares.size()));
  }
  return absl::OkStatus();
}

// "`what`: the sentence of `status`". Unimplemented for a backend that was not built,
// FailedPrecondition for a missing device, Internal for a failure of CUDA, otherwise
// InvalidArgument.
absl::Status KernelStatus(batchplan_status status, absl::string_view what) {
  const auto code = [status] {
    switch (status) {
      case BATCHPLAN_OK:
        return absl::StatusCode::kOk;
      case BATCHPLAN_ERROR_BACKEND_NOT_BUILT:
        return absl::StatusCode::kUnimplemented;
      case BATCHPLAN_ERROR_NO_DEVICE:
        return absl::StatusCode::kFailedPrecondition;
      case BATCHPLAN_ERROR_CUDA:
        return absl::StatusCode::kInternal;
      default:
        return absl::StatusCode::kInvalidArgument;
    }
  };
  if (status == BATCHPLAN_OK) return absl::OkStatus();
  return {code(), absl::StrCat(what, ": ", batchplan_status_string(status))};
}

absl::Status CallStatus(batchplan_status status, const char* function,
                        const WorkerMicrobatch& microbatch) {
  // Called often, so that the text is only made for an error.
  if (status == BATCHPLAN_OK) return absl::OkStatus();
  return KernelStatus(status, absl::StrCat(function, " of micro-batch ", microbatch.index));
}

// The fields as rows of one token, since they have one entry a sequence.
std::vector<batchplan_field> SingleTokens(absl::Span<const batchplan_field> fields) {
  std::vector<batchplan_field> single(fields.begin(), fields.end());
  for (batchplan_field& field : single) {
    field.width = 1;
    field.token_shift = 0;
  }
  return single;
}

// The most tokens of its own that a sequence has in the row.
uint32_t MostLaid(const WorkerMicrobatch& microbatch) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < microbatch.num_sequences(); ++i) {
    most = std::max(most, microbatch.sequence_lengths[i] - microbatch.shared_tokens[i]);
  }
  return most;
}

}  // namespace

absl::Status WorkerOptions::Validate() const {
  if (static_cast<bool>(allocator.allocate) != static_cast<bool>(allocator.free)) {
    return absl::InvalidArgumentError(
        absl::StrCat("WorkerOptions.allocator has ", allocator.allocate ? "allocate" : "free",
                     ", but not ", allocator.allocate ? "free" : "allocate"));
  }
  if (backend == BATCHPLAN_BACKEND_CUDA && !allocator.allocate) {
    return absl::InvalidArgumentError(
        "WorkerOptions.allocator is not set, but the CUDA backend needs device memory from it");
  }
  if (sharding != BATCHPLAN_SHARDING_ZIGZAG && sharding != BATCHPLAN_SHARDING_CONTIGUOUS) {
    return absl::InvalidArgumentError(
        absl::StrCat("WorkerOptions.sharding is ", sharding, ", which names no sharding"));
  }
  return KernelStatus(batchplan_backend_status(backend),
                      absl::StrCat("WorkerOptions.backend is ", backend));
}

absl::StatusOr<WorkerPlan> WorkerPlan::Create(const v1::PassPlan& plan,
                                              const PassRequirements& requirements,
                                              const WorkerOptions& options,
                                              const std::string& fingerprint) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  if (absl::Status status = CheckRanks(options, requirements); !status.ok()) return status;
  if (absl::Status status = CheckStage(options, requirements); !status.ok()) return status;
  if (absl::Status status = CheckPassPlan(plan, requirements); !status.ok()) return status;

  WorkerPlan result;
  result.options_ = options;
  if (!options.allocator.allocate) result.options_.allocator = HostAllocator();
  result.fingerprint_ = fingerprint;
  result.num_mini_batches_ = static_cast<uint32_t>(plan.microbatches_per_rank_size());
  result.num_sequences_ = requirements.num_sequences;
  result.model_share_ = requirements.stage_shares[options.pipeline_rank];
  if (absl::Status status = result.ReadMicrobatches(plan, requirements); !status.ok()) {
    return status;
  }
  if (absl::Status status = result.MapMemory(); !status.ok()) return status;
  if (absl::Status status = result.Allocate(); !status.ok()) return status;
  if (absl::Status status = result.Upload(); !status.ok()) return status;
  return result;
}

// `plan` has passed CheckPassPlan, and `microbatch.index` is set.
void WorkerPlan::SetGroup(const v1::PassPlan& plan, const PassRequirements& requirements,
                          WorkerMicrobatch& microbatch) const {
  const uint32_t rank = options_.data_parallel_rank;
  if (requirements.pool) {
    const ContextGroupSize& group =
        *requirements.pool->Find(plan.context_sizes(static_cast<int>(microbatch.index)));
    microbatch.context_parallel = group.ranks;
    microbatch.length_multiple = group.length_multiple;
    // A group begins at a multiple of its size.
    microbatch.context_parallel_rank = rank % group.ranks;
    microbatch.first_rank = rank - microbatch.context_parallel_rank;
  } else {
    microbatch.context_parallel = requirements.context_parallel;
    microbatch.length_multiple = requirements.length_multiple;
    microbatch.context_parallel_rank = options_.context_parallel_rank;
    microbatch.first_rank = rank * requirements.context_parallel;
  }
}

absl::Status WorkerPlan::ReadMicrobatches(const v1::PassPlan& plan,
                                          const PassRequirements& requirements) {
  const batchplan_plan view = ViewOf(plan, requirements);
  const bool is_slice = requirements.pool && !HoldsGroups(requirements);
  batchplan_microbatch_iterator iterator = {};
  if (const batchplan_status status =
          batchplan_rank_microbatches(&view, is_slice ? 0 : options_.data_parallel_rank, &iterator);
      status != BATCHPLAN_OK) {
    return KernelStatus(status, "the plan can't be used");
  }
  shares_ = plan.shared_tokens_size() > 0;
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> shared_tokens;
  uploaded_.push_back(BATCHPLAN_OK);
  batchplan_microbatch next = {};
  while (batchplan_next_microbatch(&iterator, &next) != 0) {
    WorkerMicrobatch microbatch;
    microbatch.mini_batch = next.mini_batch;
    microbatch.slot = next.slot;
    microbatch.index = next.index;
    SetGroup(plan, requirements, microbatch);
    microbatch.row_width = next.row_width;
    if (requirements.padded) {
      microbatch.sequence_width = next.row_width;
      // Does not overflow: CheckPassPlan bounds it by the token budget, or it is one sequence.
      microbatch.row_width = next.row_width * next.num_sequences;
    }
    microbatch.row_width_per_rank = microbatch.row_width / microbatch.context_parallel;
    microbatch.sequence_index = absl::MakeConstSpan(next.sequence_index, next.num_sequences);
    microbatch.sequence_lengths = absl::MakeConstSpan(next.sequence_lengths, next.num_sequences);
    for (const uint32_t length : microbatch.sequence_lengths) {
      microbatch.max_seqlen = std::max(microbatch.max_seqlen, length);
    }
    // At most the width of the row.
    microbatch.max_seqlen_padded =
        requirements.padded && next.num_sequences > 0
            ? microbatch.sequence_width
            : static_cast<uint32_t>(AlignUp(microbatch.max_seqlen, microbatch.length_multiple));
    if (shares_) {
      microbatch.shared_tokens = absl::MakeConstSpan(
          plan.shared_tokens().data() + (next.sequence_index - plan.sequence_index().data()),
          next.num_sequences);
      microbatch.max_seqlen_padded = MostLaid(microbatch);
    }
    most_sequences_ = std::max(most_sequences_, next.num_sequences);
    widest_row_ = std::max(widest_row_, microbatch.row_width);
    uploaded_.insert(uploaded_.end(), microbatch.sequence_index.begin(),
                     microbatch.sequence_index.end());
    lengths.insert(lengths.end(), microbatch.sequence_lengths.begin(),
                   microbatch.sequence_lengths.end());
    shared_tokens.insert(shared_tokens.end(), microbatch.shared_tokens.begin(),
                         microbatch.shared_tokens.end());
    microbatches_.push_back(microbatch);
  }
  uploaded_.insert(uploaded_.end(), lengths.begin(), lengths.end());
  uploaded_.insert(uploaded_.end(), shared_tokens.begin(), shared_tokens.end());
  uploaded_.resize(uploaded_.size() + most_sequences_ + 1);
  std::iota(uploaded_.end() - most_sequences_ - 1, uploaded_.end(), 0U);

  // From here on the spans point into uploaded_, which does not grow any more.
  const uint32_t* index = uploaded_.data() + 1;
  for (WorkerMicrobatch& microbatch : microbatches_) {
    const size_t size = microbatch.num_sequences();
    microbatch.sequence_index = absl::MakeConstSpan(index, size);
    microbatch.sequence_lengths = absl::MakeConstSpan(index + lengths.size(), size);
    if (shares_) microbatch.shared_tokens = absl::MakeConstSpan(index + 2 * lengths.size(), size);
    index += size;
  }
  return absl::OkStatus();
}

absl::Status WorkerPlan::MapMemory() {
  size_t total = 0;
  size_t tokens = 0;
  for (const WorkerMicrobatch& microbatch : microbatches_) {
    total += microbatch.num_sequences();
    tokens += microbatch.row_width;
  }
  constexpr size_t kEntry = sizeof(uint32_t);
  map_.error_word = 0;
  map_.sequence_index = kEntry;
  map_.sequence_lengths = map_.sequence_index + total * kEntry;
  map_.shared_tokens = map_.sequence_lengths + total * kEntry;
  map_.counting = map_.shared_tokens + (shares_ ? total : 0) * kEntry;
  map_.layouts = map_.counting + (size_t{most_sequences_} + 1) * kEntry;
  const size_t end =
      map_.layouts + (3 * (total + microbatches_.size()) + (shares_ ? total + tokens : 0)) * kEntry;
  map_.workspace = (end + kAlignment - 1) / kAlignment * kAlignment;
  const batchplan_status status = batchplan_reduce_workspace_size(
      options_.backend, most_sequences_, widest_row_, &map_.workspace_size);
  map_.size = map_.workspace + map_.workspace_size;
  return KernelStatus(status, "workspace of the plan");
}

absl::Status WorkerPlan::Allocate() {
  void* memory = options_.allocator.allocate(map_.size);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "WorkerOptions.allocator gave no memory for the plan's ", map_.size, " bytes"));
  }
  memory_ = Memory(memory, [free = options_.allocator.free, size = map_.size](void* allocated) {
    free(allocated, size);
  });
  return absl::OkStatus();
}

absl::Status WorkerPlan::Upload() {
  const batchplan_status copied =
      batchplan_copy(options_.backend, memory_.get(), uploaded_.data(),
                     uploaded_.size() * sizeof(uint32_t), options_.stream);
  if (copied != BATCHPLAN_OK) return KernelStatus(copied, "copying the plan to the backend");

  const auto* index = At<const uint32_t>(map_.sequence_index);
  const auto* lengths = At<const uint32_t>(map_.sequence_lengths);
  const auto* shared = shares_ ? At<const uint32_t>(map_.shared_tokens) : nullptr;
  auto* offsets = At<int32_t>(map_.layouts);
  for (WorkerMicrobatch& microbatch : microbatches_) {
    const uint32_t size = microbatch.num_sequences();
    batchplan_packed_layout layout = {};
    layout.cu_seqlens = offsets;
    layout.cu_seqlens_padded = offsets + size + 1;
    layout.cu_seqlens_padded_per_rank = offsets + 2 * (size_t{size} + 1);
    offsets += 3 * (size_t{size} + 1);
    if (shares_) {
      layout.least_shared = offsets;
      layout.subtree_end = offsets + size;
      offsets += size_t{size} + microbatch.row_width;
      microbatch.least_shared = layout.least_shared;
      microbatch.subtree_end = layout.subtree_end;
    }
    microbatch.cu_seqlens = layout.cu_seqlens;
    microbatch.cu_seqlens_padded = layout.cu_seqlens_padded;
    microbatch.cu_seqlens_padded_per_rank = layout.cu_seqlens_padded_per_rank;
    microbatch.device_sequence_index = index;

    const batchplan_layout_options options = RowOf(microbatch, RowPart::kOwnRank).options;
    const batchplan_status status =
        batchplan_compute_layout(options_.backend, lengths, shared, size, &options, &layout,
                                 At<batchplan_status>(map_.error_word), options_.stream);
    if (status != BATCHPLAN_OK) return CallStatus(status, "layout", microbatch);
    index += size;
    lengths += size;
    if (shares_) shared += size;
  }
  return absl::OkStatus();
}

batchplan_row WorkerPlan::RowOf(const WorkerMicrobatch& microbatch, RowPart part) const {
  batchplan_row row = {};
  row.cu_seqlens = microbatch.cu_seqlens;
  row.cu_seqlens_padded = microbatch.cu_seqlens_padded;
  row.least_shared = microbatch.least_shared;
  row.num_sequences = microbatch.num_sequences();
  row.options.length_multiple = microbatch.length_multiple;
  row.options.context_parallel = microbatch.context_parallel;
  row.options.row_width = microbatch.row_width;
  row.options.sequence_width = microbatch.sequence_width;
  row.options.sharding = options_.sharding;
  row.context_parallel_rank =
      part == RowPart::kAllRanks ? BATCHPLAN_ALL_RANKS : microbatch.context_parallel_rank;
  return row;
}

batchplan_row WorkerPlan::RowOfSingleTokens(const WorkerMicrobatch& microbatch) const {
  batchplan_row row = {};
  row.cu_seqlens = At<const int32_t>(map_.counting);
  row.cu_seqlens_padded = row.cu_seqlens;
  row.num_sequences = microbatch.num_sequences();
  row.options.length_multiple = 1;
  row.options.context_parallel = 1;
  row.options.row_width = row.num_sequences;
  return row;
}

batchplan_sequences WorkerPlan::RowsOf(const WorkerMicrobatch& microbatch,
                                       const BatchTensors& batch) const {
  return {.sequence_index = microbatch.device_sequence_index,
          .offsets = batch.offsets,
          .num_rows = num_sequences_,
          .num_tokens = batch.num_tokens};
}

absl::Status WorkerPlan::Pack(const WorkerMicrobatch& microbatch,
                              absl::Span<const batchplan_field> fields,
                              const BatchTensors& batch) const {
  const batchplan_row row = RowOf(microbatch, RowPart::kOwnRank);
  const batchplan_sequences sequences = RowsOf(microbatch, batch);
  return CallStatus(batchplan_pack(options_.backend, &row, &sequences, fields.data(),
                                   static_cast<uint32_t>(fields.size()),
                                   At<batchplan_status>(map_.error_word), options_.stream),
                    "pack", microbatch);
}

absl::Status WorkerPlan::Unpack(const WorkerMicrobatch& microbatch,
                                absl::Span<const batchplan_field> fields, const BatchTensors& batch,
                                RowPart part) const {
  const batchplan_row row = RowOf(microbatch, part);
  const batchplan_sequences sequences = RowsOf(microbatch, batch);
  return CallStatus(batchplan_unpack(options_.backend, &row, &sequences, fields.data(),
                                     static_cast<uint32_t>(fields.size()),
                                     At<batchplan_status>(map_.error_word), options_.stream),
                    "unpack", microbatch);
}

absl::Status WorkerPlan::UnpackGradient(const WorkerMicrobatch& microbatch,
                                        const batchplan_gradient& gradient,
                                        const BatchTensors& batch) const {
  const batchplan_row row = RowOf(microbatch, RowPart::kOwnRank);
  const batchplan_sequences sequences = RowsOf(microbatch, batch);
  return CallStatus(
      batchplan_unpack_gradient(options_.backend, &row, &sequences, &gradient,
                                At<batchplan_status>(map_.error_word), options_.stream),
      "gradient of unpack", microbatch);
}

absl::Status WorkerPlan::Reduce(const WorkerMicrobatch& microbatch,
                                const batchplan_reduction& reduction, RowPart part) const {
  const batchplan_row row = RowOf(microbatch, part);
  return CallStatus(
      batchplan_reduce(options_.backend, &row, &reduction, At<batchplan_status>(map_.error_word),
                       At<void>(map_.workspace), map_.workspace_size, options_.stream),
      "reduction", microbatch);
}

absl::Status WorkerPlan::GatherPerSequence(const WorkerMicrobatch& microbatch,
                                           absl::Span<const batchplan_field> fields) const {
  const batchplan_row row = RowOfSingleTokens(microbatch);
  const batchplan_sequences sequences = RowsOf(microbatch, {});
  const std::vector<batchplan_field> single = SingleTokens(fields);
  return CallStatus(batchplan_pack(options_.backend, &row, &sequences, single.data(),
                                   static_cast<uint32_t>(single.size()),
                                   At<batchplan_status>(map_.error_word), options_.stream),
                    "gathering per sequence", microbatch);
}

absl::Status WorkerPlan::ScatterPerSequence(const WorkerMicrobatch& microbatch,
                                            absl::Span<const batchplan_field> fields) const {
  const batchplan_row row = RowOfSingleTokens(microbatch);
  const batchplan_sequences sequences = RowsOf(microbatch, {});
  const std::vector<batchplan_field> single = SingleTokens(fields);
  return CallStatus(batchplan_unpack(options_.backend, &row, &sequences, single.data(),
                                     static_cast<uint32_t>(single.size()),
                                     At<batchplan_status>(map_.error_word), options_.stream),
                    "scattering per sequence", microbatch);
}

v1::MicrobatchTiming WorkerPlan::Timing(const WorkerMicrobatch& microbatch, double milliseconds,
                                        uint64_t peak_bytes, absl::Span<const double> loads) const {
  v1::MicrobatchTiming timing;
  timing.mutable_loads()->Add(loads.begin(), loads.end());
  timing.set_milliseconds(milliseconds);
  timing.set_peak_bytes(peak_bytes);
  timing.set_rank(options_.data_parallel_rank);
  timing.set_slot(microbatch.slot);
  timing.set_mini_batch(microbatch.mini_batch);
  // This stage has no share of the model. Without tokens, the fit ignores its timing.
  if (model_share_ == 0) return timing;
  uint64_t tokens = 0;
  uint64_t squares = 0;
  for (uint32_t i = 0; i < microbatch.num_sequences(); ++i) {
    const uint64_t length = microbatch.sequence_lengths[i];
    const uint64_t shared = shares_ ? microbatch.shared_tokens[i] : 0;
    const uint64_t end = shares_ ? length
                         : microbatch.sequence_width > 0
                             ? microbatch.sequence_width
                             : AlignUp(length, microbatch.length_multiple);
    tokens += end - shared;
    squares += end * end - shared * shared;
  }
  timing.set_tokens(tokens);
  timing.set_tokens_squared(squares);
  // A report may not have more sequences than tokens, but empty copies can be more.
  timing.set_sequences(
      static_cast<uint32_t>(std::min<uint64_t>(microbatch.num_sequences(), tokens)));
  // Unset means 1, also to servers that do not know these two fields.
  if (microbatch.context_parallel > 1) timing.set_context_parallel(microbatch.context_parallel);
  if (model_share_ < 1) timing.set_model_share(model_share_);
  return timing;
}

absl::Status WorkerPlan::CheckErrors() const {
  batchplan_status found = BATCHPLAN_OK;
  auto* error_word = At<batchplan_status>(map_.error_word);
  batchplan_status status =
      batchplan_copy(options_.backend, &found, error_word, sizeof(found), options_.stream);
  if (status == BATCHPLAN_OK) status = batchplan_wait(options_.backend, options_.stream);
  // uploaded_ begins with a cleared error word, and lives until the copy is done.
  if (status == BATCHPLAN_OK && found != BATCHPLAN_OK) {
    status = batchplan_copy(options_.backend, error_word, uploaded_.data(), sizeof(found),
                            options_.stream);
  }
  if (status != BATCHPLAN_OK) return KernelStatus(status, "reading the errors of the plan's work");
  return KernelStatus(found, "in the backend's memory");
}

}  // namespace batchplan
