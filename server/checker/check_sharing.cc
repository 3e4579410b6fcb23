#include "server/checker/check_sharing.h"

#include <cstddef>
#include <cstdint>

#include "server/checker/shared_paths.h"
#include "server/checker/violation.h"

namespace batchplan::checker {
namespace {

using Path = std::vector<SharedPaths::Interval>;

// Checks how many tokens a sequence with path `path` has in common with the one before it.
absl::Status CheckShared(const PassUnderCheck& pass, size_t place, const Path& before,
                         const Path& path) {
  const PassPlan& plan = pass.plan;
  const uint32_t shared = plan.shared_tokens[place];
  const uint32_t sequence = plan.sequence_index[place];
  const uint32_t last = plan.sequence_index[place - 1];
  const uint32_t common = InCommon(before, path);
  if (shared != common) {
    return Violation(Field(pass, "shared_tokens", place), " is ", shared, ", but sequence ",
                     sequence, " has ", common, " first tokens in common with sequence ", last,
                     " before it");
  }
  if (common == plan.sequence_lengths[place] && common < plan.sequence_lengths[place - 1]) {
    return Violation(Field(pass, "sequence_index", place), " is ", sequence,
                     ", which is a prefix of sequence ", last, " and has to stand before it");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSharing(const PassUnderCheck& pass, const std::vector<Microbatch>& microbatches) {
  if (pass.paths == nullptr) return absl::OkStatus();
  const PassPlan& plan = pass.plan;
  PathUnion tokens(*pass.paths);
  Path before;
  Path path;
  for (size_t m = 0; m < microbatches.size(); ++m) {
    tokens.Clear();
    uint64_t laid = 0;
    for (size_t place = microbatches[m].begin; place < microbatches[m].end; ++place) {
      const uint32_t length = plan.sequence_lengths[place];
      pass.paths->Read(plan.sequence_index[place], length, path);
      if (place > microbatches[m].begin) {
        absl::Status status = CheckShared(pass, place, before, path);
        if (!status.ok()) return status;
      } else if (plan.shared_tokens[place] != 0) {
        return Violation(Field(pass, "shared_tokens", place), " is ", plan.shared_tokens[place],
                         ", but sequence ", plan.sequence_index[place],
                         " is the first of its micro-batch");
      }
      laid += length - plan.shared_tokens[place];
      tokens.Add(path);
      before.swap(path);
    }
    if (laid != tokens.tokens()) {
      return Violation("passes[", pass.number, "] micro-batch ", m, " lays ", laid,
                       " tokens, but its sequences have ", tokens.tokens(),
                       " different ones: those that share a prefix do not stand together");
    }
  }
  return absl::OkStatus();
}

}  // namespace batchplan::checker
