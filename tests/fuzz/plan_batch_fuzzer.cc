// Entry of libFuzzer: takes any bytes as a PlanBatchRequest through everything that the server does
// with one. The answer must be a plan that keeps every promise and survives the wire, or a refusal
// with InvalidArgument or Unimplemented. Anything else ends the process.
//
//   tests/run.sh --fuzz 60

#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "proto/batchplan/v1/convert.h"
#include "server/checker/check_plan.h"
#include "server/planner/make_plan.h"

namespace batchplan {
namespace {

// So that a run has many small requests instead of one that needs a second.
constexpr int kMostSequences = 2000;
constexpr uint32_t kMostRanks = 256;
constexpr int kMostPasses = 8;

void Require(const absl::Status& status, const char* what) {
  if (status.ok()) return;
  std::cerr << what << ": " << status << std::endl;
  std::abort();
}

void RequireRefusal(const absl::Status& status, const char* what) {
  if (status.code() == absl::StatusCode::kInvalidArgument ||
      status.code() == absl::StatusCode::kUnimplemented ||
      status.code() == absl::StatusCode::kFailedPrecondition) {
    return;
  }
  std::cerr << what << ": " << status << std::endl;
  std::abort();
}

void PlanAndCheck(const v1::PlanBatchRequest& request) {
  const absl::StatusOr<ParsedRequest> parsed = ParseRequest(request);
  if (!parsed.ok()) return RequireRefusal(parsed.status(), "ParseRequest");
  if (parsed->options.topology.data_parallel > kMostRanks) return;
  const absl::StatusOr<Plan> plan = MakePlan(parsed->manifest, parsed->options);
  if (!plan.ok()) return RequireRefusal(plan.status(), "MakePlan");
  Require(CheckPlan(parsed->manifest, parsed->options, *plan), "the plan");

  v1::PlanBatchResponse sent;
  FillResponse(*plan, absl::ZeroDuration(), &sent);
  v1::PlanBatchResponse received;
  if (!received.ParseFromString(sent.SerializeAsString())) std::abort();
  const absl::StatusOr<Plan> read = ParseResponse(received);
  Require(read.status(), "ParseResponse");
  Require(CheckPlan(parsed->manifest, parsed->options, *read), "the plan after the wire");
  if (read->fingerprint != plan->fingerprint) std::abort();
}

}  // namespace
}  // namespace batchplan

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // protobuf would report every string that is not UTF-8.
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  batchplan::v1::PlanBatchRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  if (request.manifest().lengths_size() > batchplan::kMostSequences ||
      request.passes_size() > batchplan::kMostPasses) {
    return 0;
  }
  batchplan::PlanAndCheck(request);
  return 0;
}
