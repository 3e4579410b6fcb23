#include "server/planner/packing/bin_search.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace batchplan {
namespace {

class SlackFiller {
 public:
  SlackFiller(const Kinds& kinds, const DualFeasible& worth, const SlackSearch& options)
      : kinds_(kinds),
        worth_(worth),
        options_(options),
        left_(kinds.demand),
        next_left_(kinds.size() + 1),
        shortest_(kinds.size()),
        items_left_(std::accumulate(left_.begin(), left_.end(), uint64_t{0})),
        tokens_left_(TokensIn(kinds, left_)) {
    std::iota(next_left_.begin(), next_left_.end(), size_t{0});
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      values_.push_back(worth(kinds.lengths[kind]));
      value_left_ += values_.back() * left_[kind];
    }
  }

  std::optional<Bins> Pack(size_t bins, uint64_t& steps, const std::stop_token& stop) {
    Bins packed;
    if (bins * worth_.most() < value_left_) return std::nullopt;
    uint64_t affordable = bins * worth_.most() - value_left_;
    while (items_left_ > 0) {
      if (packed.size() == bins || stop.stop_requested()) return std::nullopt;
      const uint64_t allowed = std::min(options_.steps_a_bin, steps);
      uint64_t steps_left = allowed;
      const uint64_t slack = FillOne(steps_left);
      steps -= allowed - steps_left;
      if (slack > affordable) return std::nullopt;
      affordable -= slack;
      for (uint32_t kind : best_) {
        --left_[kind];
        tokens_left_ -= kinds_.lengths[kind];
      }
      items_left_ -= best_.size();
      packed.Add(best_);
    }
    return packed;
  }

 private:
  // The first kind from `kind` on that had an item left when this bin was begun. Halves the path
  // there for the next time.
  size_t FirstBefore(size_t kind) {
    while (next_left_[kind] != kind) {
      next_left_[kind] = next_left_[next_left_[kind]];
      kind = next_left_[kind];
    }
    return kind;
  }

  size_t FirstLeft(size_t kind) {
    kind = FirstBefore(kind);
    while (kind < left_.size() && left_[kind] == 0) kind = FirstBefore(kind + 1);
    return kind;
  }

  // The first kind from `kind` on that has an item left and is at most `room` long.
  size_t FirstFitting(size_t kind, uint32_t room) {
    if (room < kinds_.lengths[shortest_ - 1]) return left_.size();
    if (kind < left_.size() && kinds_.lengths[kind] > room) {
      kind = std::partition_point(kinds_.lengths.begin() + static_cast<ptrdiff_t>(kind),
                                  kinds_.lengths.end(),
                                  [&](uint32_t length) { return length > room; }) -
             kinds_.lengths.begin();
    }
    return FirstLeft(kind);
  }

  // The longest item left. Forgets kinds that the last bin used up.
  uint32_t First() {
    for (uint32_t kind : best_) {
      if (left_[kind] == 0) next_left_[kind] = kind + 1;
    }
    while (left_[shortest_ - 1] == 0) --shortest_;
    return static_cast<uint32_t>(FirstLeft(0));
  }

  void Take(uint32_t kind) {
    taken_.push_back(kind);
    --left_[kind];
    room_ -= kinds_.lengths[kind];
    value_ += values_[kind];
  }

  uint32_t PutBack() {
    const uint32_t kind = taken_.back();
    taken_.pop_back();
    ++left_[kind];
    room_ += kinds_.lengths[kind];
    value_ -= values_[kind];
    return kind;
  }

  // Leaves the best filling found in best_ and returns its slack.
  uint64_t FillOne(uint64_t& steps) {
    const uint32_t first = First();
    best_.clear();
    room_ = kinds_.capacity;
    value_ = 0;
    Take(first);
    const uint32_t least = kinds_.lengths[shortest_ - 1];
    // Only a filling worth more than this is of interest.
    uint64_t floor = 0;
    uint64_t best_value = 0;
    for (size_t next = first;;) {
      const size_t kind = FirstFitting(next, room_);
      if (kind < left_.size() && (steps > 0 || best_.empty())) {
        steps -= steps > 0;
        // Further items are worth at most as much as the room left, and as the most items that fit
        // there if each is worth as much as this one.
        const uint64_t more = std::min(worth_(room_), room_ / least * values_[kind]);
        if (best_.empty() || value_ + more > floor) {
          Take(static_cast<uint32_t>(kind));
          next = kind;
          continue;
        }
      } else {
        const bool full = value_ == worth_.most();
        const bool good = full && (!options_.spare_small || SparesSmall());
        if (good || value_ > floor || best_.empty()) {
          best_ = taken_;
          best_value = value_;
          floor = full ? value_ - 1 : value_;
        }
        if (good) break;
      }
      if (taken_.size() == 1 || steps == 0) break;
      const uint32_t last = PutBack();
      // If the last item left no room for another, a shorter one is only of use if it leaves some.
      const bool closed = room_ - kinds_.lengths[last] < least;
      next = closed ? FirstFitting(last + size_t{1}, room_ - least) : last + size_t{1};
    }
    while (!taken_.empty()) PutBack();
    return worth_.most() - best_value - TopUp();
  }

  // Adds to best_ the items that still fit. Returns their worth, which may be 0.
  uint64_t TopUp() {
    for (uint32_t kind : best_) Take(kind);
    const uint64_t before = value_;
    for (size_t kind = 0; (kind = FirstFitting(kind, room_)) < left_.size();) {
      Take(static_cast<uint32_t>(kind));
    }
    const uint64_t added = value_ - before;
    best_ = taken_;
    while (!taken_.empty()) PutBack();
    return added;
  }

  // Whether the mean item in the bin being filled is at least as long as the mean item left.
  bool SparesSmall() const {
    return (kinds_.capacity - room_) * items_left_ >= tokens_left_ * taken_.size();
  }

  const Kinds& kinds_;
  const DualFeasible& worth_;
  const SlackSearch& options_;
  std::vector<uint64_t> values_;
  // The items of each kind outside the bin being filled; and for each kind the next kind, itself or
  // a later one, that may have some.
  std::vector<uint32_t> left_;
  std::vector<size_t> next_left_;
  // The kinds from here on are used up.
  size_t shortest_;
  uint64_t items_left_;
  uint64_t tokens_left_;
  uint64_t value_left_ = 0;
  // The bin being filled, and its best filling.
  std::vector<uint32_t> taken_;
  std::vector<uint32_t> best_;
  uint32_t room_ = 0;
  uint64_t value_ = 0;
};

}  // namespace

std::optional<Bins> MinimumBinSlack(const Kinds& kinds, const DualFeasible& worth, size_t bins,
                                    const SlackSearch& search, uint64_t& steps,
                                    const std::stop_token& stop) {
  return SlackFiller(kinds, worth, search).Pack(bins, steps, stop);
}

namespace {

// Steps from one look at the stop token to the next; a power of two.
constexpr uint64_t kStepsPerLook = 1024;

class BinCompletion {
 public:
  BinCompletion(const Kinds& kinds, std::span<const uint32_t> demand) : kinds_(kinds), tokens_(0) {
    for (uint32_t kind = 0; kind < kinds.size(); ++kind) {
      if (demand[kind] == 0) continue;
      original_.push_back(kind);
      lengths_.push_back(kinds.lengths[kind]);
      left_.push_back(demand[kind]);
      tokens_ += uint64_t{demand[kind]} * kinds.lengths[kind];
      items_ += demand[kind];
    }
  }

  Completion Run(size_t bins, uint64_t& steps, const std::stop_token& stop) {
    if (items_ == 0) return {.bins = Bins(), .exhausted = false};
    if (uint64_t{bins} * kinds_.capacity < tokens_)
      return {.bins = std::nullopt, .exhausted = true};
    waste_ = uint64_t{bins} * kinds_.capacity - tokens_;
    Open();
    for (size_t next = taken_.back();;) {
      if (steps == 0 || (steps % kStepsPerLook == 0 && stop.stop_requested())) return {};
      --steps;
      if (const size_t kind = Fitting(next); kind < lengths_.size()) {
        Take(kind);
        next = kind;
        continue;
      }
      if (Closes()) {
        if (taken_.size() == items_) return {.bins = Packed(), .exhausted = false};
        waste_ -= room_;
        Open();
        next = taken_.back();
        continue;
      }
      // Goes back to the last item that was a choice; the first of a bin never is.
      while (taken_.size() == starts_.back() + 1) {
        if (starts_.size() == 1) return {.bins = std::nullopt, .exhausted = true};
        Reopen();
      }
      next = PutBack() + 1;
    }
  }

 private:
  // The first kind from `next` on that has an item left that fits, if it may still lead to a bin
  // that closes; otherwise the number of kinds.
  size_t Fitting(size_t next) const {
    size_t kind =
        std::partition_point(lengths_.begin() + static_cast<ptrdiff_t>(next), lengths_.end(),
                             [&](uint32_t length) { return length > room_; }) -
        lengths_.begin();
    while (kind < lengths_.size() && left_[kind] == 0) ++kind;
    if (kind == lengths_.size()) return kind;
    // The most that still fits: as many of the shortest items as there is room for, none longer
    // than this one.
    const uint64_t reach = uint64_t{room_ / lengths_.back()} * lengths_[kind];
    return reach + waste_ < room_ ? lengths_.size() : kind;
  }

  // Whether the bin wastes no more than the bins can afford and has no room for an item left.
  bool Closes() const {
    if (room_ > waste_) return false;
    for (size_t kind = lengths_.size(); kind-- > 0 && lengths_[kind] <= room_;) {
      if (left_[kind] > 0) return false;
    }
    return true;
  }

  void Take(size_t kind) {
    taken_.push_back(static_cast<uint32_t>(kind));
    --left_[kind];
    room_ -= lengths_[kind];
  }

  uint32_t PutBack() {
    const uint32_t kind = taken_.back();
    taken_.pop_back();
    ++left_[kind];
    room_ += lengths_[kind];
    return kind;
  }

  void Open() {
    starts_.push_back(taken_.size());
    room_ = kinds_.capacity;
    size_t longest = 0;
    while (left_[longest] == 0) ++longest;
    Take(longest);
  }

  // Goes back to the bin before the last, as it was when it closed.
  void Reopen() {
    PutBack();
    starts_.pop_back();
    room_ = kinds_.capacity;
    for (size_t i = starts_.back(); i < taken_.size(); ++i) room_ -= lengths_[taken_[i]];
    waste_ += room_;
  }

  Bins Packed() const {
    Bins bins;
    std::vector<uint32_t> bin;
    for (size_t i = 0; i < starts_.size(); ++i) {
      bin.clear();
      const size_t end = i + 1 < starts_.size() ? starts_[i + 1] : taken_.size();
      for (size_t j = starts_[i]; j < end; ++j) bin.push_back(original_[taken_[j]]);
      bins.Add(bin);
    }
    return bins;
  }

  const Kinds& kinds_;
  // The kinds in demand.
  std::vector<uint32_t> original_;
  std::vector<uint32_t> lengths_;
  std::vector<uint32_t> left_;
  uint64_t tokens_;
  uint64_t items_ = 0;
  // The slack that the bins can still afford in all.
  uint64_t waste_ = 0;
  // The items in bins, bin by bin; where each bin starts; and the room of the last.
  std::vector<uint32_t> taken_;
  std::vector<size_t> starts_;
  uint32_t room_ = 0;
};

}  // namespace

Completion CompleteBins(const Kinds& kinds, std::span<const uint32_t> demand, size_t bins,
                        uint64_t& steps, const std::stop_token& stop) {
  return BinCompletion(kinds, demand).Run(bins, steps, stop);
}

}  // namespace batchplan
