#include "tests/support/satisfiable.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/assignments.h"
#include "tests/support/owned_loads.h"

namespace batchplan::testing {
namespace {

// Sequences as bits, by manifest position.
using Set = uint32_t;

constexpr uint64_t kNever = std::numeric_limits<uint32_t>::max();

bool Has(Set set, size_t sequence) { return (set >> sequence & 1) != 0; }

uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

uint64_t MultipleOf(const Topology& topology, const PassOptions& pass) {
  uint64_t multiple = topology.context_parallel > 1 ? 2 * uint64_t{topology.context_parallel} : 1;
  if (topology.sequence_parallel) multiple *= topology.tensor_parallel;
  return std::lcm(multiple, uint64_t{pass.length_multiple});
}

class Oracle {
 public:
  Oracle(const Manifest& manifest, const PlanOptions& options)
      : manifest_(manifest), options_(options), count_(manifest.lengths.size()) {
    if (count_ > kMaxSatisfiableSequences || options.mini_batches.order == Order::kShuffled) {
      std::abort();
    }
  }

  bool Decide() {
    const bool needs_groups =
        options_.mini_batches.groups != GroupPolicy::kIgnore || counts_groups();
    if (needs_groups && manifest_.group_ids.empty()) return false;
    ReadGroups();
    if (!GivenRanksAreWhole()) return false;
    if (!CutMiniBatches() || !ApplyOverlongPolicy()) return false;
    for (const PassOptions& pass : options_.passes) FindFewest(pass);
    return TryRanks();
  }

 private:
  bool counts_groups() const { return options_.mini_batches.group_count > 0; }
  bool grouped() const {
    return (options_.mini_batches.groups != GroupPolicy::kIgnore || counts_groups()) &&
           !manifest_.group_ids.empty();
  }
  bool whole_on_rank() const {
    return grouped() && (options_.mini_batches.groups == GroupPolicy::kSameRank ||
                         options_.mini_batches.groups == GroupPolicy::kSameMicrobatch);
  }
  bool whole_in_microbatch() const {
    return grouped() && options_.mini_batches.groups == GroupPolicy::kSameMicrobatch;
  }

  // Brings the sequences into the requested order. A group has the place of its first member, or is
  // ordered by its longest.
  void ReadGroups() {
    std::map<uint32_t, size_t> group_of_id;
    for (size_t i = 0; i < count_; ++i) {
      if (!grouped()) {
        groups_.push_back(Set{1} << i);
        continue;
      }
      const auto [at, is_new] = group_of_id.try_emplace(manifest_.group_ids[i], groups_.size());
      if (is_new) groups_.push_back(0);
      groups_[at->second] |= Set{1} << i;
    }
    if (options_.mini_batches.order == Order::kStratified) {
      std::ranges::stable_sort(groups_, {}, [&](Set group) { return Longest(group); });
    }
  }

  uint32_t Longest(Set group) const {
    uint32_t longest = 0;
    for (size_t i = 0; i < count_; ++i) {
      if (Has(group, i)) longest = std::max(longest, manifest_.lengths[i]);
    }
    return longest;
  }

  // False if given ranks tear a group apart.
  bool GivenRanksAreWhole() const {
    if (manifest_.ranks.empty() || !whole_on_rank()) return true;
    for (size_t i = 0; i < count_; ++i) {
      for (size_t other = 0; other < i; ++other) {
        if (manifest_.group_ids[i] == manifest_.group_ids[other] &&
            manifest_.ranks[i] != manifest_.ranks[other]) {
          return false;
        }
      }
    }
    return true;
  }

  // False if the size does not divide the manifest, or cuts a group.
  bool CutMiniBatches() {
    const MiniBatching& asked = options_.mini_batches;
    const size_t total = counts_groups() ? groups_.size() : count_;
    size_t size = counts_groups() ? asked.group_count : asked.size;
    if (size == 0) size = total;
    if (count_ == 0) return false;
    if (total % size != 0 && asked.last == LastMiniBatch::kExact) return false;
    Set current = 0;
    size_t taken = 0;
    for (Set group : groups_) {
      current |= group;
      taken += counts_groups() ? 1 : static_cast<size_t>(std::popcount(group));
      if (taken > size) return false;
      if (taken == size) {
        mini_batches_.push_back(current);
        current = 0;
        taken = 0;
      }
    }
    if (current != 0) mini_batches_.push_back(current);
    return true;
  }

  // False if a sequence is refused, or all sequences of a mini-batch are dropped.
  bool ApplyOverlongPolicy() {
    uint64_t limit = kNever;
    for (const PassOptions& pass : options_.passes) {
      const uint64_t multiple = MultipleOf(options_.topology, pass);
      limit = std::min(limit, pass.max_tokens_per_microbatch / multiple * multiple);
      for (const LoadLimit& of_load : pass.limits) limits_[&of_load] = ValuesOf(of_load);
    }
    planned_.assign(manifest_.lengths.begin(), manifest_.lengths.end());
    Set dropped = 0;
    for (size_t i = 0; i < count_; ++i) {
      const bool too_much = HasTooMuch(i);
      if ((planned_[i] <= limit && !too_much) || options_.overlong == OverlongPolicy::kAlone) {
        continue;
      }
      if (options_.overlong == OverlongPolicy::kReject) return false;
      if (options_.overlong == OverlongPolicy::kTruncate) {
        if (too_much || limit == 0) return false;
        planned_[i] = limit;
      }
      if (options_.overlong == OverlongPolicy::kDrop) {
        for (Set group : groups_) {
          if (Has(group, i)) dropped |= group;
        }
      }
    }
    for (Set& group : groups_) group &= ~dropped;
    std::erase(groups_, Set{0});
    for (Set& mini_batch : mini_batches_) {
      mini_batch &= ~dropped;
      if (mini_batch == 0) return false;
    }
    return true;
  }

  uint64_t Aligned(const PassOptions& pass, size_t sequence) const {
    return RoundUp(planned_[sequence], MultipleOf(options_.topology, pass));
  }

  bool RunsAlone(const PassOptions& pass, size_t sequence) const {
    return options_.overlong == OverlongPolicy::kAlone &&
           Aligned(pass, sequence) > pass.max_tokens_per_microbatch;
  }

  // The load that is limited, by sequence.
  std::vector<double> ValuesOf(const LoadLimit& limit) const {
    for (const LoadCost& cost : options_.cost_model.loads) {
      if (cost.load == limit.load && cost.dealt) std::abort();
    }
    return LoadOfSequences(manifest_, limit.load);
  }

  static bool IsWithin(double value, const LoadLimit& limit) {
    return value <= limit.max_per_microbatch * (1 + 1e-9);
  }

  // Whether a sequence exceeds a limit by itself.
  bool HasTooMuch(size_t sequence) const {
    return std::ranges::any_of(limits_, [&](const auto& entry) {
      return !IsWithin(entry.second[sequence], *entry.first);
    });
  }

  // Whether the set's loads are within the pass's limits, or the set is a single sequence.
  bool LoadsFit(const PassOptions& pass, Set set) const {
    if (std::popcount(set) == 1 && options_.overlong == OverlongPolicy::kAlone) return true;
    return std::ranges::all_of(pass.limits, [&](const LoadLimit& limit) {
      double sum = 0;
      for (size_t i = 0; i < count_; ++i) {
        if (Has(set, i)) sum += limits_.at(&limit)[i];
      }
      return IsWithin(sum, limit);
    });
  }

  // Whether one micro-batch of the pass can hold the whole set.
  bool Fits(const PassOptions& pass, Set set) const {
    const auto sequences = static_cast<uint64_t>(std::popcount(set));
    if (pass.max_sequences_per_microbatch > 0 && sequences > pass.max_sequences_per_microbatch) {
      return false;
    }
    if (!LoadsFit(pass, set)) return false;
    if (sequences == 1 && RunsAlone(pass, static_cast<size_t>(std::countr_zero(set)))) return true;
    uint64_t sum = 0;
    uint64_t widest = 0;
    for (size_t i = 0; i < count_; ++i) {
      if (!Has(set, i)) continue;
      sum += Aligned(pass, i);
      widest = std::max(widest, Aligned(pass, i));
    }
    if (pass.layout == Layout::kPadded) return sequences * widest <= pass.max_tokens_per_microbatch;
    const bool in_buckets = pass.rows == RowPadding::kBuckets;
    return sum <= (in_buckets ? pass.buckets.back() : pass.max_tokens_per_microbatch);
  }

  // The sets that no micro-batch may tear apart.
  std::vector<Set> Atoms(Set set) const {
    std::vector<Set> atoms;
    for (Set group : groups_) {
      if (whole_in_microbatch()) {
        if ((group & set) != 0) atoms.push_back(group);
      } else {
        for (size_t i = 0; i < count_; ++i) {
          if (Has(group & set, i)) atoms.push_back(Set{1} << i);
        }
      }
    }
    return atoms;
  }

  // The fewest micro-batches of the pass for every set of sequences; kNever if an atom does not
  // fit.
  void FindFewest(const PassOptions& pass) {
    const Set sets = Set{1} << count_;
    std::vector<uint64_t> fewest(sets, kNever);
    std::vector<bool> fits(sets);
    for (Set set = 1; set < sets; ++set) {
      // A set that tears an atom apart can't be a micro-batch.
      Set whole = 0;
      for (Set atom : Atoms(set)) whole |= atom;
      fits[set] = whole == set && Fits(pass, set);
    }
    fewest[0] = 0;
    for (Set set = 1; set < sets; ++set) {
      const Set lowest = set & (~set + 1);
      const Set others = set - lowest;
      for (Set part = others;; part = (part - 1) & others) {
        if (fits[part | lowest]) {
          fewest[set] = std::min(fewest[set], 1 + fewest[others - part]);
        }
        if (part == 0) break;
      }
    }
    fewest_.push_back(std::move(fewest));
  }

  // Whether there is a number of micro-batches that suits all ranks' sets.
  bool CountExists(size_t pass_number, const std::vector<Set>& of_rank) const {
    const PassOptions& pass = options_.passes[pass_number];
    uint64_t multiple = pass.microbatch_count_multiple;
    if (options_.topology.virtual_pipeline > 1) {
      const uint64_t group =
          std::max(options_.topology.pipeline_parallel, options_.pipeline.group_size);
      multiple = std::lcm(multiple, group);
    }
    uint64_t least = pass.min_microbatches;
    uint64_t most = kNever;
    for (Set set : of_rank) {
      const uint64_t fewest = fewest_[pass_number][set];
      if (fewest >= kNever) return false;
      least = std::max(least, fewest);
      if (!options_.allow_empty_microbatches) most = std::min(most, Atoms(set).size());
    }
    return RoundUp(least, multiple) <= most;
  }

  // What a sharding divides at once: a mini-batch, or the whole manifest if no pass has
  // mini-batches.
  std::vector<Set> Shares() const {
    const bool all_ignore = std::ranges::all_of(
        options_.passes, [](const PassOptions& pass) { return pass.ignore_mini_batches; });
    if (!all_ignore) return mini_batches_;
    Set all = 0;
    for (Set mini_batch : mini_batches_) all |= mini_batch;
    return {all};
  }

  // The units of a share that stay whole on a rank, in the order of the manifest.
  std::vector<Set> Units(Set share) const {
    std::vector<Set> units;
    for (Set group : groups_) {
      if ((group & share) == 0) continue;
      if (whole_on_rank()) {
        units.push_back(group);
      } else {
        for (size_t i = 0; i < count_; ++i) {
          if (Has(group, i)) units.push_back(Set{1} << i);
        }
      }
    }
    return units;
  }

  // The ranks that STRIDE_SORTED gives to the units by their true tokens; none if the ranks do not
  // divide the units.
  std::optional<std::vector<uint32_t>> StrideRanks(const std::vector<Set>& units) const {
    const uint32_t ranks = options_.topology.data_parallel;
    if (units.size() % ranks != 0) return std::nullopt;
    std::vector<std::pair<uint64_t, size_t>> sorted;
    for (size_t unit = 0; unit < units.size(); ++unit) {
      uint64_t tokens = 0;
      for (size_t i = 0; i < count_; ++i) {
        if (Has(units[unit], i)) tokens += planned_[i];
      }
      sorted.emplace_back(tokens, unit);
    }
    std::sort(sorted.begin(), sorted.end());
    std::vector<uint32_t> rank_of(units.size());
    for (size_t position = 0; position < sorted.size(); ++position) {
      rank_of[sorted[position].second] = static_cast<uint32_t>(position % ranks);
    }
    return rank_of;
  }

  bool RanksAreAllowed(Set share, const std::vector<Set>& of_rank) const {
    const EqualCounts counts = options_.passes[0].sequence_counts;
    if (counts == EqualCounts::kAny) return true;
    const auto total = static_cast<size_t>(std::popcount(share));
    const size_t least = total / of_rank.size();
    const size_t most =
        counts == EqualCounts::kExact ? least : (total + of_rank.size() - 1) / of_rank.size();
    if (most * of_rank.size() < total) return false;
    return std::ranges::all_of(of_rank, [&](Set set) {
      const auto own = static_cast<size_t>(std::popcount(set));
      return own >= least && own <= most;
    });
  }

  // All shards of a share that the sharding may choose, each as the sets of its ranks.
  std::vector<std::vector<Set>> Shards(Set share) const {
    const std::vector<Set> units = Units(share);
    const uint32_t ranks = options_.topology.data_parallel;
    std::vector<std::vector<Set>> shards;
    const auto add = [&](const std::vector<uint32_t>& rank_of) {
      std::vector<Set> of_rank(ranks, 0);
      for (size_t unit = 0; unit < units.size(); ++unit) of_rank[rank_of[unit]] |= units[unit];
      if (RanksAreAllowed(share, of_rank)) shards.push_back(std::move(of_rank));
    };
    if (!manifest_.ranks.empty()) {
      std::vector<uint32_t> given;
      for (Set unit : units) given.push_back(manifest_.ranks[std::countr_zero(unit)]);
      add(given);
      return shards;
    }
    if (options_.passes[0].sharding == Sharding::kStrideSorted) {
      if (const auto rank_of = StrideRanks(units)) add(*rank_of);
      return shards;
    }
    const bool contiguous = options_.passes[0].sharding == Sharding::kContiguous;
    ForEachAssignment(units.size(), ranks, [&](const std::vector<uint32_t>& rank_of) {
      if (!contiguous || std::is_sorted(rank_of.begin(), rank_of.end())) add(rank_of);
    });
    return shards;
  }

  // Whether some combination of shards suits every pass. `of_rank` has what ranks have of the
  // shares before `next`; passes that ignore mini-batches are only checked with all shares.
  bool TryShares(const std::vector<Set>& shares, size_t next, const std::vector<Set>& of_rank) {
    if (next == shares.size()) {
      for (size_t pass = 0; pass < options_.passes.size(); ++pass) {
        if (options_.passes[pass].ignore_mini_batches && !CountExists(pass, of_rank)) return false;
      }
      return true;
    }
    for (const std::vector<Set>& shard : Shards(shares[next])) {
      bool allowed = true;
      for (size_t pass = 0; allowed && pass < options_.passes.size(); ++pass) {
        allowed = options_.passes[pass].ignore_mini_batches || CountExists(pass, shard);
      }
      if (!allowed) continue;
      std::vector<Set> together = of_rank;
      for (size_t rank = 0; rank < together.size(); ++rank) together[rank] |= shard[rank];
      if (TryShares(shares, next + 1, together)) return true;
    }
    return false;
  }

  bool TryRanks() {
    return TryShares(Shares(), 0, std::vector<Set>(options_.topology.data_parallel, 0));
  }

  const Manifest& manifest_;
  const PlanOptions& options_;
  const size_t count_;
  std::vector<Set> groups_;  // single sequences if groups are ignored
  std::vector<Set> mini_batches_;
  std::vector<uint64_t> planned_;
  // The load that is limited, by limit and sequence.
  std::map<const LoadLimit*, std::vector<double>> limits_;
  std::vector<std::vector<uint64_t>> fewest_;  // by pass and set
};

}  // namespace

bool Satisfiable(const Manifest& manifest, const PlanOptions& options) {
  return Oracle(manifest, options).Decide();
}

}  // namespace batchplan::testing
