#include "server/rendezvous/part.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/batchplan/v1/convert.h"
#include "server/base/ids.h"
#include "server/planner/request/loads.h"
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
  const v1::Topology& topology = request.request().topology();
  const uint32_t ranks = std::max(topology.data_parallel(), 1U);
  if (topology.has_dynamic_context()) {
    const uint64_t pool = uint64_t{ranks} * std::max(topology.context_parallel(), 1U);
    if (request.data_parallel_rank() >= pool) {
      return absl::InvalidArgumentError(
          absl::StrCat("data_parallel_rank is ", request.data_parallel_rank(),
                       "; with request.topology.dynamic_context it must be below data_parallel ",
                       ranks, " * context_parallel, ", pool));
    }
  } else if (request.data_parallel_rank() >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_parallel_rank is ", request.data_parallel_rank(),
                     "; it must be below request.topology.data_parallel ", ranks));
  }
  if (request.own_part_only() && !request.own_slice_only()) {
    return absl::InvalidArgumentError(
        "own_part_only is set without own_slice_only, whose answer it narrows");
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

// That an array of the manifest has one entry a sequence, or none.
absl::Status CheckSize(const char* field, int entries, const v1::Manifest& manifest) {
  if (entries == 0 || entries == manifest.lengths_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("request.manifest.", field, " has ", entries, " entries, but lengths has ",
                   manifest.lengths_size(), "; give one a sequence, or none"));
}

// That sequences i and j both have the tokens that i shares with j.
absl::Status CheckPrefix(const v1::Manifest& manifest, int i, int j) {
  const uint32_t prefix = manifest.shared_prefixes(i);
  if (prefix <= manifest.lengths(i) && prefix <= manifest.lengths(j)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("request.manifest.shared_prefixes[", i, "] is ", prefix,
                   ", but of the two sequences that share it number ", i, " has ",
                   manifest.lengths(i), " tokens and number ", j, " has ", manifest.lengths(j)));
}

// That each sequence of the part shares with an earlier one of the part, and no more than both
// have.
absl::Status CheckSharedWith(const v1::Manifest& manifest) {
  for (int i = 0; i < manifest.shared_with_size(); ++i) {
    if (manifest.shared_prefixes(i) == 0) continue;
    const uint32_t with = manifest.shared_with(i);
    if (with >= static_cast<uint32_t>(i)) {
      return absl::InvalidArgumentError(absl::StrCat("request.manifest.shared_with[", i, "] is ",
                                                     with, "; it must be below ", i,
                                                     ", an earlier sequence of the part"));
    }
    absl::Status status = CheckPrefix(manifest, i, static_cast<int>(with));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Groups may begin in another worker's part: what a sequence has in common with the first of its
// group is at most its own length, unless it may be that first one itself.
absl::Status CheckSharedInGroups(const v1::Manifest& manifest) {
  std::unordered_set<uint32_t> begun;
  for (int i = 0; i < manifest.shared_prefixes_size(); ++i) {
    if (begun.insert(manifest.group_ids(i)).second) continue;
    absl::Status status = CheckPrefix(manifest, i, i);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckSharing(const v1::Manifest& manifest) {
  absl::Status status = CheckSize("shared_prefixes", manifest.shared_prefixes_size(), manifest);
  status.Update(CheckSize("shared_with", manifest.shared_with_size(), manifest));
  if (!status.ok()) return status;
  if (manifest.shared_prefixes().empty()) {
    if (manifest.shared_with().empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "request.manifest.shared_with is set, but shared_prefixes is empty; give both, or none");
  }
  if (!manifest.shared_with().empty()) return CheckSharedWith(manifest);
  if (!manifest.group_ids().empty()) return CheckSharedInGroups(manifest);
  return absl::InvalidArgumentError(
      "request.manifest.shared_prefixes is set, but neither shared_with nor group_ids say with "
      "whom; "
      "give one of them");
}

// Found here, an error is one worker's; found in the whole manifest, it would be the step's.
absl::Status CheckManifest(const v1::PlanBatchRequest& request) {
  const v1::Manifest& manifest = request.manifest();
  absl::Status status = CheckSize("group_ids", manifest.group_ids_size(), manifest);
  status.Update(CheckSize("ranks", manifest.ranks_size(), manifest));
  status.Update(CheckSize("ages", manifest.ages_size(), manifest));
  status.Update(CheckSharing(manifest));
  if (!status.ok()) return status;
  // The terms, which name loads too, are the same for all workers.
  status = CheckLoads(ReadManifest(manifest), {});
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("request.", status.message()));
  }
  const uint32_t ranks = std::max(request.topology().data_parallel(), 1U);
  const auto beyond = std::find_if(manifest.ranks().begin(), manifest.ranks().end(),
                                   [&](uint32_t rank) { return rank >= ranks; });
  if (beyond != manifest.ranks().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("request.manifest.ranks[", beyond - manifest.ranks().begin(), "] is ", *beyond,
                     "; it must be below request.topology.data_parallel ", ranks));
  }
  const auto zero = std::find(manifest.lengths().begin(), manifest.lengths().end(), 0U);
  if (zero != manifest.lengths().end()) {
    return absl::InvalidArgumentError(absl::StrCat("request.manifest.lengths[",
                                                   zero - manifest.lengths().begin(),
                                                   "] is 0; it must be at least 1"));
  }
  return absl::OkStatus();
}

// The names of the entries of an array, which all workers with sequences give in the same order.
class CommonNames {
 public:
  // `entries` is the manifest's field, `field` the one of an entry that has its name.
  CommonNames(const char* entries, const char* field) : entries_(entries), field_(field) {}

  void Add(size_t worker, std::vector<std::string> names) {
    if (!status_.ok()) return;
    if (!first_) {
      first_ = worker;
      names_ = std::move(names);
    } else if (names != names_) {
      status_ = Difference(worker, names);
    }
  }

  // InvalidArgument, naming the first entry that differs, both names and both workers.
  const absl::Status& Check() const { return status_; }

 private:
  absl::Status Difference(size_t worker, const std::vector<std::string>& names) const {
    size_t i = 0;
    while (i < names.size() && i < names_.size() && names[i] == names_[i]) ++i;
    const auto shown = [&](const std::vector<std::string>& of) {
      return i < of.size() ? absl::StrCat("\"", absl::Utf8SafeCEscape(of[i]), "\"")
                           : std::string("none");
    };
    return absl::InvalidArgumentError(
        absl::StrCat("request.manifest.", entries_, "[", i, "].", field_, " is ", shown(names_),
                     " in worker ", *first_, "'s part and ", shown(names), " in worker ", worker,
                     "'s; all workers with sequences give the same names in the same order"));
  }

  const char* entries_;
  const char* field_;
  std::optional<size_t> first_;
  std::vector<std::string> names_;
  absl::Status status_;
};

// What all workers with sequences give, or none does.
class CommonField {
 public:
  // `name` is that of the manifest's field.
  explicit CommonField(const char* name) : name_(name) {}

  void Add(size_t worker, bool is_given) {
    std::optional<size_t>& first = is_given ? giver_ : other_;
    if (!first) first = worker;
  }

  // InvalidArgument, naming the first worker that gives it and the first that doesn't.
  absl::Status Check() const {
    if (!giver_ || !other_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "request.manifest.", name_, " has one a sequence in worker ", *giver_,
        "'s part and none in worker ", *other_, "'s; all workers give them, or none does"));
  }

 private:
  const char* name_;
  std::optional<size_t> giver_;
  std::optional<size_t> other_;
};

std::vector<std::string> NamesOf(const google::protobuf::RepeatedPtrField<v1::Load>& loads) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(loads.size()));
  for (const v1::Load& load : loads) names.push_back(load.name());
  return names;
}

std::vector<std::string> NamesOf(const google::protobuf::RepeatedPtrField<v1::LoadItems>& items) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(items.size()));
  for (const v1::LoadItems& of_load : items) names.push_back(of_load.load());
  return names;
}

// Appends the loads of a part that begins at the position `first` of the whole, in which they have
// the same places. Where they have not, the whole is of no use.
void AddLoads(const rendezvous::PartContent& part, uint32_t first, v1::Manifest* manifest) {
  for (int i = 0; i < part.loads_size(); ++i) {
    v1::Load* whole =
        i < manifest->loads_size() ? manifest->mutable_loads(i) : manifest->add_loads();
    whole->set_name(part.loads(i).name());
    whole->mutable_values()->MergeFrom(part.loads(i).values());
  }
  for (int i = 0; i < part.items_size(); ++i) {
    v1::LoadItems* whole =
        i < manifest->items_size() ? manifest->mutable_items(i) : manifest->add_items();
    whole->set_load(part.items(i).load());
    whole->mutable_values()->MergeFrom(part.items(i).values());
    for (const uint32_t sequence : part.items(i).sequences()) {
      whole->add_sequences(first + sequence);
    }
  }
}

}  // namespace

absl::Status ValidateJoin(const v1::JoinBatchRequest& request) {
  absl::Status status = CheckJobId(request.request().job_id());
  status.Update(CheckId("run_id", request.run_id()));
  status.Update(CheckWorker(request));
  status.Update(CheckManifest(request.request()));
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
  content.mutable_ranks()->Swap(manifest.mutable_ranks());
  content.mutable_ages()->Swap(manifest.mutable_ages());
  content.mutable_shared_prefixes()->Swap(manifest.mutable_shared_prefixes());
  content.mutable_shared_with()->Swap(manifest.mutable_shared_with());
  content.mutable_kinds()->Swap(manifest.mutable_kinds());
  content.mutable_loads()->Swap(manifest.mutable_loads());
  content.mutable_items()->Swap(manifest.mutable_items());
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
  CommonField groups("group_ids");
  CommonField ranks("ranks");
  CommonField ages("ages");
  CommonField shared_prefixes("shared_prefixes");
  CommonField shared_with("shared_with");
  CommonField kinds("kinds");
  CommonNames loads("loads", "name");
  CommonNames items("items", "load");
  for (size_t worker = 0; worker < contents.size(); ++worker) {
    rendezvous::PartContent part;
    if (!part.ParseFromString(contents[worker]) || part.terms_digest() != digest) {
      return absl::AbortedError(absl::StrCat("worker ", worker, "'s part came with other terms"));
    }
    if (part.lengths_size() > 0) {
      groups.Add(worker, part.group_ids_size() > 0);
      ranks.Add(worker, part.ranks_size() > 0);
      ages.Add(worker, part.ages_size() > 0);
      shared_prefixes.Add(worker, part.shared_prefixes_size() > 0);
      shared_with.Add(worker, part.shared_with_size() > 0);
      kinds.Add(worker, part.kinds_size() > 0);
      loads.Add(worker, NamesOf(part.loads()));
      items.Add(worker, NamesOf(part.items()));
      AddLoads(part, whole.worker_offsets.back(), &manifest);
    }
    const size_t sequences = static_cast<size_t>(manifest.lengths_size()) + part.lengths_size();
    if (sequences > max_sequences) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the parts up to worker ", worker, "'s have ", sequences,
                       " sequences, more than the server's max_sequences=", max_sequences));
    }
    uint64_t items_so_far = 0;
    for (const v1::LoadItems& of_load : manifest.items()) {
      items_so_far += static_cast<uint64_t>(of_load.values_size());
    }
    if (items_so_far > max_sequences) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the parts up to worker ", worker, "'s have ", items_so_far,
                       " items, more than the server's max_sequences=", max_sequences));
    }
    manifest.mutable_lengths()->MergeFrom(part.lengths());
    manifest.mutable_group_ids()->MergeFrom(part.group_ids());
    manifest.mutable_ranks()->MergeFrom(part.ranks());
    manifest.mutable_ages()->MergeFrom(part.ages());
    manifest.mutable_kinds()->MergeFrom(part.kinds());
    manifest.mutable_shared_prefixes()->MergeFrom(part.shared_prefixes());
    // Positions of the part become positions of the whole; those that nothing is shared with stay
    // 0.
    for (int i = 0; i < part.shared_with_size(); ++i) {
      const bool shares = i < part.shared_prefixes_size() && part.shared_prefixes(i) > 0;
      manifest.add_shared_with(shares ? whole.worker_offsets.back() + part.shared_with(i) : 0);
    }
    whole.worker_offsets.push_back(static_cast<uint32_t>(sequences));
  }
  absl::Status common = groups.Check();
  common.Update(ranks.Check());
  common.Update(ages.Check());
  common.Update(shared_prefixes.Check());
  common.Update(shared_with.Check());
  common.Update(kinds.Check());
  common.Update(loads.Check());
  common.Update(items.Check());
  if (!common.ok()) return common;
  return whole;
}

}  // namespace batchplan
