#include "client/python/core/responses.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/python/core/status_error.h"
#include "proto/batchplan/v1/json.h"

namespace batchplan::python {
namespace {

template <typename Message>
Message Read(absl::string_view bytes) {
  Message message;
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw StatusError(
        absl::InternalError(absl::StrCat("the answer is no ", message.GetTypeName())));
  }
  return message;
}

}  // namespace

std::shared_ptr<Planned> DecodePlanBatch(absl::string_view bytes, uint32_t ranks) {
  return ReadPlanned(Read<v1::PlanBatchResponse>(bytes), ranks);
}

Joined DecodeJoinBatch(absl::string_view bytes, uint32_t ranks) {
  auto response = Read<v1::JoinBatchResponse>(bytes);
  return {.plan = ReadPlanned(std::move(*response.mutable_plan()), ranks),
          .worker_offsets = {response.worker_offsets().begin(), response.worker_offsets().end()}};
}

std::string DecodeReportStep(absl::string_view bytes) {
  return Get(ToCompleteJson(Read<v1::ReportStepResponse>(bytes)));
}

}  // namespace batchplan::python
