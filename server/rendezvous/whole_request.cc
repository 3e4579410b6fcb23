#include "server/rendezvous/whole_request.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rendezvous/step_record.pb.h"
#include "server/rendezvous/terms.h"

namespace batchplan {

absl::StatusOr<v1::PlanBatchRequest> AgreedRequest(const StepKey& key, const std::string& terms) {
  v1::JoinBatchRequest agreed;
  if (!agreed.ParseFromString(terms)) return absl::AbortedError("terms of another version");
  v1::PlanBatchRequest request;
  request.Swap(agreed.mutable_request());
  request.set_job_id(key.job_id);
  request.set_step(key.step);
  return request;
}

absl::StatusOr<WholeRequest> AssembleRequest(const StepKey& key, const std::string& terms,
                                             const std::vector<std::string>& contents,
                                             uint64_t max_sequences) {
  absl::StatusOr<v1::PlanBatchRequest> agreed = AgreedRequest(key, terms);
  if (!agreed.ok()) return agreed.status();
  const uint64_t digest = TermsDigest(terms);

  WholeRequest whole;
  whole.request = std::make_shared<v1::PlanBatchRequest>(*std::move(agreed));
  v1::Manifest& manifest = *whole.request->mutable_manifest();
  whole.worker_offsets.reserve(contents.size() + 1);
  whole.worker_offsets.push_back(0);
  // The first worker whose sequences have groups, and the first whose sequences have none.
  std::optional<size_t> grouped;
  std::optional<size_t> ungrouped;
  for (size_t worker = 0; worker < contents.size(); ++worker) {
    rendezvous::PartContent part;
    if (!part.ParseFromString(contents[worker]) || part.terms_digest() != digest) {
      return absl::AbortedError(absl::StrCat("worker ", worker, "'s part came with other terms"));
    }
    if (part.lengths_size() > 0) {
      std::optional<size_t>& first = part.group_ids_size() > 0 ? grouped : ungrouped;
      if (!first) first = worker;
    }
    const size_t sequences = static_cast<size_t>(manifest.lengths_size()) + part.lengths_size();
    if (sequences > max_sequences) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the parts up to worker ", worker, "'s have ", sequences,
                       " sequences, more than the server's max_sequences=", max_sequences));
    }
    manifest.mutable_lengths()->MergeFrom(part.lengths());
    manifest.mutable_group_ids()->MergeFrom(part.group_ids());
    whole.worker_offsets.push_back(static_cast<uint32_t>(sequences));
  }
  if (grouped && ungrouped) {
    return absl::InvalidArgumentError(absl::StrCat(
        "request.manifest.group_ids has one a sequence in worker ", *grouped,
        "'s part and none in worker ", *ungrouped, "'s; all workers give them, or none does"));
  }
  return whole;
}

}  // namespace batchplan
