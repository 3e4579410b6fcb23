// Answers of a server, from their bytes. All throw StatusError.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_RESPONSES_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_RESPONSES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/python/core/planned.h"

namespace batchplan::python {

struct Joined {
  std::shared_ptr<Planned> plan;
  // Where each worker's part begins in the manifest; one more than there are workers.
  std::vector<uint32_t> worker_offsets;
};

// For a plan of `ranks` ranks.
std::shared_ptr<Planned> DecodePlanBatch(absl::string_view bytes, uint32_t ranks);
Joined DecodeJoinBatch(absl::string_view bytes, uint32_t ranks);
// A ReportStepResponse as protobuf's JSON.
std::string DecodeReportStep(absl::string_view bytes);

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_RESPONSES_H_
