// A job's fit as bytes, for a store that replicas share.
//
//   std::string state = SerializeFit(fit);
//   absl::StatusOr<JobFit> same = ParseFit(state);
//
// The layout, little-endian: "BPFT", the version, then each member in its order, a list as its
// count and its entries; at the end a hash of all before it. Versions differ where the layout or
// the meaning does.

#ifndef BATCHPLAN_SERVER_FITTING_FIT_STATE_H_
#define BATCHPLAN_SERVER_FITTING_FIT_STATE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/fitting/job_fit.h"

namespace batchplan {

inline constexpr uint32_t kFitStateVersion = 1;
// What a state takes at most.
inline constexpr size_t kMaxFitStateBytes = 10240;

std::string SerializeFit(const JobFit& fit);

// The fit that `state` was made of; an empty one for no bytes. Unimplemented for the state of
// another version; DataLoss for bytes that are no state, or that no fit has.
absl::StatusOr<JobFit> ParseFit(absl::string_view state);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FITTING_FIT_STATE_H_
