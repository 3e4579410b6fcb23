#include "client/python/core/requests.h"

#include <google/protobuf/message.h>

#include <chrono>
#include <utility>

#include "batchplan/v1/batch_planner.pb.h"
#include "client/python/core/status_error.h"
#include "proto/batchplan/v1/convert.h"
#include "proto/batchplan/v1/json.h"
#include "server/planner/make_plan.h"

namespace batchplan::python {
namespace {

template <typename Message>
Message Read(const std::string& json) {
  Message message;
  Check(FromJson(json, &message));
  return message;
}

void Add(const ManifestArrays& arrays, v1::Manifest* manifest) {
  manifest->mutable_lengths()->Add(arrays.lengths.begin(), arrays.lengths.end());
  manifest->mutable_group_ids()->Add(arrays.group_ids.begin(), arrays.group_ids.end());
}

std::string Bytes(const google::protobuf::Message& message) {
  std::string bytes;
  if (!message.SerializeToString(&bytes)) {
    throw StatusError(absl::ResourceExhaustedError("the request is larger than 2 GiB"));
  }
  return bytes;
}

}  // namespace

std::shared_ptr<Planned> MakePlanned(const std::string& request_json, const ManifestArrays& arrays,
                                     const std::stop_token& stop) {
  const auto request = Read<v1::PlanBatchRequest>(request_json);
  ParsedRequest parsed = Get(ParseRequest(request));
  parsed.manifest.lengths = arrays.lengths;
  parsed.manifest.group_ids = arrays.group_ids;
  const auto start = std::chrono::steady_clock::now();
  Plan plan = Get(MakePlan(parsed.manifest, parsed.options, stop));
  const auto time = absl::FromChrono(std::chrono::steady_clock::now() - start);

  Plan without_arrays = {.excluded = plan.excluded,
                         .fingerprint = plan.fingerprint,
                         .cost_model_used = plan.cost_model_used};
  for (const PassPlan& pass : plan.passes) {
    without_arrays.passes.push_back(
        {.name = pass.name, .length_multiple = pass.length_multiple, .metrics = pass.metrics});
  }
  v1::PlanBatchResponse head;
  FillResponse(without_arrays, time, &head);
  return std::make_shared<Planned>(std::move(plan), parsed.options.topology.data_parallel, head);
}

std::vector<bool> PaddedPasses(const std::string& request_json) {
  const ParsedRequest parsed =
      Get(ParseRequestWithoutCosts(Read<v1::PlanBatchRequest>(request_json)));
  std::vector<bool> padded;
  for (const PassOptions& pass : parsed.options.passes) {
    padded.push_back(pass.layout == Layout::kPadded);
  }
  return padded;
}

std::string EncodePlanBatch(const std::string& request_json, const ManifestArrays& arrays) {
  auto request = Read<v1::PlanBatchRequest>(request_json);
  Add(arrays, request.mutable_manifest());
  return Bytes(request);
}

std::string EncodeJoinBatch(const std::string& request_json, const ManifestArrays& arrays) {
  auto join = Read<v1::JoinBatchRequest>(request_json);
  Add(arrays, join.mutable_request()->mutable_manifest());
  return Bytes(join);
}

std::string EncodeReportStep(const std::string& request_json) {
  return Bytes(Read<v1::ReportStepRequest>(request_json));
}

}  // namespace batchplan::python
