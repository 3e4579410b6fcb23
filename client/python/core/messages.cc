#include "client/python/core/messages.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/python/core/status_error.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/json.h"
#include "proto/batchplan/v1/known_fields.h"
#include "server/fitting/job_fit.h"

namespace batchplan::python {
namespace {

template <typename Message>
Message ReadJson(const std::string& json) {
  Message message;
  Check(FromJson(json, &message));
  return message;
}

void Add(const ManifestArrays& arrays, v1::Manifest* manifest) {
  manifest->mutable_lengths()->Add(arrays.lengths.begin(), arrays.lengths.end());
  manifest->mutable_group_ids()->Add(arrays.group_ids.begin(), arrays.group_ids.end());
  manifest->mutable_ranks()->Add(arrays.ranks.begin(), arrays.ranks.end());
  manifest->mutable_ages()->Add(arrays.ages.begin(), arrays.ages.end());
  manifest->mutable_shared_prefixes()->Add(arrays.shared_prefixes.begin(),
                                           arrays.shared_prefixes.end());
  manifest->mutable_shared_with()->Add(arrays.shared_with.begin(), arrays.shared_with.end());
  manifest->mutable_kinds()->Add(arrays.kinds.begin(), arrays.kinds.end());
  for (const Load& load : arrays.loads) {
    v1::Load* entry = manifest->add_loads();
    entry->set_name(std::string(load.name));
    entry->mutable_values()->Add(load.values.begin(), load.values.end());
  }
  for (const LoadItems& items : arrays.items) {
    v1::LoadItems* entry = manifest->add_items();
    entry->set_load(std::string(items.load));
    entry->mutable_sequences()->Add(items.sequences.begin(), items.sequences.end());
    entry->mutable_values()->Add(items.values.begin(), items.values.end());
  }
}

std::string Bytes(const google::protobuf::Message& message) {
  std::string bytes;
  if (!message.SerializeToString(&bytes)) {
    throw StatusError(absl::ResourceExhaustedError(
        absl::StrCat("the ", message.GetTypeName(), " is larger than 2 GiB")));
  }
  return bytes;
}

template <typename Message>
Message ReadBytes(absl::string_view bytes) {
  Message message;
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw StatusError(
        absl::InternalError(absl::StrCat("the answer is no ", message.GetTypeName())));
  }
  return message;
}

Joined ReadJoined(v1::JoinBatchResponse response, uint32_t ranks) {
  Joined joined = {
      .plan = ReadPlanned(std::move(*response.mutable_plan()), ranks),
      .worker_offsets = {response.worker_offsets().begin(), response.worker_offsets().end()},
      .item_sequences = {},
      .request_json = {},
      .manifest = {}};
  for (const v1::ItemSequences& items : response.item_sequences()) {
    joined.item_sequences.emplace_back(
        items.load(), std::vector<uint32_t>(items.sequences().begin(), items.sequences().end()));
  }
  if (!response.has_request()) return joined;
  v1::PlanBatchRequest& request = *response.mutable_request();
  joined.manifest.Swap(request.mutable_manifest());
  request.mutable_manifest()->set_pad_to(joined.manifest.pad_to());
  joined.request_json = Get(ToEditableJson(request));
  return joined;
}

}  // namespace

void SetArrays(const ManifestArrays& arrays, Manifest& manifest) {
  manifest.lengths = arrays.lengths;
  manifest.group_ids = arrays.group_ids;
  manifest.ranks = arrays.ranks;
  manifest.ages = arrays.ages;
  manifest.shared_prefixes = arrays.shared_prefixes;
  manifest.shared_with = arrays.shared_with;
  manifest.kinds = arrays.kinds;
  manifest.loads = arrays.loads;
  manifest.items = arrays.items;
}

ReadRequest ReadPlanRequest(const std::string& request_json) {
  auto request = ReadJson<v1::PlanBatchRequest>(request_json);
  request.clear_job_id();
  request.clear_step();
  request.clear_request_id();
  ReadRequest read = {.json = Get(ToEditableJson(request)), .padded = {}};
  const ParsedRequest parsed = Get(ParseRequestWithoutCosts(request));
  for (const PassOptions& pass : parsed.options.passes) {
    read.padded.push_back(pass.layout == Layout::kPadded);
  }
  return read;
}

std::string EncodePlanBatch(const std::string& request_json, const ManifestArrays& arrays) {
  auto request = ReadJson<v1::PlanBatchRequest>(request_json);
  Add(arrays, request.mutable_manifest());
  return Bytes(request);
}

std::string EncodeJoinBatch(const std::string& request_json, const ManifestArrays& arrays) {
  auto join = ReadJson<v1::JoinBatchRequest>(request_json);
  Add(arrays, join.mutable_request()->mutable_manifest());
  return Bytes(join);
}

std::string EncodeReportStep(const std::string& request_json) {
  return Bytes(ReadJson<v1::ReportStepRequest>(request_json));
}

std::shared_ptr<Planned> DecodePlanBatch(absl::string_view bytes, uint32_t ranks) {
  return ReadPlanned(ReadBytes<v1::PlanBatchResponse>(bytes), ranks);
}

Joined DecodeJoinBatch(absl::string_view bytes, uint32_t ranks) {
  return ReadJoined(ReadBytes<v1::JoinBatchResponse>(bytes), ranks);
}

std::string EncodeSavedPlan(const Joined& joined, const std::string& request_json,
                            const ManifestArrays& arrays) {
  v1::JoinBatchResponse saved;
  *saved.mutable_plan() = joined.plan->ToResponse();
  saved.mutable_worker_offsets()->Add(joined.worker_offsets.begin(), joined.worker_offsets.end());
  for (const auto& [load, sequences] : joined.item_sequences) {
    v1::ItemSequences* items = saved.add_item_sequences();
    items->set_load(load);
    items->mutable_sequences()->Add(sequences.begin(), sequences.end());
  }
  *saved.mutable_request() = ReadJson<v1::PlanBatchRequest>(request_json);
  Add(arrays, saved.mutable_request()->mutable_manifest());
  return Bytes(saved);
}

Joined DecodeSavedPlan(absl::string_view bytes, uint32_t ranks) {
  auto saved = ReadBytes<v1::JoinBatchResponse>(bytes);
  Check(CheckFieldsKnown(saved));
  return ReadJoined(std::move(saved), ranks);
}

std::string DecodeReportStep(absl::string_view bytes) {
  return Get(ToCompleteJson(ReadBytes<v1::ReportStepResponse>(bytes)));
}

std::string FitCosts(const std::string& request_json) {
  const auto request = ReadJson<v1::ReportStepRequest>(request_json);
  StepReport report;
  for (const v1::MicrobatchTiming& timing : request.microbatches()) {
    ReportedMicrobatch& microbatch = report.microbatches.emplace_back();
    microbatch.tokens = timing.tokens();
    microbatch.tokens_squared = timing.tokens_squared();
    microbatch.milliseconds = timing.milliseconds();
    microbatch.sequences = timing.sequences();
    microbatch.context_parallel = std::max(1U, timing.context_parallel());
    if (timing.model_share() != 0) microbatch.model_share = timing.model_share();
    if (timing.has_rank()) microbatch.rank = timing.rank();
    if (timing.has_slot()) microbatch.slot = timing.slot();
    microbatch.loads = {timing.loads().begin(), timing.loads().end()};
  }
  report.loads = {request.loads().begin(), request.loads().end()};
  Check(report.Validate());
  std::erase_if(report.microbatches, [](const auto& microbatch) { return microbatch.empty(); });
  if (report.microbatches.empty()) {
    throw StatusError(absl::InvalidArgumentError(
        "microbatches has none with sequences; costs are fitted to one or more"));
  }
  const FittedCosts costs = CostsOf(report);
  v1::ReportStepResponse response;
  response.mutable_fitted()->set_per_token(costs.per_token);
  response.mutable_fitted()->set_per_token_squared(costs.per_token_squared);
  response.mutable_fitted()->set_per_microbatch(costs.per_microbatch);
  response.mutable_fitted()->set_per_sequence(costs.per_sequence);
  for (size_t i = 0; i < costs.per_unit.size(); ++i) {
    v1::LoadCost* load = response.mutable_fitted()->add_loads();
    load->set_load(report.loads[i]);
    load->set_per_unit(costs.per_unit[i]);
  }
  for (const SizeExchange& size : costs.exchange) {
    v1::Exchange* entry = response.mutable_fitted()->add_exchange();
    const bool last = &size == &costs.exchange.back();
    entry->set_up_to_size(last ? 0 : static_cast<uint32_t>(size.ranks));
    entry->set_per_token(size.per_token);
  }
  for (const double size : costs.context_sizes) {
    response.add_context_sizes(static_cast<uint32_t>(size));
  }
  response.set_fit_error(costs.fit_error);
  response.set_outlier_share(costs.outlier_share);
  response.set_samples(report.microbatches.size());
  return Get(ToCompleteJson(response));
}

}  // namespace batchplan::python
