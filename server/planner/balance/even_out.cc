// Local search for a low sum of slot maxima.
//
// The bins sorted by cost are cut into slots, `ranks` bins each: for given bins no other division
// has a lower sum. A slot's target is its mean, or its costliest item if that is more, since
// nothing can bring the slot below that item. In a round, the bin furthest over its target gives to
// those furthest under theirs. Among all moves of one item and exchanges of one for one that keep
// the limits of both bins, the search makes the one whose transfer of cost is closest to half of
// the gap between the two deviations. Once nothing helps, one item may be exchanged for two.
// Members of a bin are sorted by cost, so that a sweep over both lists finds the partner of each
// item. A receiver that has refused several givers is left out until it changes. So are, with
// skip_stuck_slots, the givers of a slot whose costliest one nobody relieves. After the round slots
// are cut anew. The search ends after three rounds that gain next to nothing, and the best filling
// met is the result.

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "server/planner/balance/bin_filling.h"
#include "server/planner/balance/few_items.h"
#include "server/planner/packing/even_counts.h"
#include "server/planner/packing/orders.h"

namespace batchplan {
namespace {

// Bins that are tried as receivers of one giver.
constexpr int kMaxReceivers = 100;
// If the best exchange breaks a limit, how many are tried on either side of it.
constexpr int kMaxNeighbors = 4;
// Rounds that gain next to nothing before the search ends.
constexpr int kMaxIdleRounds = 3;
// 1 / kNegligible of the step time counts as next to nothing.
constexpr uint64_t kNegligible = 100000;
// Steps between two looks at the stop token.
constexpr uint64_t kStepsToStop = 1024;
constexpr uint64_t kTicksAStep = 16;
// The cost of trying a receiver, even if no step is taken there.
constexpr uint64_t kTicksAReceiver = 20;

constexpr uint32_t kNone = Filling::kUnplaced;

// The bins by slot: slot s is the `ranks` entries from s * ranks on.
std::vector<uint32_t> BySlots(const Filling& filling, RankRule rule) {
  const uint32_t ranks = filling.task().ranks;
  const uint32_t slots = filling.task().slots;
  if (rule == RankRule::kFree) {
    std::vector<uint64_t> costs(filling.bins());
    for (uint32_t bin = 0; bin < costs.size(); ++bin) costs[bin] = filling[bin].cost;
    return DescendingOrder(costs);
  }
  std::vector<uint32_t> order(filling.bins());
  std::iota(order.begin(), order.end(), 0u);
  const auto costlier = [&](uint32_t a, uint32_t b) {
    return std::pair(filling[b].cost, a) < std::pair(filling[a].cost, b);
  };
  std::vector<uint32_t> by_slots(order.size());
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const std::span<uint32_t> own = std::span(order).subspan(size_t{rank} * slots, slots);
    std::sort(own.begin(), own.end(), costlier);
    for (uint32_t slot = 0; slot < slots; ++slot) by_slots[slot * ranks + rank] = own[slot];
  }
  return by_slots;
}

uint64_t TimeOf(const Filling& filling, std::span<const uint32_t> by_slots) {
  uint64_t time = 0;
  for (size_t begin = 0; begin < by_slots.size(); begin += filling.task().ranks) {
    uint64_t most = 0;
    for (uint32_t bin : by_slots.subspan(begin, filling.task().ranks)) {
      most = std::max(most, filling[bin].cost);
    }
    time += most;
  }
  return time;
}

class EvenOutSearch {
 public:
  EvenOutSearch(const EvenOutOptions& options, Filling& filling)
      : options_(options),
        task_(filling.task()),
        filling_(filling),
        domains_(options.ranks == RankRule::kFixed ? task_.ranks : 1),
        targets_(filling.bins()),
        slot_begin_(filling.bins()),
        may_give_(filling.bins()),
        refusals_(filling.bins()),
        search_(options.allowance, options.steps, kTicksAStep, 2 * uint64_t{task_.size()}),
        steps_(search_.left) {
    if (options.ranks != RankRule::kEqualCounts) return;
    std::vector<uint64_t> counts(task_.ranks, 0);
    for (uint32_t position = 0; position < task_.size(); ++position) {
      counts[RankOf(filling.BinOf(position))] += task_.count[position];
    }
    counts_ = KeptCounts(std::move(counts));
  }

  uint64_t Run() {
    std::vector<uint32_t> best_bin_of;
    uint64_t best = ~uint64_t{0};
    uint64_t last = best;
    for (int idle = 0; idle < kMaxIdleRounds;) {
      by_slots_ = BySlots(filling_, options_.ranks);
      const uint64_t time = TimeOf(filling_, by_slots_);
      if (time < best) {
        best = time;
        best_bin_of.assign(filling_.bin_of().begin(), filling_.bin_of().end());
      }
      if (best <= options_.enough || steps_ == 0) break;
      idle = last - time > time / kNegligible && time < last ? 0 : idle + 1;
      last = time;
      SetTargets();
      tolerance_ = static_cast<int64_t>(time / kNegligible / task_.slots);
      bool changed = false;
      for (uint32_t domain = 0; domain < domains_; ++domain) changed |= Rebalance(domain);
      if (!changed && pairs_ == options_.pairs) break;
      pairs_ = options_.pairs;
    }
    for (uint32_t position = 0; position < task_.size(); ++position) {
      if (filling_.BinOf(position) != best_bin_of[position]) {
        filling_.Move(position, best_bin_of[position]);
      }
    }
    options_.allowance.Spend(kTicksAReceiver * receivers_tried_ + gathered_);
    return best;
  }

 private:
  using Entry = std::pair<int64_t, uint32_t>;  // (deviation, bin)

  // `out` goes from giver to receiver, and `in`, if any, comes back.
  struct Exchange {
    std::array<uint32_t, 2> out = {kNone, kNone};
    std::array<uint32_t, 2> in = {kNone, kNone};
    int64_t error = 0;  // distance of the transfer from the ideal one
  };

  int64_t Deviation(uint32_t bin) const {
    return static_cast<int64_t>(filling_[bin].cost) - targets_[bin];
  }

  // The bins of the slot that begins at by_slots_[begin].
  std::span<const uint32_t> Slot(size_t begin) const {
    return std::span(by_slots_).subspan(begin, task_.ranks);
  }

  void SetTargets() {
    const uint32_t ranks = task_.ranks;
    for (uint32_t begin = 0; begin < by_slots_.size(); begin += ranks) {
      const std::span<const uint32_t> slot = Slot(begin);
      uint64_t sum = 0;
      uint64_t costliest = 0;
      for (uint32_t bin : slot) {
        sum += filling_[bin].cost;
        costliest = std::max(costliest, task_.cost[filling_.Members(bin).front()]);
      }
      for (uint32_t bin : slot) {
        targets_[bin] = static_cast<int64_t>(std::max(sum / ranks, costliest));
        slot_begin_[bin] = begin;
      }
    }
  }

  bool Rebalance(uint32_t domain) {
    const uint32_t size = filling_.bins() / domains_;
    OpenAll(domain * size, (domain + 1) * size);
    bool changed = false;
    while (steps_ > 0 && !receivers_.empty()) {
      if (options_.allowance.stop_requested()) steps_ = 0;
      const Entry* const next = NextGiver();
      if (next == nullptr || next->first - receivers_.begin()->first <= tolerance_) break;
      const uint32_t giver = next->second;
      if (Give(giver)) {
        changed = true;
      } else {
        CloseGiver(giver);
      }
    }
    return changed;
  }

  // The giver finds nobody to give to and may not give again until it changes. Its slot takes no
  // less time then, whatever the others of the slot give.
  void CloseGiver(uint32_t giver) {
    may_give_[giver] = false;
    if (!options_.skip_stuck_slots || !pairs_) return;
    for (const uint32_t bin : Slot(slot_begin_[giver])) may_give_[bin] = false;
  }

  // Opens the bins [begin, end) and no others. In order, because that is quicker.
  void OpenAll(uint32_t begin, uint32_t end) {
    int64_t most = Deviation(begin);
    for (uint32_t bin = begin; bin < end; ++bin) most = std::max(most, Deviation(bin));
    std::vector<uint64_t> below_most;
    below_most.reserve(end - begin);
    for (uint32_t bin = begin; bin < end; ++bin) {
      below_most.push_back(static_cast<uint64_t>(most - Deviation(bin)));
    }
    givers_.clear();
    givers_.reserve(end - begin);
    for (const uint32_t place : DescendingOrder(below_most)) {
      givers_.emplace_back(Deviation(begin + place), begin + place);
    }
    changed_givers_.clear();
    receivers_ = absl::btree_set<Entry>(givers_.begin(), givers_.end());
    std::fill(refusals_.begin() + begin, refusals_.begin() + end, 0);
    std::fill(may_give_.begin() + begin, may_give_.begin() + end, true);
  }
  void Open(uint32_t bin) {
    refusals_[bin] = 0;
    may_give_[bin] = true;
    changed_givers_.emplace_back(Deviation(bin), bin);
    std::push_heap(changed_givers_.begin(), changed_givers_.end());
    receivers_.emplace(Deviation(bin), bin);
  }
  void Close(uint32_t bin) { receivers_.erase({Deviation(bin), bin}); }

  bool IsGiver(const Entry& entry) const {
    return may_give_[entry.second] && Deviation(entry.second) == entry.first;
  }

  // The bin furthest over its target of those that may give; none if there is none.
  const Entry* NextGiver() {
    while (!givers_.empty() && !IsGiver(givers_.back())) givers_.pop_back();
    while (!changed_givers_.empty() && !IsGiver(changed_givers_.front())) {
      std::pop_heap(changed_givers_.begin(), changed_givers_.end());
      changed_givers_.pop_back();
    }
    const Entry* const first = givers_.empty() ? nullptr : &givers_.back();
    if (changed_givers_.empty()) return first;
    const Entry* const changed = &changed_givers_.front();
    return first == nullptr || *first < *changed ? changed : first;
  }

  // Gives to the first receiver where it helps, those furthest under their targets first.
  bool Give(uint32_t giver) {
    const int64_t over = Deviation(giver);
    GatherCosts(filling_.Members(giver), gives_);
    int tried = 0;
    for (auto found = receivers_.begin(); found != receivers_.end() && tried < kMaxReceivers;
         ++tried) {
      const auto [under, receiver] = *found;
      if (receiver == giver || over - under <= tolerance_ || steps_ == 0) return false;
      ++receivers_tried_;
      const Exchange exchange = BestExchange(giver, receiver, over - under);
      if (exchange.out[0] == kNone) {
        found =
            ++refusals_[receiver] == options_.patience ? receivers_.erase(found) : std::next(found);
        continue;
      }
      Close(giver);
      Close(receiver);
      for (uint32_t out : exchange.out) {
        if (out != kNone) Move(out, giver, receiver);
      }
      for (uint32_t in : exchange.in) {
        if (in != kNone) Move(in, receiver, giver);
      }
      Open(giver);
      Open(receiver);
      return true;
    }
    return false;
  }

  // The best exchange that brings the two deviations, which are `gap` apart, closer together by
  // more than the tolerance. The giver's costs are in gives_.
  Exchange BestExchange(uint32_t giver, uint32_t receiver, int64_t gap) {
    wanted_ = gap / 2;
    best_ = Exchange();
    best_.error = wanted_ - tolerance_ / 2;
    if (IsInVain(filling_.Members(receiver))) return best_;
    GatherCosts(filling_.Members(receiver), takes_);
    OneForOne(giver, receiver);
    if (best_.out[0] != kNone || !pairs_ || IsOver()) return best_;
    OneForTwo(giver, receiver);
    if (!IsOver()) TwoForOne(giver, receiver);
    return best_;
  }

  // Whether no exchange of these items, single or with pairs_ in pairs, transfers what is wanted.
  // It is not known of many items, nor if the steps run out.
  bool IsInVain(std::span<const uint32_t> takes) {
    if (steps_ < kStepsOfFewItems || best_.error <= tolerance_) return false;
    const auto look = [&]<bool kPairs>(std::bool_constant<kPairs>) {
      return StepsInVain<kPairs>(
          std::span<const int64_t>(gives_).first(gives_.size() - 1), takes.size(),
          [&](size_t i) { return Cost(takes[i]); }, wanted_ - best_.error + 1,
          wanted_ + best_.error - 1);
    };
    const std::optional<uint64_t> steps = pairs_ ? look(std::true_type()) : look(std::false_type());
    if (!steps) return false;
    gathered_ += takes.size();
    UseSteps(*steps);
    return true;
  }

  // Tries to move one item, and to exchange one for one.
  void OneForOne(uint32_t giver, uint32_t receiver) {
    const std::span<const uint32_t> gives = filling_.Members(giver);
    // A cheaper item wants a cheaper one back: each search goes on where the last one ended.
    size_t middle = 0;
    for (size_t out = 0; out < gives.size(); ++out) {
      const int64_t in = gives_[out] - wanted_;
      if (in < -best_.error) return;  // and so do all that follow
      if (std::abs(in) < best_.error && gives.size() > 1) TryMove(giver, receiver, gives[out]);
      while (takes_[middle] > in) ++middle;
      if (IsNear(in, middle) || (middle > 0 && IsNear(in, middle - 1))) {
        TryOneFor(giver, receiver, {gives[out], kNone}, kNone, 0, middle);
      }
      UseSteps(1);
      if (IsOver()) return;
    }
  }

  // Tries two items of the receiver for one of the giver.
  void OneForTwo(uint32_t giver, uint32_t receiver) {
    const std::span<const uint32_t> gives = filling_.Members(giver);
    const std::span<const uint32_t> takes = filling_.Members(receiver);
    if (takes.size() < 2) return;
    size_t begin = 0;
    for (size_t out = 0; out < gives.size() && !IsOver(); ++out) {
      const int64_t most = gives_[out] - wanted_ + best_.error;
      if (most < 0) return;
      // Skips items that bring back too much by themselves. The step for `out` is used above.
      while (takes_[begin] > most) ++begin;
      const size_t end = std::min(takes.size() - 1, begin + steps_);
      // The cheaper the first is, the costlier a second is wanted.
      size_t middle = takes.size();
      size_t first = begin;
      for (; first < end && best_.error > tolerance_; ++first) {
        const int64_t in = gives_[out] - takes_[first] - wanted_;
        while (middle > first + 1 && takes_[middle - 1] <= in) --middle;
        middle = std::max(middle, first + 1);
        if (IsNear(in, middle) || (middle > first + 1 && IsNear(in, middle - 1))) {
          TryOneFor(giver, receiver, {gives[out], kNone}, takes[first], first + 1, middle);
        }
      }
      if (first > begin) UseSteps(first - begin);
    }
  }

  // Tries one item of the receiver for two of the giver.
  void TwoForOne(uint32_t giver, uint32_t receiver) {
    const std::span<const uint32_t> gives = filling_.Members(giver);
    for (size_t i = 0; i + 1 < gives.size() && !IsOver(); ++i) {
      if (gives_[i] + gives_[i + 1] < wanted_ - best_.error) return;
      const size_t end = std::min(gives.size(), i + 1 + steps_);
      size_t middle = 0;
      size_t j = i + 1;
      for (; j < end && best_.error > tolerance_; ++j) {
        const int64_t in = gives_[i] + gives_[j] - wanted_;
        if (in < -best_.error) break;
        while (takes_[middle] > in) ++middle;
        if (IsNear(in, middle) || (middle > 0 && IsNear(in, middle - 1))) {
          TryOneFor(giver, receiver, {gives[i], gives[j]}, kNone, 0, middle);
        }
      }
      if (j > i + 1) UseSteps(j - (i + 1));
    }
  }

  // The costs of the items, descending, with a sentinel below any wanted cost behind them.
  void GatherCosts(std::span<const uint32_t> positions, std::vector<int64_t>& costs) {
    gathered_ += positions.size();
    costs.resize(positions.size() + 1);
    for (size_t i = 0; i < positions.size(); ++i) costs[i] = Cost(positions[i]);
    costs.back() = -(int64_t{1} << 62);
  }

  // Whether an item comes closer to the wanted cost than the best exchange.
  bool IsNear(int64_t wanted, size_t take) const {
    return std::abs(wanted - takes_[take]) < best_.error;
  }

  // Whether the search at one receiver ends.
  bool IsOver() const { return steps_ == 0 || best_.error <= tolerance_; }

  void TryMove(uint32_t giver, uint32_t receiver, uint32_t out) {
    if (!filling_.Holds(receiver, out) || !MayGive(giver, receiver, task_.count[out])) return;
    best_ = {.out = {out, kNone}, .error = std::abs(Cost(out) - wanted_)};
  }

  // Tries `out` for `first`, if any, and one of the receiver's items from number `begin` on: the
  // one that comes closest, searched from number `middle` to either side.
  void TryOneFor(uint32_t giver, uint32_t receiver, std::array<uint32_t, 2> out, uint32_t first,
                 size_t begin, size_t middle) {
    const std::span<const uint32_t> takes = filling_.Members(receiver);
    ItemSize moved = task_.SizeOf(out[0]);
    if (out[1] != kNone) moved = moved + task_.SizeOf(out[1]);
    if (first != kNone) moved = moved - task_.SizeOf(first);
    const auto try_one = [&](uint32_t in) {
      const int64_t error = std::abs(moved.cost - Cost(in) - wanted_);
      if (error >= best_.error) return true;
      const ItemSize change = moved - task_.SizeOf(in);
      if (!MayGive(giver, receiver, change.sequences)) return false;
      if (!filling_[receiver].Holds(change) || !filling_[giver].Holds(-change)) return false;
      best_ = {.out = out, .in = {in, first}, .error = error};
      return true;
    };
    int misses = 0;
    for (size_t in = middle; in < takes.size() && misses < kMaxNeighbors; ++in, ++misses) {
      if (try_one(takes[in])) break;
    }
    misses = 0;
    for (size_t in = middle; in > begin && misses < kMaxNeighbors; ++misses) {
      if (try_one(takes[--in])) break;
    }
  }

  // Uses up steps. A request to stop uses up all.
  void UseSteps(uint64_t steps) {
    const uint64_t left = steps_ - steps;
    const bool look = left / kStepsToStop != steps_ / kStepsToStop;
    steps_ = look && options_.allowance.stop_requested() ? 0 : left;
  }

  uint32_t RankOf(uint32_t bin) const { return bin / task_.slots; }

  void Move(uint32_t position, uint32_t from, uint32_t to) {
    filling_.Move(position, to);
    counts_.Give(RankOf(from), RankOf(to), task_.count[position]);
  }

  // Whether this many more sequences may be given than come back.
  bool MayGive(uint32_t giver, uint32_t receiver, int64_t sequences) const {
    return options_.ranks != RankRule::kEqualCounts ||
           counts_.Allow(RankOf(giver), RankOf(receiver), sequences);
  }

  int64_t Cost(uint32_t position) const { return static_cast<int64_t>(task_.cost[position]); }

  const EvenOutOptions& options_;
  const SortedTask& task_;
  Filling& filling_;
  const uint32_t domains_;
  // Of the ranks' sequences, if these must be equal.
  KeptCounts counts_;
  bool pairs_ = false;
  int64_t wanted_ = 0;
  Exchange best_;
  std::vector<int64_t> gives_;  // Costs of the giver's items, and of the receiver's.
  std::vector<int64_t> takes_;
  std::vector<uint32_t> by_slots_;
  std::vector<int64_t> targets_;
  std::vector<uint32_t> slot_begin_;  // of each bin's slot, in by_slots_
  std::vector<bool> may_give_;
  std::vector<uint32_t> refusals_;
  SearchSteps search_;
  uint64_t& steps_;
  uint64_t receivers_tried_ = 0;
  // Costs, a tick each.
  uint64_t gathered_ = 0;
  int64_t tolerance_ = 0;
  // The bins that may give, ascending, as they were at first, and a heap of those that have
  // changed. An entry counts as long as its bin may give and its deviation is that of the bin.
  std::vector<Entry> givers_;
  std::vector<Entry> changed_givers_;
  absl::btree_set<Entry> receivers_;
};

}  // namespace

uint64_t EvenOut(const EvenOutOptions& options, Filling& filling) {
  return EvenOutSearch(options, filling).Run();
}

}  // namespace batchplan
