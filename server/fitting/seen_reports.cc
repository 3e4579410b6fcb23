#include "server/fitting/seen_reports.h"

#include <algorithm>
#include <bit>

#include "server/base/fnv_hash.h"

namespace batchplan {

bool IsNew(const StepReport& report, SeenReports& seen) {
  FnvHash hash;
  hash.Add(report.step);
  for (const ReportedMicrobatch& microbatch : report.microbatches) {
    hash.Add(microbatch.tokens);
    hash.Add(microbatch.tokens_squared);
    hash.Add(std::bit_cast<uint64_t>(microbatch.milliseconds));
    hash.Add(microbatch.peak_bytes);
  }
  if (std::ranges::find(seen.hashes, hash.value()) != seen.hashes.end()) return false;
  if (seen.hashes.size() == kSeenReports) seen.hashes.erase(seen.hashes.begin());
  seen.hashes.push_back(hash.value());
  return true;
}

}  // namespace batchplan
