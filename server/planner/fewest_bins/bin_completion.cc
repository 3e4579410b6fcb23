#include "server/planner/fewest_bins/bin_completion.h"

#include <algorithm>
#include <vector>

namespace batchplan {
namespace {

// Steps from one look at the stop token to the next; a power of two.
constexpr uint64_t kStepsPerLook = 1024;

class Search {
 public:
  Search(const Kinds& kinds, std::span<const uint32_t> demand) : kinds_(kinds), tokens_(0) {
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
      // Back to the last item that was a choice, which the first of a bin is not.
      while (taken_.size() == starts_.back() + 1) {
        if (starts_.size() == 1) return {.bins = std::nullopt, .exhausted = true};
        Reopen();
      }
      next = PutBack() + 1;
    }
  }

 private:
  // The first kind from `next` on of which an item is left and fits, if it may still lead to a bin
  // that closes; otherwise the number of kinds.
  size_t Fitting(size_t next) const {
    size_t kind =
        std::partition_point(lengths_.begin() + static_cast<ptrdiff_t>(next), lengths_.end(),
                             [&](uint32_t length) { return length > room_; }) -
        lengths_.begin();
    while (kind < lengths_.size() && left_[kind] == 0) ++kind;
    if (kind == lengths_.size()) return kind;
    // So many more fit at most; each of them no longer than this.
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

  // The bin before the last, as it was when it closed.
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
  // Of the kinds in demand.
  std::vector<uint32_t> original_;
  std::vector<uint32_t> lengths_;
  std::vector<uint32_t> left_;
  uint64_t tokens_;
  uint64_t items_ = 0;
  // What the bins can still leave empty in all.
  uint64_t waste_ = 0;
  // The items in bins, bin by bin; where each bin starts; and the room of the last.
  std::vector<uint32_t> taken_;
  std::vector<size_t> starts_;
  uint32_t room_ = 0;
};

}  // namespace

Completion CompleteBins(const Kinds& kinds, std::span<const uint32_t> demand, size_t bins,
                        uint64_t& steps, const std::stop_token& stop) {
  return Search(kinds, demand).Run(bins, steps, stop);
}

}  // namespace batchplan
