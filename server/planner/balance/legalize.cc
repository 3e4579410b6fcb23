#include "server/planner/balance/legalize.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "absl/container/btree_set.h"

namespace batchplan {
namespace {

constexpr uint64_t kUnitsAStep = 2;
// For each that is left over, once the allowance is spent.
constexpr uint64_t kLeastStepsEach = 16;
// Bins that are tried as receivers of one step.
constexpr int kMaxReceivers = 400;

class Legalizer {
 public:
  Legalizer(uint32_t begin, uint32_t end, uint64_t& steps, Filling& filling)
      : problem_(filling.problem()), begin_(begin), end_(end), steps_(steps), filling_(filling) {}

  void Place(std::span<const uint32_t> positions) {
    Collect([&](uint32_t bin) { return filling_[bin].sequences > 0; });
    for (uint32_t position : positions) {
      const uint32_t bin = BinFor(position);
      rooms_.erase({filling_[bin].room, bin});
      filling_.Place(position, bin);
      if (filling_[bin].sequences > 0) rooms_.emplace(filling_[bin].room, bin);
    }
  }

  bool Run() {
    Collect([](uint32_t) { return true; });
    while (rooms_.begin()->first < 0) {
      if (!Relieve(rooms_.begin()->second)) return false;
    }
    for (const auto& [room, bin] : rooms_) {
      if (filling_.IsOverfull(bin)) return false;  // of sequences
    }
    return true;
  }

 private:
  // `out` leaves for `receiver`, and `in`, if any, comes back.
  struct Step {
    uint32_t out = 0;
    uint32_t in = Filling::kUnplaced;
    uint32_t receiver = 0;
    int64_t relief = 0;
  };

  template <typename Condition>
  void Collect(Condition condition) {
    rooms_.clear();
    for (uint32_t bin = begin_; bin < end_; ++bin) {
      if (condition(bin)) rooms_.emplace(filling_[bin].room, bin);
    }
  }

  // Of those that may take a sequence more; any bin if there is none.
  uint32_t BinFor(uint32_t position) {
    if (rooms_.empty()) return begin_;
    auto found = rooms_.lower_bound({problem_.length[position], 0});
    while (found != rooms_.end() && !filling_.Holds(found->second, position)) {
      found = steps_ > 0 ? std::next(found) : rooms_.end();
      steps_ -= std::min<uint64_t>(steps_, 1);
    }
    return found != rooms_.end() ? found->second : rooms_.rbegin()->second;
  }

  template <typename Change>
  void Update(uint32_t bin, Change change) {
    rooms_.erase({filling_[bin].room, bin});
    change();
    rooms_.emplace(filling_[bin].room, bin);
  }

  bool Relieve(uint32_t bin) {
    const int64_t overflow = -filling_[bin].room;
    Step best;
    int receivers = 0;
    for (auto found = rooms_.rbegin(); found != rooms_.rend() && receivers < kMaxReceivers;
         ++found, ++receivers) {
      if (found->first <= 0) break;
      TryReceiver(bin, found->second, overflow, best);
      if (best.relief == overflow || steps_ == 0) break;
    }
    if (best.relief == 0) return false;
    Update(bin, [&] {
      Update(best.receiver, [&] {
        filling_.Move(best.out, best.receiver);
        if (best.in != Filling::kUnplaced) filling_.Move(best.in, bin);
      });
    });
    return true;
  }

  void TryReceiver(uint32_t bin, uint32_t receiver, int64_t overflow, Step& best) {
    const Filling::Load& to = filling_[receiver];
    const Filling::Load& from = filling_[bin];
    for (uint32_t out : filling_.Members(bin)) {
      const int64_t out_length = problem_.length[out];
      const int64_t out_count = problem_.count[out];
      if (steps_ == 0) return;
      steps_ -= std::min(steps_, 1 + filling_.Members(receiver).size());
      if (out_length <= to.room && out_count <= to.sequences && filling_.Members(bin).size() > 1) {
        Consider({.out = out, .receiver = receiver, .relief = out_length}, overflow, best);
      }
      for (uint32_t in : filling_.Members(receiver)) {
        const int64_t relief = out_length - problem_.length[in];
        if (relief <= 0 || relief > to.room) continue;
        const int64_t extra = out_count - problem_.count[in];
        if (extra > to.sequences || -extra > from.sequences) continue;
        Consider({.out = out, .in = in, .receiver = receiver, .relief = relief}, overflow, best);
      }
    }
  }

  // The smallest relief that cures, else the largest.
  static void Consider(const Step& step, int64_t overflow, Step& best) {
    const bool better = best.relief >= overflow
                            ? step.relief >= overflow && step.relief < best.relief
                            : step.relief > best.relief;
    if (better) best = step;
  }

  const Problem& problem_;
  const uint32_t begin_;
  const uint32_t end_;
  uint64_t& steps_;
  Filling& filling_;
  absl::btree_set<std::pair<int64_t, uint32_t>> rooms_;  // (room, bin)
};

}  // namespace

bool PlaceLeftOver(std::span<const uint32_t> left_over, uint32_t begin, uint32_t end,
                   uint64_t steps, Filling& filling, const Allowance& allowance) {
  if (left_over.empty()) return true;
  SearchSteps search(allowance, steps, kUnitsAStep, kLeastStepsEach * left_over.size());
  Legalizer legalizer(begin, end, search.left, filling);
  legalizer.Place(left_over);
  return legalizer.Run();
}

}  // namespace batchplan
