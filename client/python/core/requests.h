// Requests: what Python has to say as JSON, with the manifest's arrays beside it.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_REQUESTS_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_REQUESTS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "client/python/core/planned.h"

namespace batchplan::python {

// The caller's arrays, which are read in place.
struct ManifestArrays {
  std::span<const uint32_t> lengths;
  // Empty, or one a sequence.
  std::span<const uint32_t> group_ids;
};

// Plans as a server does, without one. `request_json` is a PlanBatchRequest without the arrays of
// its manifest. Throws StatusError, as all here do; Cancelled once `stop` is requested.
std::shared_ptr<Planned> MakePlanned(const std::string& request_json, const ManifestArrays& arrays,
                                     const std::stop_token& stop);

// Of each pass, whether it is laid out as padded rows in place of packed ones.
std::vector<bool> PaddedPasses(const std::string& request_json);

// The request in bytes, for a server.
std::string EncodePlanBatch(const std::string& request_json, const ManifestArrays& arrays);
// The same of a JoinBatchRequest, whose `request` lacks the arrays.
std::string EncodeJoinBatch(const std::string& request_json, const ManifestArrays& arrays);
std::string EncodeReportStep(const std::string& request_json);

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_REQUESTS_H_
