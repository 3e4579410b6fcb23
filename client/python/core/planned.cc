#include "client/python/core/planned.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "batchplan/kernels.h"
#include "client/python/core/status_error.h"
#include "proto/batchplan/v1/convert.h"

namespace batchplan::python {
namespace {

// Whether no sequence shares more tokens than it or the one before it in its row has. The offsets
// must fit the other arrays.
bool SharedTokensFit(const PassPlan& pass) {
  if (pass.shared_tokens.empty()) return true;
  if (pass.shared_tokens.size() != pass.sequence_lengths.size()) return false;
  for (size_t m = 0; m + 1 < pass.microbatch_offsets.size(); ++m) {
    uint32_t before = 0;
    for (uint32_t i = pass.microbatch_offsets[m]; i < pass.microbatch_offsets[m + 1]; ++i) {
      const uint32_t length = pass.sequence_lengths[i];
      if (pass.shared_tokens[i] > std::min(before, length)) return false;
      before = length;
    }
  }
  return true;
}

// Checks the arrays, which are later read without further checks.
absl::Status CheckArrays(const PassPlan& pass, uint32_t ranks) {
  const size_t microbatches = pass.row_widths.size();
  const bool grouped = !pass.context_sizes.empty();
  // In one rank's slice a slot is one micro-batch, whatever the size of its group.
  const bool whole_groups = grouped && ranks > 1;
  const batchplan_plan plan = {
      .sequence_index = pass.sequence_index.data(),
      .sequence_lengths = pass.sequence_lengths.data(),
      .microbatch_offsets = pass.microbatch_offsets.data(),
      .row_widths = pass.row_widths.data(),
      .microbatches_per_rank = pass.microbatches_per_rank.data(),
      .context_sizes = whole_groups ? pass.context_sizes.data() : nullptr,
      .num_sequences = static_cast<uint32_t>(pass.sequence_index.size()),
      .num_microbatches = static_cast<uint32_t>(microbatches),
      .num_mini_batches = static_cast<uint32_t>(pass.microbatches_per_rank.size()),
      .data_parallel = ranks};
  batchplan_microbatch_iterator iterator;
  if ((grouped && (pass.context_sizes.size() != microbatches ||
                   std::ranges::find(pass.context_sizes, 0U) != pass.context_sizes.end())) ||
      pass.sequence_lengths.size() != pass.sequence_index.size() ||
      pass.microbatch_offsets.size() != microbatches + 1 || pass.length_multiple == 0 ||
      batchplan_rank_microbatches(&plan, 0, &iterator) != BATCHPLAN_OK || !SharedTokensFit(pass)) {
    return absl::InternalError(absl::StrCat("the answer is no plan for ", ranks,
                                            " ranks: its arrays do not fit each other"));
  }
  return absl::OkStatus();
}

}  // namespace

v1::PlanBatchResponse Planned::ToResponse() const {
  v1::PlanBatchResponse response = head_;
  response.mutable_deferred()->Add(plan_.deferred.begin(), plan_.deferred.end());
  for (size_t i = 0; i < plan_.passes.size(); ++i) {
    const PassPlan& pass = plan_.passes[i];
    v1::PassPlan& wire = *response.mutable_passes(static_cast<int>(i));
    const auto set = [](const std::vector<uint32_t>& values, auto* field) {
      field->Add(values.begin(), values.end());
    };
    set(pass.sequence_index, wire.mutable_sequence_index());
    set(pass.microbatch_offsets, wire.mutable_microbatch_offsets());
    set(pass.microbatches_per_rank, wire.mutable_microbatches_per_rank());
    set(pass.row_widths, wire.mutable_row_widths());
    set(pass.sequence_lengths, wire.mutable_sequence_lengths());
    set(pass.context_sizes, wire.mutable_context_sizes());
    set(pass.shared_tokens, wire.mutable_shared_tokens());
    for (const LoadRanks& load : pass.item_ranks) {
      v1::LoadRanks* entry = wire.add_item_ranks();
      entry->set_load(load.load);
      set(load.ranks, entry->mutable_ranks());
    }
  }
  return response;
}

std::shared_ptr<Planned> ReadPlanned(v1::PlanBatchResponse response, uint32_t ranks) {
  Plan plan = Get(ParseResponse(response));
  if (plan.passes.empty()) throw StatusError(absl::InternalError("the answer has no pass"));
  for (const PassPlan& pass : plan.passes) Check(CheckArrays(pass, ranks));
  // A later server's, which are none of this plan when it is saved.
  response.DiscardUnknownFields();
  response.clear_deferred();
  for (v1::PassPlan& pass : *response.mutable_passes()) {
    pass.clear_sequence_index();
    pass.clear_microbatch_offsets();
    pass.clear_microbatches_per_rank();
    pass.clear_row_widths();
    pass.clear_sequence_lengths();
    pass.clear_context_sizes();
    pass.clear_shared_tokens();
    pass.clear_item_ranks();
  }
  return std::make_shared<Planned>(std::move(plan), ranks, std::move(response));
}

}  // namespace batchplan::python
