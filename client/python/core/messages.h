// Messages to and from a server. Requests are what Python has to say as JSON, with the manifest's
// arrays beside it; answers are bytes. All functions throw StatusError.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_MESSAGES_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_MESSAGES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/python/core/planned.h"
#include "server/planner/request/manifest.h"

namespace batchplan::python {

// The caller's arrays, which are read in place.
struct ManifestArrays {
  std::span<const uint32_t> lengths;
  // Empty, or one a sequence.
  std::span<const uint32_t> group_ids;
  std::span<const uint32_t> ranks;
  std::span<const uint32_t> ages;
  std::span<const uint32_t> shared_prefixes;
  std::span<const uint32_t> shared_with;
  std::span<const uint32_t> kinds;
  std::vector<Load> loads;
  std::vector<LoadItems> items;
};

// Gives a manifest the arrays.
void SetArrays(const ManifestArrays& arrays, Manifest& manifest);

// What a PlanBatchRequest asks for.
struct ReadRequest {
  // Without what does not influence the plan and without what is unset, as protobuf's JSON: equal
  // where requests are.
  std::string json;
  // Of each pass, whether it is laid out as padded rows in place of packed ones.
  std::vector<bool> padded;
};
ReadRequest ReadPlanRequest(const std::string& request_json);

// A PlanBatchRequest, which lacks the arrays of its manifest, in bytes.
std::string EncodePlanBatch(const std::string& request_json, const ManifestArrays& arrays);
// The same of a JoinBatchRequest, whose `request` lacks the arrays.
std::string EncodeJoinBatch(const std::string& request_json, const ManifestArrays& arrays);
std::string EncodeReportStep(const std::string& request_json);

struct Joined {
  std::shared_ptr<Planned> plan;
  // Where each worker's part begins in the manifest; one more than there are workers.
  std::vector<uint32_t> worker_offsets;
  // By dealt load, the sequence of each item of all workers.
  std::vector<std::pair<std::string, std::vector<uint32_t>>> item_sequences;
  // The request that was planned, as protobuf's JSON without the arrays of its manifest; and these.
  // Empty where the answer has no request.
  std::string request_json;
  v1::Manifest manifest;
};

// Answers from their bytes, for a plan of `ranks` ranks.
std::shared_ptr<Planned> DecodePlanBatch(absl::string_view bytes, uint32_t ranks);
Joined DecodeJoinBatch(absl::string_view bytes, uint32_t ranks);

// What a plan is saved as: the JoinBatchResponse of a worker that asked for the request, in bytes.
// `request_json` lacks the arrays of its manifest. Of `joined` the plan, the offsets and the items
// count.
std::string EncodeSavedPlan(const Joined& joined, const std::string& request_json,
                            const ManifestArrays& arrays);
// DecodeJoinBatch of a saved plan, which fields of later versions make another one.
Joined DecodeSavedPlan(absl::string_view bytes, uint32_t ranks);
// A ReportStepResponse as protobuf's JSON.
std::string DecodeReportStep(absl::string_view bytes);

// The costs of the micro-batches of a ReportStepRequest alone, at least one, fitted here: a
// ReportStepResponse as protobuf's JSON.
std::string FitCosts(const std::string& request_json);

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_MESSAGES_H_
