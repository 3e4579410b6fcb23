// Local search over partitions (even_parts.h): the heaviest part exchanges items with lighter ones,
// under rules that the caller knows (ExchangeSearch) or by number alone (RefineParts).

#ifndef BATCHPLAN_SERVER_PLANNER_BALANCE_EXCHANGE_SEARCH_H_
#define BATCHPLAN_SERVER_PLANNER_BALANCE_EXCHANGE_SEARCH_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "server/planner/packing/orders.h"
#include "server/planner/request/allowance.h"

namespace batchplan {

// An item of the heavy part for one of the light part, or for nothing.
struct Exchange {
  static constexpr uint32_t kNothing = std::numeric_limits<uint32_t>::max();

  uint32_t out = kNothing;
  uint32_t in = kNothing;
};

// Lowers the largest sum of a partition until it is at most `goal`, no exchange lowers it, the
// steps or the allowance are used up, or a stop is requested. A move is one exchange, or two at
// once, between the heaviest part and one other: up to two items for two. Among the legal moves it
// makes the one whose transfer of load is nearest to half of the gap between the two sums. The
// lightest parts are asked first. The multiset of sums falls with every move, so the search ends.
//
// `Rules` says which moves are legal and keeps what it needs to know for that:
//   bool MayMove() const;   whether an exchange with nothing on one side is ever legal
//   bool Allow(uint32_t heavy, uint32_t light, std::span<const Exchange> move) const;
//   void Apply(uint32_t heavy, uint32_t light, std::span<const Exchange> move);
//
// A step is a look at an item or a pair of items, or a shift of kShiftedInAStep items in a list.
// Needs a total of loads below 2^62. Deterministic. O(n + parts log parts) to set up, O(1) a step
// and O(log parts) a move; O(parts + items of two parts) memory beyond the parts' lists.
template <typename Rules>
class ExchangeSearch {
 public:
  // `part_of` and `rules` are kept up to date.
  ExchangeSearch(std::span<const uint64_t> loads, uint32_t parts, std::vector<uint32_t>& part_of,
                 Rules& rules)
      : part_of_(part_of),
        rules_(rules),
        order_(DescendingOrder(loads)),
        loads_(loads.size()),
        members_(parts),
        sums_(parts, 0) {
    std::reverse(order_.begin(), order_.end());
    for (uint32_t place = 0; place < order_.size(); ++place) {
      const uint32_t part = part_of[order_[place]];
      loads_[place] = static_cast<int64_t>(loads[order_[place]]);
      sums_[part] += loads_[place];
      members_[part].push_back(place);
    }
    for (uint32_t part = 0; part < parts; ++part) by_sum_.emplace(sums_[part], part);
  }

  void Run(uint64_t goal, uint64_t steps, const Allowance& allowance) {
    goal_ = static_cast<int64_t>(goal);
    SearchSteps search(allowance, steps, kTicksAStep);
    steps_ = search.left;
    allowance_ = &allowance;
    while (steps_ > 0 && by_sum_.rbegin()->first > goal_ && RelieveHeaviest()) {
    }
    search.left = steps_;
  }

 private:
  // Positions in the order of ascending load, or kNothing.
  struct Places {
    uint32_t out = Exchange::kNothing;
    uint32_t in = Exchange::kNothing;
  };

  struct Move {
    // By how much the larger of the two sums falls; 0: no move.
    int64_t relief = 0;
    int64_t transfer = 0;
    uint32_t light = 0;
    size_t size = 0;
    std::array<Places, 2> exchanges = {};
  };

  // An exchange as a half of a move of two.
  struct Half {
    int64_t transfer;
    Places places;

    friend bool operator<(const Half& a, const Half& b) {
      return std::tuple(a.transfer, a.places.out, a.places.in) <
             std::tuple(b.transfer, b.places.out, b.places.in);
    }
  };

  // Lighter parts that are asked before the best answer is taken.
  static constexpr size_t kPartners = 8;
  // Fewer are asked for moves of two exchanges, which are slower to find.
  static constexpr size_t kPairPartners = 4;
  // Items of a part that take part in moves of two exchanges.
  static constexpr size_t kSample = 24;
  static constexpr uint64_t kTicksAStep = 8;
  // Items that are copied in the time that it takes to look at one.
  static constexpr size_t kShiftedInAStep = 64;

  // One move of the heaviest part; false if there is none.
  bool RelieveHeaviest() {
    heavy_ = by_sum_.rbegin()->second;
    const int64_t widest_gap = sums_[heavy_] - by_sum_.begin()->first;
    best_ = {};
    AskPartners(kPartners, [this] { FindExchange(); });
    // A single exchange that closes a fair part of the gap is good enough.
    if (!Cures() && best_.relief < widest_gap / 4) {
      AskPartners(kPairPartners, [this] { FindPair(); });
    }
    if (best_.relief == 0) return false;
    Apply();
    ++moves_;
    return true;
  }

  template <typename Find>
  void AskPartners(size_t partners, Find find) {
    size_t asked = 0;
    for (const auto& [sum, part] : by_sum_) {
      // Relief is at most half of the gap, and the gaps only get narrower.
      gap_ = sums_[heavy_] - sum;
      if (allowance_->stop_requested()) steps_ = 0;
      if (gap_ / 2 <= best_.relief || steps_ == 0 || Cures()) return;
      if (asked++ >= partners && best_.relief > 0) return;
      light_ = part;
      find();
    }
  }

  // Whether the best move leaves both parts at the goal or below.
  bool Cures() const {
    return best_.relief > 0 && sums_[heavy_] - best_.transfer <= goal_ &&
           sums_[best_.light] + best_.transfer <= goal_;
  }

  void Charge(uint64_t steps) { steps_ -= std::min(steps_, steps); }

  int64_t LoadAt(uint32_t place) const { return place == Exchange::kNothing ? 0 : loads_[place]; }

  int64_t ReliefOf(int64_t transfer) const { return std::min(transfer, gap_ - transfer); }

  // Takes the move if it is legal and better than the best.
  bool Offer(std::array<Places, 2> exchanges, size_t size, int64_t transfer) {
    Charge(1);
    const int64_t relief = ReliefOf(transfer);
    if (relief <= best_.relief) return false;
    std::array<Exchange, 2> move;
    for (size_t i = 0; i < size; ++i) move[i] = ItemsOf(exchanges[i]);
    if (!rules_.Allow(heavy_, light_, std::span(move).first(size))) return false;
    best_ = {.relief = relief,
             .transfer = transfer,
             .light = light_,
             .size = size,
             .exchanges = exchanges};
    return true;
  }

  Exchange ItemsOf(const Places& places) const {
    const auto item = [&](uint32_t place) {
      return place == Exchange::kNothing ? place : order_[place];
    };
    return {.out = item(places.out), .in = item(places.in)};
  }

  // The best single exchange of the two parts. For each item of the heavy part, those of the light
  // one are tried from the ideal load on in both directions, in growing strides while none is
  // legal.
  void FindExchange() {
    const std::vector<uint32_t>& light = members_[light_];
    const auto size = static_cast<int64_t>(light.size());
    const int64_t first = rules_.MayMove() ? -1 : 0;
    const auto place_at = [&](int64_t i) {
      return i < 0 ? Exchange::kNothing : light[static_cast<size_t>(i)];
    };
    int64_t ideal = 0;
    for (const uint32_t out : members_[heavy_]) {
      // From `ideal` on, the transfer is at most half of the gap.
      const int64_t before = ideal;
      while (ideal < size && loads_[out] - LoadAt(place_at(ideal)) > gap_ / 2) ++ideal;
      Charge(static_cast<uint64_t>(ideal - before));
      const auto try_at = [&](int64_t i) {
        const int64_t transfer = loads_[out] - LoadAt(place_at(i));
        if (ReliefOf(transfer) <= best_.relief) return true;
        return Offer({{{.out = out, .in = place_at(i)}}}, 1, transfer);
      };
      for (int64_t i = ideal, stride = 1; i < size && !try_at(i); i += stride, stride *= 2) {
      }
      for (int64_t i = ideal - 1, stride = 1; i >= first && !try_at(i); i -= stride, stride *= 2) {
      }
      Charge(1);
      if (steps_ == 0 || best_.relief >= gap_ / 2 - gap_ / 16) return;
    }
  }

  // The best two exchanges at once: the single ones between samples of the two parts, sorted by
  // transfer, and for each the partner that brings both nearest to half of the gap.
  void FindPair() {
    CollectHalves();
    const size_t size = halves_.size();
    Charge(size);
    size_t partner = size;
    for (size_t i = 0; i < size && steps_ > 0; ++i) {
      while (partner > 0 && halves_[i].transfer + halves_[partner - 1].transfer > gap_ / 2) {
        --partner;
      }
      if (partner + 1 < i) return;  // from here on, the same pairs the other way round
      const size_t end = std::min(size, partner + 2);
      for (size_t j = partner > 2 ? partner - 2 : 0; j < end; ++j) {
        const Places& a = halves_[i].places;
        const Places& b = halves_[j].places;
        if (Share(a.out, b.out) || Share(a.in, b.in)) continue;
        Offer({a, b}, 2, halves_[i].transfer + halves_[j].transfer);
      }
    }
  }

  static bool Share(uint32_t a, uint32_t b) { return a == b && a != Exchange::kNothing; }

  void CollectHalves() {
    Sample(members_[heavy_], out_sample_);
    Sample(members_[light_], in_sample_);
    halves_.clear();
    for (const uint32_t out : out_sample_) {
      for (const uint32_t in : in_sample_) {
        if (out == in) continue;  // nothing for nothing
        halves_.push_back({.transfer = LoadAt(out) - LoadAt(in), .places = {out, in}});
      }
    }
    std::sort(halves_.begin(), halves_.end());
  }

  // Evenly spaced, from move to move others.
  void Sample(const std::vector<uint32_t>& members, std::vector<uint32_t>& sample) const {
    sample.clear();
    const size_t stride = (members.size() + kSample - 1) / kSample;
    for (size_t i = stride == 0 ? 0 : moves_ % stride; i < members.size(); i += stride) {
      sample.push_back(members[i]);
    }
    if (rules_.MayMove()) sample.push_back(Exchange::kNothing);
  }

  void Apply() {
    const uint32_t light = best_.light;
    std::array<Exchange, 2> move;
    for (size_t i = 0; i < best_.size; ++i) {
      const Places& places = best_.exchanges[i];
      move[i] = ItemsOf(places);
      Transfer(places.out, heavy_, light);
      Transfer(places.in, light, heavy_);
    }
    rules_.Apply(heavy_, light, std::span(move).first(best_.size));
    SetSum(heavy_, sums_[heavy_] - best_.transfer);
    SetSum(light, sums_[light] + best_.transfer);
  }

  void Transfer(uint32_t place, uint32_t from, uint32_t to) {
    if (place == Exchange::kNothing) return;
    std::vector<uint32_t>& source = members_[from];
    std::vector<uint32_t>& target = members_[to];
    source.erase(std::lower_bound(source.begin(), source.end(), place));
    target.insert(std::lower_bound(target.begin(), target.end(), place), place);
    Charge((source.size() + target.size()) / kShiftedInAStep);
    part_of_[order_[place]] = to;
  }

  void SetSum(uint32_t part, int64_t sum) {
    by_sum_.erase({sums_[part], part});
    sums_[part] = sum;
    by_sum_.emplace(sum, part);
  }

  std::vector<uint32_t>& part_of_;
  Rules& rules_;
  std::vector<uint32_t> order_;                    // item at each place, by ascending load
  std::vector<int64_t> loads_;                     // by place
  std::vector<std::vector<uint32_t>> members_;     // places of each part, ascending
  std::vector<int64_t> sums_;                      // of each part
  std::set<std::pair<int64_t, uint32_t>> by_sum_;  // (sum, part)
  int64_t goal_ = 0;
  uint64_t steps_ = 0;
  const Allowance* allowance_ = nullptr;
  size_t moves_ = 0;

  // The move that is looked for.
  uint32_t heavy_ = 0;
  uint32_t light_ = 0;
  int64_t gap_ = 0;
  Move best_;
  std::vector<uint32_t> out_sample_;
  std::vector<uint32_t> in_sample_;
  std::vector<Half> halves_;
};

// What RefineParts must preserve.
struct RefineRules {
  // Sequences that stand behind each load; empty: one each.
  std::span<const uint32_t> counts = {};
  // Every part keeps its number of sequences. If the parts do not divide the total, a part with one
  // more than another may give it one.
  bool equal_counts = false;
  // The fewest loads of a part.
  uint32_t least_each = 0;
};

// Makes a partition more even by ExchangeSearch: exchanges up to two loads of the heaviest part for
// up to two of another until the largest sum is at most `goal`, nothing lowers it further, `steps`
// looks at loads and pairs of loads are used up, or the allowance ends. The largest sum never
// rises. Needs a total below 2^62. Deterministic. O(n + steps) time and O(log parts) for each part
// and each move, O(n + parts) memory.
std::vector<uint32_t> RefineParts(std::span<const uint64_t> loads, std::vector<uint32_t> part_of,
                                  uint32_t parts, const RefineRules& rules, uint64_t goal,
                                  uint64_t steps, const Allowance& allowance = {});

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_BALANCE_EXCHANGE_SEARCH_H_
