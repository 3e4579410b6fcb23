#include "server/planner/rows/row_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "server/planner/request/seeds.h"

namespace batchplan {
namespace {

// Ticks for a pair of bins, and for each of their items.
constexpr uint64_t kTicksAPair = 2000;
constexpr uint64_t kTicksAnItem = 200;

// Pairs from one look for a stop to the next.
constexpr uint64_t kPairsPerLook = 64;

// By how much a trade may lengthen the step at first, as a part of a mean row; and the part of all
// pairs, at the end, that may not lengthen it.
constexpr double kSlack = 0.02;
constexpr double kSettles = 0.3;

// A step within this part of the mean rank's work is short enough.
constexpr double kShortEnough = 5e-4;

// How many of the best estimated trades are worked out exactly.
constexpr size_t kMostExact = 3;

// The weight, in mean rows, of a row with twice its limit of a load.
constexpr double kExcessWeight = 100;

// The most pairs of bins that are tried to keep limits, for each bin; and the ticks for each item
// that this may take once the allowance is spent, if no other bins keep them.
constexpr uint64_t kTriesToMend = 64;
constexpr uint64_t kTicksToMend = 2000;

// `bin` without its items number out_begin .. out_end - 1 and with others.
Row Traded(const RowItems& items, const Row& bin, uint32_t out_begin, uint32_t out_end,
           std::span<const uint32_t> in) {
  std::vector<uint32_t> kept;
  kept.reserve(bin.items.size() + in.size());
  kept.insert(kept.end(), bin.items.begin(), bin.items.begin() + out_begin);
  kept.insert(kept.end(), bin.items.begin() + out_end, bin.items.end());
  const auto middle = static_cast<ptrdiff_t>(kept.size());
  kept.insert(kept.end(), in.begin(), in.end());
  std::inplace_merge(kept.begin(), kept.begin() + middle, kept.end());
  return BinOf(items, std::move(kept));
}

}  // namespace

RowSearch::RowSearch(const RowItems& items, const RowTerms& terms, std::vector<Row> bins,
                     uint64_t seed)
    : items_(&items),
      terms_(terms),
      bins_(std::move(bins)),
      bin_of_(items.size()),
      order_(bins_.size()),
      place_(bins_.size()),
      sums_(terms.ranks, 0),
      slot_times_(terms.slots),
      excess_(bins_.size()),
      random_(seed),
      finder_(items, terms.may_empty) {
  for (uint32_t bin = 0; bin < bins_.size(); ++bin) {
    for (const uint32_t item : bins_[bin].items) bin_of_[item] = bin;
  }
  CountSequences();
  for (const Row& bin : bins_) {
    excess_weight_ += kExcessWeight * bin.cost / static_cast<double>(bins_.size());
  }
  for (uint32_t item = 0; item < items.size() && !items.shares(); ++item) {
    mean_work_ += items.cost(item) / terms.ranks;
    for (size_t load = 0; load < items.searched_loads().size(); ++load) {
      mean_work_ += items.searched_loads()[load].per_unit * items.loads(item)[load] / terms.ranks;
    }
  }
  for (uint32_t bin = 0; bin < bins_.size(); ++bin) excess_.Set(bin, ExcessOf(items, bins_[bin]));
  Regroup();
  best_time_ = time_ = Time();
}

void RowSearch::CountSequences() {
  if (!terms_.keeps_counts) return;
  std::vector<uint64_t> counts(terms_.ranks, 0);
  for (uint32_t bin = 0; bin < bins_.size(); ++bin) counts[RankOf(bin)] += bins_[bin].sequences;
  counts_ = KeptCounts(std::move(counts));
}

uint64_t RowSearch::Random(uint64_t below) {
  random_ = MixSeed(random_, 1);
  return random_ % below;
}

// Sorts bins by cost, within ranks if items stay there, so that the bins of a slot are alike.
void RowSearch::Regroup() {
  if (terms_.synchronization == Synchronization::kAccumulated) {
    std::ranges::fill(sums_, 0);
    for (uint32_t bin = 0; bin < bins_.size(); ++bin) sums_[RankOf(bin)] += bins_[bin].cost;
    if (!terms_.fixed_slots) return;
  }
  OrderBins();
  for (uint32_t place = 0; place < order_.size(); ++place) place_[order_[place]] = place;
  for (size_t slot = 0; slot < terms_.slots; ++slot) slot_times_.Set(slot, SlotTime(slot));
}

void RowSearch::OrderBins() {
  if (terms_.fixed_slots) {
    for (uint32_t slot = 0; slot < terms_.slots; ++slot) {
      for (uint32_t rank = 0; rank < terms_.ranks; ++rank) {
        order_[size_t{slot} * terms_.ranks + rank] = rank * terms_.slots + slot;
      }
    }
    return;
  }
  const auto costlier = [&](uint32_t a, uint32_t b) {
    return std::pair(-bins_[a].cost, a) < std::pair(-bins_[b].cost, b);
  };
  std::iota(order_.begin(), order_.end(), 0u);
  if (!terms_.keeps_ranks && !terms_.keeps_counts) {
    std::ranges::sort(order_, costlier);
    return;
  }
  std::vector<uint32_t> by_rank = order_;
  for (uint32_t rank = 0; rank < terms_.ranks; ++rank) {
    const auto own = std::span(by_rank).subspan(size_t{rank} * terms_.slots, terms_.slots);
    std::ranges::sort(own, costlier);
    for (uint32_t slot = 0; slot < terms_.slots; ++slot) {
      order_[size_t{slot} * terms_.ranks + rank] = own[slot];
    }
  }
}

double RowSearch::Time() const {
  const double ranks =
      terms_.synchronization == Synchronization::kAccumulated ? std::ranges::max(sums_) : 0;
  return excess_weight_ * excess_.sum() + ranks + slot_times_.sum();
}

double RowSearch::SlotTime(size_t slot) const {
  double time = 0;
  if (terms_.synchronization == Synchronization::kLockstep) {
    for (size_t i = 0; i < terms_.ranks; ++i) {
      time = std::max(time, bins_[order_[slot * terms_.ranks + i]].cost);
    }
  }
  const std::span<const SearchedLoad> searched = items_->searched_loads();
  for (size_t load = 0; load < searched.size(); ++load) {
    if (searched[load].per_unit > 0) time += PhaseTime(slot, load);
  }
  return time;
}

double RowSearch::PhaseTime(size_t slot, size_t load) const {
  const SearchedLoad& searched = items_->searched_loads()[load];
  double most = 0;
  double largest = 0;
  double sum = 0;
  for (size_t i = 0; i < terms_.ranks; ++i) {
    const RowLoads& loads = bins_[order_[slot * terms_.ranks + i]].loads;
    most = std::max(most, loads.sums[load]);
    largest = std::max(largest, loads.largest[load]);
    sum += loads.sums[load];
  }
  return searched.per_unit * (searched.dealt ? std::max(sum / terms_.ranks, largest) : most);
}

bool RowSearch::keeps_limits() const {
  if (excess_.sum() > 0) return false;
  for (uint32_t slot = 0; slot < terms_.slots; ++slot) {
    if (!DealsWithin(slot)) return false;
  }
  return true;
}

bool RowSearch::DealsWithin(uint32_t slot) const {
  return batchplan::DealsWithin(*items_, terms_, bins_, slot, {});
}

template <typename CostOf>
RowOutlook RowSearch::OutlookBy(uint32_t a, uint32_t b, CostOf cost_of) const {
  RowOutlook outlook;
  const auto rest = [&](size_t slot) {
    double most = 0;
    for (size_t i = slot * terms_.ranks; i < (slot + 1) * terms_.ranks; ++i) {
      if (order_[i] != a && order_[i] != b) most = std::max(most, cost_of(bins_[order_[i]]));
    }
    return most;
  };
  const size_t slot_a = place_[a] / terms_.ranks;
  const size_t slot_b = place_[b] / terms_.ranks;
  outlook.kind = slot_a == slot_b ? RowOutlook::kOneSlot : RowOutlook::kTwoSlots;
  outlook.rest = outlook.rest_a = rest(slot_a);
  if (slot_a != slot_b) outlook.rest_b = rest(slot_b);
  return outlook;
}

RowOutlook RowSearch::OutlookOf(uint32_t a, uint32_t b) const {
  RowOutlook outlook;
  if (terms_.synchronization == Synchronization::kAccumulated) {
    const uint32_t rank_a = RankOf(a);
    const uint32_t rank_b = RankOf(b);
    for (uint32_t rank = 0; rank < terms_.ranks; ++rank) {
      if (rank != rank_a && rank != rank_b) outlook.rest = std::max(outlook.rest, sums_[rank]);
    }
    outlook.kind = rank_a == rank_b ? RowOutlook::kOneRank : RowOutlook::kTwoRanks;
    outlook.rest_a = sums_[rank_a] - bins_[a].cost - (rank_a == rank_b ? bins_[b].cost : 0);
    outlook.rest_b = sums_[rank_b] - bins_[b].cost;
    return outlook;
  }
  return OutlookBy(a, b, [](const Row& bin) { return bin.cost; });
}

DealtOutlook RowSearch::DealtOutlookOf(uint32_t a, uint32_t b, size_t load) const {
  const auto rest = [&](size_t slot) {
    DealtOutlook::Rest others;
    for (size_t i = slot * terms_.ranks; i < (slot + 1) * terms_.ranks; ++i) {
      if (order_[i] == a || order_[i] == b) continue;
      others.sum += bins_[order_[i]].loads.sums[load];
      others.largest = std::max(others.largest, bins_[order_[i]].loads.largest[load]);
    }
    return others;
  };
  const size_t slot_a = place_[a] / terms_.ranks;
  const size_t slot_b = place_[b] / terms_.ranks;
  return {.per_unit = items_->searched_loads()[load].per_unit,
          .ranks = static_cast<double>(terms_.ranks),
          .is_one_slot = slot_a == slot_b,
          .rest_a = rest(slot_a),
          .rest_b = slot_a == slot_b ? DealtOutlook::Rest() : rest(slot_b)};
}

LoadsOutlook RowSearch::LoadsOutlookOf(uint32_t a, uint32_t b) const {
  const std::span<const SearchedLoad> searched = items_->searched_loads();
  std::vector<RowOutlook> phases(searched.size());
  std::vector<DealtOutlook> deals;
  for (size_t load = 0; load < searched.size(); ++load) {
    const double per_unit = searched[load].per_unit;
    if (per_unit == 0) continue;
    if (searched[load].dealt) {
      deals.resize(searched.size());
      deals[load] = DealtOutlookOf(a, b, load);
      continue;
    }
    phases[load] = OutlookBy(a, b, [&](const Row& bin) { return per_unit * bin.loads.sums[load]; });
  }
  return {searched,       bins_[a].loads,    bins_[b].loads,
          excess_weight_, std::move(phases), std::move(deals)};
}

// A bin that its slot, or all ranks, wait for; sometimes any bin.
uint32_t RowSearch::PickCostliest() {
  if (excess_.sum() > 0 && Random(2) == 0) {
    auto bin = static_cast<uint32_t>(Random(bins_.size()));
    while (excess_[bin] == 0) bin = static_cast<uint32_t>((bin + 1) % bins_.size());
    return bin;
  }
  if (Random(8) == 0) return static_cast<uint32_t>(Random(bins_.size()));
  if (terms_.synchronization == Synchronization::kAccumulated) {
    const auto rank = static_cast<uint32_t>(std::ranges::max_element(sums_) - sums_.begin());
    return rank * terms_.slots + static_cast<uint32_t>(Random(terms_.slots));
  }
  const size_t slot = Random(terms_.slots);
  uint32_t costliest = order_[slot * terms_.ranks];
  const std::span<const SearchedLoad> searched = items_->searched_loads();
  if (terms_.fixed_slots && !searched.empty()) {
    // By the cost of rows, or by one phase.
    const size_t load = Random(searched.size() + 1);
    if (load < searched.size() && searched[load].per_unit > 0) {
      for (size_t i = 1; i < terms_.ranks; ++i) {
        const uint32_t bin = order_[slot * terms_.ranks + i];
        const RowLoads& most = bins_[costliest].loads;
        const RowLoads& own = bins_[bin].loads;
        if (searched[load].dealt ? own.largest[load] > most.largest[load]
                                 : own.sums[load] > most.sums[load]) {
          costliest = bin;
        }
      }
      return costliest;
    }
  }
  for (size_t i = 1; i < terms_.ranks; ++i) {
    const uint32_t bin = order_[slot * terms_.ranks + i];
    if (bins_[bin].cost > bins_[costliest].cost) costliest = bin;
  }
  return costliest;
}

// Any other bin, or one with an item next to one of a's in depth-first order.
uint32_t RowSearch::PickOther(uint32_t a) {
  if (terms_.fixed_slots && !terms_.keeps_ranks && !items_->shares() && Random(2) == 0) {
    return static_cast<uint32_t>(Random(terms_.ranks)) * terms_.slots + a % terms_.slots;
  }
  if (Random(2) == 0) {
    const std::vector<uint32_t>& own = bins_[a].items;
    const size_t i = Random(own.size());
    const uint32_t item = own[i];
    const auto may_trade = [&](uint32_t bin) {
      return bin != a && (!terms_.keeps_ranks || RankOf(bin) == RankOf(a));
    };
    if (item + 1 < items_->size() && may_trade(bin_of_[item + 1])) return bin_of_[item + 1];
    if (item > 0 && may_trade(bin_of_[item - 1])) return bin_of_[item - 1];
  }
  if (terms_.keeps_ranks) {
    return RankOf(a) * terms_.slots + static_cast<uint32_t>(Random(terms_.slots));
  }
  return static_cast<uint32_t>(Random(bins_.size()));
}

void RowSearch::Put(uint32_t bin, Row content) {
  if (terms_.synchronization == Synchronization::kAccumulated) {
    sums_[RankOf(bin)] += content.cost - bins_[bin].cost;
  }
  std::swap(bins_[bin], content);
  Note(bin);
  since_best_.push_back({bin, std::move(content)});
}

void RowSearch::Note(uint32_t bin) {
  for (const uint32_t item : bins_[bin].items) bin_of_[item] = bin;
  excess_.Set(bin, ExcessOf(*items_, bins_[bin]));
  if (terms_.synchronization == Synchronization::kAccumulated && !terms_.fixed_slots) return;
  const size_t slot = place_[bin] / terms_.ranks;
  slot_times_.Set(slot, SlotTime(slot));
}

void RowSearch::TakeBack(size_t puts) {
  while (since_best_.size() > puts) {
    Former& former = since_best_.back();
    if (terms_.synchronization == Synchronization::kAccumulated) {
      sums_[RankOf(former.bin)] += former.content.cost - bins_[former.bin].cost;
    }
    bins_[former.bin] = std::move(former.content);
    Note(former.bin);
    since_best_.pop_back();
  }
}

void RowSearch::Undo() {
  TakeBack(0);
  CountSequences();
  Regroup();
  best_time_ = time_ = Time();
}

// Replaces bins a and b; false, without a change, if limits on dealt loads do not allow it.
bool RowSearch::Take(uint32_t a, uint32_t b, Row new_a, Row new_b) {
  const size_t before = since_best_.size();
  Put(a, std::move(new_a));
  Put(b, std::move(new_b));
  if (terms_.dealt_limits_of != nullptr) {
    const uint32_t slot_a = a % terms_.slots;
    const uint32_t slot_b = b % terms_.slots;
    if (slot_a != slot_b && !(DealsWithin(slot_a) && DealsWithin(slot_b))) {
      TakeBack(before);
      return false;
    }
  }
  ++puts_;
  // Sorting many bins takes longer than a trade.
  if (terms_.synchronization == Synchronization::kLockstep && !terms_.fixed_slots &&
      puts_ % (1 + bins_.size() / 64) == 0) {
    Regroup();
  }
  time_ = Time();
  if (time_ < best_time_) {
    best_time_ = time_;
    since_best_.clear();
  }
  return true;
}

// Exchanges two whole bins of different slots if their part of the step is then below `limit`.
bool RowSearch::TryWhole(uint32_t a, uint32_t b, double limit, const RowOutlook& outlook,
                         const LoadsOutlook& loads) {
  const Row& of_a = bins_[a];
  const Row& of_b = bins_[b];
  if (a % terms_.slots == b % terms_.slots) return false;
  if (RankOf(a) != RankOf(b) &&
      (terms_.keeps_ranks || (terms_.keeps_counts && of_a.sequences != of_b.sequences))) {
    return false;
  }
  if (outlook.Of(of_b.cost, of_a.cost) + loads.Of(of_b.loads, of_a.loads) >= limit) return false;
  Row new_a = of_b;
  Row new_b = of_a;
  return Take(a, b, std::move(new_a), std::move(new_b));
}

// Makes the best of all trades of chunks between two bins, unless it lengthens the step by more
// than `slack`.
void RowSearch::Try(uint32_t a, uint32_t b, double slack) {
  const Row& of_a = bins_[a];
  const Row& of_b = bins_[b];
  const uint64_t offset = Random(ChunkFinder::kMostSingles);
  finder_.Find(of_a, of_b, offset, chunks_a_);
  finder_.Find(of_b, of_a, offset, chunks_b_);
  const RowOutlook outlook = OutlookOf(a, b);
  const LoadsOutlook loads = LoadsOutlookOf(a, b);
  loads_a_.Set(*items_, of_a, chunks_a_);
  loads_b_.Set(*items_, of_b, chunks_b_);
  const double now = outlook.Of(of_a.cost, of_b.cost) + loads.Now();
  std::array<Trade, kMostExact> best;
  size_t found = 0;
  const auto note = [&](size_t i, size_t j, double value) {
    if (found == kMostExact && value >= best[found - 1].value) return;
    if (found < kMostExact) ++found;
    size_t k = found - 1;
    for (; k > 0 && best[k - 1].value > value; --k) best[k] = best[k - 1];
    best[k] = {i, j, value};
  };
  const double limit = now + slack;
  const bool same_rank = RankOf(a) == RankOf(b);
  const bool may_move = !terms_.keeps_counts || same_rank;
  const bool may_give = may_move || counts_.may_change();
  const auto keeps_counts = [&](int64_t given) {
    return may_move || counts_.Allow(RankOf(a), RankOf(b), given);
  };
  for (size_t i = 0; i < chunks_a_.size() && may_give; ++i) {
    const RowChunk& out = chunks_a_[i];
    if (!keeps_counts(out.sequences)) continue;
    if (out.sequences == of_a.sequences && !terms_.may_empty) continue;
    if (of_b.tokens + out.in.tokens > terms_.capacity) continue;
    double value = outlook.Of(of_a.cost - out.out.cost, of_b.cost + out.in.cost);
    if (!loads.empty()) value += loads.Traded(loads_a_, i, loads_b_, kNoChunk);
    if (value < limit) note(i, kNoChunk, value);
  }
  for (size_t j = 0; j < chunks_b_.size() && may_give; ++j) {
    const RowChunk& out = chunks_b_[j];
    if (!keeps_counts(-int64_t{out.sequences})) continue;
    if (out.sequences == of_b.sequences && !terms_.may_empty) continue;
    if (of_a.tokens + out.in.tokens > terms_.capacity) continue;
    double value = outlook.Of(of_a.cost + out.in.cost, of_b.cost - out.out.cost);
    if (!loads.empty()) value += loads.Traded(loads_a_, kNoChunk, loads_b_, j);
    if (value < limit) note(kNoChunk, j, value);
  }
  added_.clear();
  removed_.clear();
  for (const RowChunk& chunk : chunks_b_) {
    added_.push_back(chunk.in.cost);
    removed_.push_back(chunk.out.cost);
  }
  values_.resize(chunks_b_.size());
  for (size_t i = 0; i < chunks_a_.size(); ++i) {
    const RowChunk& from_a = chunks_a_[i];
    outlook.OfAll(of_a.cost - from_a.out.cost, of_b.cost + from_a.in.cost, added_.data(),
                  removed_.data(), values_.size(), values_.data());
    // The best trade that leaves room, judged without what chunks share with their new neighbours.
    double least = found == kMostExact ? std::min(limit, best[found - 1].value) : limit;
    size_t at = kNoChunk;
    for (size_t j = 0; j < values_.size(); ++j) {
      if (values_[j] + loads.floor >= least) continue;
      const RowChunk& from_b = chunks_b_[j];
      if (!keeps_counts(int64_t{from_a.sequences} - from_b.sequences)) continue;
      if (of_a.tokens - from_a.out.tokens + from_b.in.tokens > terms_.capacity ||
          of_b.tokens - from_b.out.tokens + from_a.in.tokens > terms_.capacity) {
        continue;
      }
      double value = values_[j];
      if (!loads.empty()) {
        value += loads.Traded(loads_a_, i, loads_b_, j);
        if (value >= least) continue;
      }
      least = value;
      at = j;
    }
    if (at != kNoChunk) note(i, at, least);
  }
  for (size_t k = 0; k < found; ++k) {
    const Trade& trade = best[k];
    const RowChunk none;
    const RowChunk& from_a = trade.a == kNoChunk ? none : chunks_a_[trade.a];
    const RowChunk& from_b = trade.b == kNoChunk ? none : chunks_b_[trade.b];
    Row new_a = Traded(*items_, of_a, from_a.begin, from_a.end,
                       std::span(of_b.items).subspan(from_b.begin, from_b.end - from_b.begin));
    if (!Fits(new_a)) continue;
    Row new_b = Traded(*items_, of_b, from_b.begin, from_b.end,
                       std::span(of_a.items).subspan(from_a.begin, from_a.end - from_a.begin));
    if (!Fits(new_b)) continue;
    double value = outlook.Of(new_a.cost, new_b.cost);
    if (!loads.empty()) value += loads.Of(new_a.loads, new_b.loads);
    if (value < limit && Take(a, b, std::move(new_a), std::move(new_b))) {
      counts_.Give(RankOf(a), RankOf(b), int64_t{from_a.sequences} - from_b.sequences);
      return;
    }
  }
  if (terms_.fixed_slots) TryWhole(a, b, limit, outlook, loads);
}

void RowSearch::KeepLimits(const Allowance& allowance, bool may_give_up) {
  const Allowance::Part part(allowance, 2);
  const uint64_t least = may_give_up ? 0 : items_->size() * kTicksToMend / TicksAPair();
  SearchSteps steps(allowance, kTriesToMend * bins_.size(), TicksAPair(), least);
  // After so many tries it looks whether they gained enough.
  const uint64_t stretch = 2 * bins_.size() + 16 * kPairsPerLook;
  double before = excess_.sum();
  for (uint64_t tries = 1; steps.left > 0 && excess_.sum() > 0; ++tries) {
    if (tries % kPairsPerLook == 0 && allowance.stop_requested()) break;
    if (tries % stretch == 0) {
      const double gained = before - excess_.sum();
      const auto stretches = static_cast<double>(steps.left) / static_cast<double>(stretch);
      if (may_give_up && gained * stretches < excess_.sum()) break;
      before = excess_.sum();
    }
    --steps.left;
    const uint32_t worst = excess_.largest();
    if (!movable(worst)) break;
    const uint32_t b = PickOther(worst);
    if (b != worst && movable(b)) Try(worst, b, 0);
  }
  Undo();
}

uint64_t RowSearch::TicksAPair() const {
  return kTicksAPair + kTicksAnItem * 2 * items_->size() / bins_.size();
}

void RowSearch::Improve(uint64_t pairs, const Allowance& allowance) {
  if (bins_.size() < 2) return;
  SearchSteps steps(allowance, pairs, TicksAPair());
  const uint64_t all = std::max<uint64_t>(1, steps.left);
  const double row = best_time_ / terms_.slots;
  while (steps.left > 0) {
    if (steps.left % kPairsPerLook == 0 &&
        (allowance.stop_requested() || best_time_ <= mean_work_ * (1 + kShortEnough))) {
      break;
    }
    --steps.left;
    const double left = static_cast<double>(steps.left) / static_cast<double>(all);
    const uint32_t a = PickCostliest();
    if (!movable(a) || bins_[a].items.empty()) continue;
    const uint32_t b = PickOther(a);
    if (a == b || !movable(b)) continue;
    Try(a, b, std::max(0.0, left - kSettles) * kSlack * row);
  }
  Undo();
}

}  // namespace batchplan
