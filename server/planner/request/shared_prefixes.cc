#include "server/planner/request/shared_prefixes.h"

#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/planner/request/sequence_groups.h"

namespace batchplan {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// By position, the earlier sequence with which the prefix is shared; kNone if nothing is shared.
std::vector<uint32_t> SharersOf(const Manifest& manifest) {
  const size_t count = manifest.lengths.size();
  std::vector<uint32_t> sharers(count, kNone);
  if (!manifest.shared_with.empty()) {
    for (size_t i = 0; i < count; ++i) {
      if (manifest.shared_prefixes[i] > 0) sharers[i] = manifest.shared_with[i];
    }
    return sharers;
  }
  const Groups groups(manifest, GroupPolicy::kSameMiniBatch);
  std::vector<uint32_t> firsts(groups.size(), kNone);
  for (uint32_t i = 0; i < count && !groups.empty(); ++i) {
    uint32_t& first = firsts[groups[SequenceIndex(i)]];
    if (first == kNone) {
      first = i;
    } else if (manifest.shared_prefixes[i] > 0) {
      sharers[i] = first;
    }
  }
  return sharers;
}

absl::Status CheckSize(const char* field, std::span<const uint32_t> values, size_t sequences) {
  if (values.empty() || values.size() == sequences) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("manifest.", field, " has ", values.size(),
                                                 " entries, but manifest.lengths has ", sequences,
                                                 "; give one a sequence, or none"));
}

// Who laid the tokens of each sequence: from depth `begin` on it has tokens of its own; the tokens
// before are its owner's, whose own tokens begin before that depth.
class Owners {
 public:
  // `sharers` as from SharersOf; prefixes are cut at `longest`.
  Owners(std::span<const uint32_t> prefixes, std::span<const uint32_t> sharers, uint32_t longest) {
    const size_t count = prefixes.size();
    owner_.assign(count, kNone);
    begin_.assign(count, 0);
    jump_.assign(count, kNone);
    depth_.assign(count, 0);
    for (uint32_t i = 0; i < count; ++i) {
      if (sharers[i] == kNone) continue;
      begin_[i] = std::min(prefixes[i], longest);
      owner_[i] = OwnerOf(sharers[i], begin_[i]);
      depth_[i] = depth_[owner_[i]] + 1;
      // Skew-binary jump pointers (E. W. Myers, "An applicative random-access stack", 1983).
      const uint32_t above = owner_[i];
      const uint32_t jump = jump_[above];
      const bool is_double = jump != kNone && jump_[jump] != kNone &&
                             depth_[above] - depth_[jump] == depth_[jump] - depth_[jump_[jump]];
      jump_[i] = is_double ? jump_[jump] : above;
    }
  }

  uint32_t owner(uint32_t sequence) const { return owner_[sequence]; }
  uint32_t begin(uint32_t sequence) const { return begin_[sequence]; }

 private:
  // Who laid the token of `sequence` at depth `prefix` - 1. `begin` falls from owner to owner.
  uint32_t OwnerOf(uint32_t sequence, uint32_t prefix) const {
    while (begin_[sequence] >= prefix) {
      const uint32_t jump = jump_[sequence];
      sequence = begin_[jump] >= prefix ? jump : owner_[sequence];
    }
    return sequence;
  }

  std::vector<uint32_t> owner_;
  std::vector<uint32_t> begin_;
  // For each sequence, an owner further up, and the number of owners above.
  std::vector<uint32_t> jump_;
  std::vector<uint32_t> depth_;
};

// Writes a forest in depth-first order.
class DepthFirst {
 public:
  DepthFirst(const Manifest& manifest, const Owners& owners, uint32_t longest)
      : owners_(owners), count_(static_cast<uint32_t>(manifest.lengths.size())) {
    for (const uint32_t length : manifest.lengths) lengths_.push_back(std::min(length, longest));
    SortBranches();
  }

  // Writes the places of the sequences and, by place, what each has in common with the one before.
  void Write(std::vector<uint32_t>& places, std::vector<uint32_t>& common) {
    places.assign(count_, 0);
    common.reserve(count_);
    std::vector<Entry> open;
    for (uint32_t root = 0; root < count_; ++root) {
      if (owners_.owner(root) != kNone) continue;
      open.push_back({root, 0});
      while (!open.empty()) {
        const Entry entry = open.back();
        open.pop_back();
        if (entry.is_leaf) {
          places[entry.sequence] = static_cast<uint32_t>(common.size());
          common.push_back(entry.common);
        } else {
          Open(entry, open);
        }
      }
    }
  }

 private:
  struct Entry {
    uint32_t sequence;
    // Tokens in common with the sequence before.
    uint32_t common;
    bool is_leaf = false;
  };

  // Whether it has no token of its own: it is a prefix or a copy of its owner.
  bool IsPrefix(uint32_t sequence) const { return lengths_[sequence] == owners_.begin(sequence); }
  // Whether the sequence stands before its owner.
  bool StandsBefore(uint32_t sequence) const {
    return IsPrefix(sequence) && lengths_[sequence] < lengths_[owners_.owner(sequence)];
  }

  // Sorts branches by owner, in depth-first order.
  void SortBranches() {
    first_.assign(size_t{count_} + 1, 0);
    for (uint32_t i = 0; i < count_; ++i) {
      if (owners_.owner(i) != kNone) ++first_[owners_.owner(i) + 1];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    branches_.resize(first_.back());
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    for (uint32_t i = 0; i < count_; ++i) {
      if (owners_.owner(i) != kNone) branches_[next[owners_.owner(i)]++] = i;
    }
    // Prefixes ascend before the owner; after it the deepest branches come first, copies before
    // their extensions.
    const auto stands_before = [&](uint32_t a, uint32_t b) {
      const bool before = StandsBefore(a);
      if (before != StandsBefore(b)) return before;
      if (owners_.begin(a) != owners_.begin(b)) {
        return before == (owners_.begin(a) < owners_.begin(b));
      }
      return IsPrefix(a) && !IsPrefix(b);
    };
    for (uint32_t i = 0; i < count_; ++i) {
      if (first_[i + 1] - first_[i] < 2) continue;
      std::stable_sort(branches_.begin() + first_[i], branches_.begin() + first_[i + 1],
                       stands_before);
    }
  }

  // Puts the owner and its branches on the stack, the first on top.
  void Open(const Entry& entry, std::vector<Entry>& open) const {
    const uint32_t owner = entry.sequence;
    const size_t bottom = open.size();
    uint32_t common = entry.common;
    uint32_t next = first_[owner];
    for (; next < first_[owner + 1] && StandsBefore(branches_[next]); ++next) {
      open.push_back({branches_[next], common, /*is_leaf=*/true});
      common = owners_.begin(branches_[next]);
    }
    open.push_back({owner, common, /*is_leaf=*/true});
    for (; next < first_[owner + 1]; ++next) {
      open.push_back({branches_[next], owners_.begin(branches_[next])});
    }
    std::reverse(open.begin() + static_cast<ptrdiff_t>(bottom), open.end());
  }

  const Owners& owners_;
  const uint32_t count_;
  std::vector<uint32_t> lengths_;
  // The branches of sequence i are branches_[first_[i] .. first_[i + 1]).
  std::vector<uint32_t> first_;
  std::vector<uint32_t> branches_;
};

}  // namespace

absl::Status CheckSharedPrefixes(const Manifest& manifest) {
  const size_t count = manifest.lengths.size();
  absl::Status status = CheckSize("shared_prefixes", manifest.shared_prefixes, count);
  status.Update(CheckSize("shared_with", manifest.shared_with, count));
  if (!status.ok()) return status;
  if (manifest.shared_prefixes.empty()) {
    if (manifest.shared_with.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "manifest.shared_with is set, but shared_prefixes is empty; give both, or none");
  }
  if (manifest.shared_with.empty() && manifest.group_ids.empty()) {
    return absl::InvalidArgumentError(
        "manifest.shared_prefixes is set, but neither shared_with nor group_ids say with whom; "
        "give "
        "one of them");
  }
  for (size_t i = 0; i < count && !manifest.shared_with.empty(); ++i) {
    if (manifest.shared_prefixes[i] == 0 || manifest.shared_with[i] < i) continue;
    return absl::InvalidArgumentError(absl::StrCat("manifest.shared_with[", i, "] is ",
                                                   manifest.shared_with[i], "; it must be below ",
                                                   i, ", an earlier sequence"));
  }
  const std::vector<uint32_t> sharers = SharersOf(manifest);
  for (size_t i = 0; i < count; ++i) {
    if (sharers[i] == kNone) continue;
    const uint32_t prefix = manifest.shared_prefixes[i];
    if (prefix <= manifest.lengths[i] && prefix <= manifest.lengths[sharers[i]]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "manifest.shared_prefixes[", i, "] is ", prefix,
        ", but of the two sequences that share it number ", i, " has ", manifest.lengths[i],
        " tokens and number ", sharers[i], " has ", manifest.lengths[sharers[i]]));
  }
  return absl::OkStatus();
}

SharedPrefixes::SharedPrefixes(const Manifest& manifest, uint32_t longest) {
  if (manifest.shared_prefixes.empty()) return;
  const std::vector<uint32_t> sharers = SharersOf(manifest);
  if (std::ranges::count(sharers, kNone) == static_cast<ptrdiff_t>(sharers.size())) return;
  const Owners owners(manifest.shared_prefixes, sharers, longest);
  std::vector<uint32_t> common;
  DepthFirst(manifest, owners, longest).Write(places_, common);
  common_ = RangeMinima(std::move(common));
}

const SharedPrefixes& NothingShared() {
  static const SharedPrefixes& nothing = *new SharedPrefixes();
  return nothing;
}

PrefixRelations SharedPrefixes::Among(std::span<const SequenceIndex> sequences) const {
  const auto count = static_cast<uint32_t>(sequences.size());
  PrefixRelations relations;
  if (empty()) return relations;
  relations.prefixes.assign(count, 0);
  relations.with.assign(count, 0);
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](uint32_t i) { return PlaceOf(sequences[i]); });
  // Neighbours that have something in common, those with most first. Each joins two runs, and
  // relates the earliest sequence of one to the earliest of the other.
  struct Neighbours {
    uint32_t common;
    uint32_t right;  // its place in `order`
  };
  std::vector<Neighbours> neighbours;
  for (uint32_t i = 1; i < count; ++i) {
    const uint32_t common = Common(sequences[order[i - 1]], sequences[order[i]]);
    if (common > 0) neighbours.push_back({common, i});
  }
  std::ranges::stable_sort(neighbours, std::greater<>(), &Neighbours::common);
  // Joined runs of places, each known by its ends: the other end, and the earliest sequence.
  std::vector<uint32_t> other_end(count);
  std::iota(other_end.begin(), other_end.end(), 0u);
  std::vector<uint32_t> earliest = order;
  for (const Neighbours& joined : neighbours) {
    const uint32_t first = other_end[joined.right - 1];
    const uint32_t last = other_end[joined.right];
    const auto [kept, related] = std::minmax({earliest[first], earliest[last]});
    relations.prefixes[related] = joined.common;
    relations.with[related] = kept;
    other_end[first] = last;
    other_end[last] = first;
    earliest[first] = earliest[last] = kept;
  }
  return relations;
}

}  // namespace batchplan
