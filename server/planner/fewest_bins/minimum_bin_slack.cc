#include "server/planner/fewest_bins/minimum_bin_slack.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace batchplan {
namespace {

class Search {
 public:
  Search(const Kinds& kinds, std::span<const uint32_t> demand, const SlackSearch& options)
      : kinds_(kinds),
        options_(options),
        left_(demand.begin(), demand.end()),
        next_left_(kinds.size() + 1),
        items_left_(std::accumulate(demand.begin(), demand.end(), uint64_t{0})),
        tokens_left_(TokensIn(kinds, demand)) {
    std::iota(next_left_.begin(), next_left_.end(), 0u);
  }

  std::optional<Bins> Pack(size_t bins, uint64_t& steps) {
    if (uint64_t{bins} * kinds_.capacity < tokens_left_) return std::nullopt;
    uint64_t waste = uint64_t{bins} * kinds_.capacity - tokens_left_;
    Bins packed;
    while (items_left_ > 0) {
      uint64_t steps_left = std::min(options_.steps_a_bin, steps);
      steps -= steps_left;
      const uint32_t slack = FillOne(Seed(), steps_left);
      steps += steps_left;
      if (slack > waste) return std::nullopt;
      waste -= slack;
      for (uint32_t kind : best_) {
        --left_[kind];
        --items_left_;
        tokens_left_ -= kinds_.lengths[kind];
      }
      packed.Add(best_);
    }
    return packed;
  }

 private:
  // The first kind from `kind` on of which an item is left outside the bin being filled.
  uint32_t FirstLeft(uint32_t kind) {
    uint32_t found = Root(kind);
    while (found < kinds_.size() && left_[found] == 0) found = Root(found + 1);
    return found;
  }

  // Skips kinds that are used up for good; the way there is halved for the next time.
  uint32_t Root(uint32_t kind) {
    while (next_left_[kind] != kind) {
      next_left_[kind] = next_left_[next_left_[kind]];
      kind = next_left_[kind];
    }
    return kind;
  }

  uint32_t Seed() {
    // Between two bins what is not left is used up for good.
    uint32_t kind = Root(first_);
    while (left_[kind] == 0) {
      next_left_[kind] = kind + 1;
      kind = Root(kind + 1);
    }
    first_ = kind;
    while (left_[last_()] == 0) shortest_ = last_() - 1;
    return kind;
  }
  uint32_t last_() const { return shortest_; }

  // Leaves the best filling found in best_ and returns its slack.
  uint32_t FillOne(uint32_t seed, uint64_t& steps) {
    taken_.clear();
    best_.clear();
    uint32_t room = kinds_.capacity;
    const auto take = [&](uint32_t kind) {
      taken_.push_back(kind);
      --left_[kind];
      room -= kinds_.lengths[kind];
    };
    const uint32_t least = kinds_.lengths[shortest_];
    // Only less slack than this is of interest.
    uint64_t best_slack = uint64_t{kinds_.capacity} + 1;
    take(seed);
    for (uint32_t next = seed;;) {
      uint32_t kind = static_cast<uint32_t>(kinds_.size());
      // No more than so many items fit; filled with the kind at hand they leave too much slack.
      if (room >= least) {
        if (kinds_.lengths[next] > room) {
          next = static_cast<uint32_t>(
              std::partition_point(kinds_.lengths.begin() + next, kinds_.lengths.end(),
                                   [&](uint32_t length) { return length > room; }) -
              kinds_.lengths.begin());
        }
        kind = FirstLeft(next);
      }
      if (kind < kinds_.size() && steps > 0 &&
          room < uint64_t{room / least} * kinds_.lengths[kind] + best_slack) {
        --steps;
        take(kind);
        next = kind;
        if (room > 0) continue;
      }
      if (room < best_slack) {
        best_slack = room;
        best_ = taken_;
        if (room == 0) {
          if (!options_.spare_small || steps == 0 || SparesSmall()) break;
          best_slack = 1;
        }
      } else if (room == 0 && SparesSmall()) {
        best_ = taken_;
        break;
      }
      if (taken_.size() == 1 || steps == 0) break;
      next = taken_.back() + 1;
      ++left_[taken_.back()];
      room += kinds_.lengths[taken_.back()];
      taken_.pop_back();
    }
    for (uint32_t kind : taken_) ++left_[kind];
    return best_slack == 1 && Filled() == kinds_.capacity ? 0 : static_cast<uint32_t>(best_slack);
  }

  uint64_t Filled() const {
    uint64_t sum = 0;
    for (uint32_t kind : best_) sum += kinds_.lengths[kind];
    return sum;
  }

  // Whether the items in the bin being filled are at least as long as those left, in the mean.
  bool SparesSmall() const {
    return uint64_t{kinds_.capacity} * items_left_ >= tokens_left_ * taken_.size();
  }

  const Kinds& kinds_;
  const SlackSearch& options_;
  std::vector<uint32_t> left_;
  std::vector<uint32_t> next_left_;
  uint32_t first_ = 0;
  uint32_t shortest_ = static_cast<uint32_t>(left_.size()) - 1;
  uint64_t items_left_;
  uint64_t tokens_left_;
  std::vector<uint32_t> taken_;
  std::vector<uint32_t> best_;
};

}  // namespace

std::optional<Bins> MinimumBinSlack(const Kinds& kinds, std::span<const uint32_t> demand,
                                    size_t bins, const SlackSearch& search, uint64_t& steps) {
  return Search(kinds, demand, search).Pack(bins, steps);
}

}  // namespace batchplan
