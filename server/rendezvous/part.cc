#include "server/rendezvous/part.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/ids.h"
#include "server/rendezvous/step_record.pb.h"
#include "server/rendezvous/terms.h"

namespace batchplan {
namespace {

absl::Status CheckWorker(const v1::JoinBatchRequest& request) {
  const uint32_t world_size = request.world_size();
  if (world_size == 0 || world_size > kMaxWorldSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("world_size is ", world_size, "; it must be between 1 and ", kMaxWorldSize));
  }
  if (request.worker() >= world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker is ", request.worker(), "; it must be below world_size ", world_size));
  }
  const uint32_t ranks = std::max(request.request().topology().data_parallel(), 1U);
  if (request.data_parallel_rank() >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_parallel_rank is ", request.data_parallel_rank(),
                     "; it must be below request.topology.data_parallel ", ranks));
  }
  const auto& timeout = request.timeout();
  if (timeout.seconds() < 0 || timeout.nanos() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("timeout is ", timeout.seconds(), " s and ",
                                                   timeout.nanos(),
                                                   " ns; it must not be negative"));
  }
  return absl::OkStatus();
}

absl::Status CheckJobId(const std::string& job_id) {
  if (job_id.empty()) {
    return absl::InvalidArgumentError(
        "request.job_id is empty; the workers of a step find each other by job_id and step");
  }
  if (job_id.size() > kMaxIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("request.job_id has ", job_id.size(), " bytes; the limit is ", kMaxIdBytes));
  }
  return absl::OkStatus();
}

// Found here, an error is one worker's; found in the whole manifest, it would be the step's.
absl::Status CheckManifest(const v1::Manifest& manifest) {
  if (manifest.group_ids_size() != 0 && manifest.group_ids_size() != manifest.lengths_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "request.manifest.group_ids has ", manifest.group_ids_size(), " entries, but lengths has ",
        manifest.lengths_size(), "; give one a sequence, or none"));
  }
  const auto zero = std::find(manifest.lengths().begin(), manifest.lengths().end(), 0U);
  if (zero != manifest.lengths().end()) {
    return absl::InvalidArgumentError(absl::StrCat("request.manifest.lengths[",
                                                   zero - manifest.lengths().begin(),
                                                   "] is 0; it must be at least 1"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateJoin(const v1::JoinBatchRequest& request) {
  absl::Status status = CheckJobId(request.request().job_id());
  status.Update(CheckId("run_id", request.run_id()));
  status.Update(CheckWorker(request));
  status.Update(CheckManifest(request.request().manifest()));
  return status;
}

StepKey StepKeyOf(const v1::JoinBatchRequest& request) {
  return {.job_id = request.request().job_id(),
          .step = request.request().step(),
          .run_id = request.run_id()};
}

StepPart MakePart(v1::JoinBatchRequest request) {
  StepPart part;
  part.worker = request.worker();
  part.world_size = request.world_size();
  v1::Manifest& manifest = *request.mutable_request()->mutable_manifest();
  rendezvous::PartContent content;
  content.mutable_lengths()->Swap(manifest.mutable_lengths());
  content.mutable_group_ids()->Swap(manifest.mutable_group_ids());
  part.terms = SerializeTerms(std::move(request));
  content.set_terms_digest(TermsDigest(part.terms));
  part.content = content.SerializeAsString();
  return part;
}

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
