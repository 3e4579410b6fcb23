#include "server/checker/shared_paths.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>

#include "server/checker/violation.h"

namespace batchplan::checker {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

absl::Status CheckOptions(const PlanOptions& options) {
  if (options.topology.dynamic_context) {
    return Violation("manifest.shared_prefixes is set, but groups of ranks are to differ");
  }
  for (size_t i = 0; i < options.passes.size(); ++i) {
    const PassOptions& pass = options.passes[i];
    if (pass.layout == Layout::kPacked || pass.ignore_shared_prefixes) continue;
    return Violation("manifest.shared_prefixes is set, but passes[", i, "] is padded");
  }
  return absl::OkStatus();
}

// The sequence with which each one shares its prefix; kNobody if it shares none.
absl::StatusOr<std::vector<uint32_t>> WithWhom(const Manifest& manifest) {
  const size_t count = manifest.lengths.size();
  const std::span<const uint32_t> prefixes = manifest.shared_prefixes;
  const bool told = !manifest.shared_with.empty();
  if (prefixes.size() != count || (told && manifest.shared_with.size() != count) ||
      (!told && manifest.group_ids.size() != count)) {
    return Violation("manifest.shared_prefixes has ", prefixes.size(), " entries, shared_with ",
                     manifest.shared_with.size(), " and group_ids ", manifest.group_ids.size(),
                     ", but there are ", count, " sequences");
  }
  std::vector<uint32_t> with(count, kNobody);
  std::map<uint32_t, uint32_t> first_of_group;
  for (uint32_t i = 0; i < count; ++i) {
    if (told) {
      if (prefixes[i] > 0) with[i] = manifest.shared_with[i];
    } else {
      const auto [first, is_first] = first_of_group.emplace(manifest.group_ids[i], i);
      if (!is_first && prefixes[i] > 0) with[i] = first->second;
    }
    if (with[i] == kNobody && (!told || prefixes[i] == 0)) continue;
    if (with[i] >= i) {
      return Violation("manifest.shared_with[", i, "] is ", with[i], ", no earlier sequence");
    }
    if (prefixes[i] > std::min(manifest.lengths[i], manifest.lengths[with[i]])) {
      return Violation("manifest.shared_prefixes[", i, "] is ", prefixes[i], ", but sequences ", i,
                       " and ", with[i], " have ", manifest.lengths[i], " and ",
                       manifest.lengths[with[i]], " tokens");
    }
  }
  return with;
}

}  // namespace

absl::StatusOr<SharedPaths> SharedPaths::Create(const Manifest& manifest,
                                                const PlanOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  const absl::StatusOr<std::vector<uint32_t>> with = WithWhom(manifest);
  if (!with.ok()) return with.status();
  SharedPaths paths;
  paths.lengths_.assign(manifest.lengths.begin(), manifest.lengths.end());
  paths.positions_.resize(paths.lengths_.size());
  std::iota(paths.positions_.begin(), paths.positions_.end(), 0);
  paths.FindOwners(manifest.shared_prefixes, *with);
  paths.FindStrands();
  return paths;
}

uint32_t SharedPaths::OwnerOf(uint32_t sequence, uint32_t depth) const {
  while (begins_[sequence] >= depth) {
    sequence = begins_[jumps_[sequence]] >= depth ? jumps_[sequence] : owners_[sequence];
  }
  return sequence;
}

void SharedPaths::FindOwners(std::span<const uint32_t> prefixes, std::span<const uint32_t> with) {
  const size_t count = prefixes.size();
  begins_.assign(count, 0);
  owners_.resize(count);
  jumps_.resize(count);
  std::vector<uint32_t> above(count, 0);
  for (uint32_t i = 0; i < count; ++i) {
    if (with[i] == kNobody) {
      owners_[i] = jumps_[i] = i;
      continue;
    }
    begins_[i] = prefixes[i];
    const uint32_t owner = OwnerOf(with[i], prefixes[i]);
    owners_[i] = owner;
    above[i] = above[owner] + 1;
    // A jump of double length wherever two equal jumps meet: any way up has O(log n) jumps.
    const uint32_t far = jumps_[owner];
    const bool doubles = above[owner] - above[far] == above[far] - above[jumps_[far]];
    jumps_[i] = doubles ? jumps_[far] : owner;
  }
}

void SharedPaths::FindStrands() {
  const size_t count = begins_.size();
  // For each sequence: how many paths use tokens that it introduced, including its own.
  std::vector<uint32_t> paths(count, 1);
  for (size_t i = count; i-- > 0;) {
    if (owners_[i] != i) paths[owners_[i]] += paths[i];
  }
  heirs_.resize(count);
  std::iota(heirs_.begin(), heirs_.end(), 0);
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t& heir = heirs_[owners_[i]];
    if (owners_[i] != i && (heir == owners_[i] || paths[i] > paths[heir])) heir = i;
  }
  firsts_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    const bool inherits = owners_[i] != i && heirs_[owners_[i]] == i;
    firsts_[i] = inherits ? firsts_[owners_[i]] : i;
  }
}

bool SharedPaths::SomeShare() const {
  std::vector<bool> seen(begins_.size(), false);
  for (uint32_t sequence : positions_) {
    const uint32_t root = OwnerOf(sequence, 1);
    if (seen[root]) return true;
    seen[root] = true;
  }
  return false;
}

void SharedPaths::Read(uint32_t sequence, uint32_t length, std::vector<Interval>& path) const {
  path.clear();
  const auto add = [&](size_t strand, uint32_t from, uint32_t to) {
    to = std::min(to, length);
    if (from < to) path.push_back({strand, from, to});
  };
  uint32_t owner = positions_[sequence];
  uint32_t to = lengths_[owner];
  while (true) {
    // The owner's tokens behind its heir's first token are a strand of their own.
    const uint32_t heir = heirs_[owner];
    if (heir != owner && begins_[heir] < to) {
      add(begins_.size() + owner, begins_[heir], to);
      to = begins_[heir];
    }
    const uint32_t first = firsts_[owner];
    add(first, begins_[first], to);
    if (owners_[first] == first) break;
    to = begins_[first];
    owner = owners_[first];
  }
  std::reverse(path.begin(), path.end());
}

uint32_t InCommon(std::span<const SharedPaths::Interval> a,
                  std::span<const SharedPaths::Interval> b) {
  uint32_t common = 0;
  for (size_t k = 0; k < std::min(a.size(), b.size()) && a[k].strand == b[k].strand; ++k) {
    common = std::min(a[k].to, b[k].to);
    if (a[k].to != b[k].to) break;
  }
  return common;
}

void PathUnion::Add(std::span<const SharedPaths::Interval> path) {
  for (const auto& [strand, from, to] : path) {
    if (added_[strand] != round_) {
      added_[strand] = round_;
      reached_[strand] = from;
    }
    const uint32_t reached = reached_[strand];
    if (to <= reached) continue;
    tokens_ += to - reached;
    squares_ += static_cast<double>(to) * to - static_cast<double>(reached) * reached;
    reached_[strand] = to;
  }
}

}  // namespace batchplan::checker
