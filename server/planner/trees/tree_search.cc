#include "server/planner/trees/tree_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "server/planner/pass/slot_loads.h"
#include "server/planner/request/seeds.h"

namespace batchplan {
namespace {

constexpr size_t kNothing = std::numeric_limits<size_t>::max();

// Of an allowance, for a pair of bins and for each of their items.
constexpr uint64_t kTicksAPair = 2000;
constexpr uint64_t kTicksAnItem = 200;

// Pairs from one look for a stop to the next.
constexpr uint64_t kPairsPerLook = 64;

// Of a bin, the items and the runs of items that are tried.
constexpr uint32_t kMostSingles = 160;
constexpr size_t kMostRuns = 48;

// How much what all bins cost together counts beside the step: less repeated leaves more room.
constexpr double kWorkShare = 0.02;

// What a trade may lengthen the step by at first, as a part of a mean row; and the part of the
// pairs at the end for which it may not.
constexpr double kSlack = 0.02;
constexpr double kSettles = 0.3;

// The trades that are worked out exactly, of the best estimates.
constexpr size_t kMostExact = 3;

// What a row that has twice as much of a load as it may counts, in mean rows; and how often pairs
// of bins are tried to mend one that has too much.
constexpr double kExcessWeight = 100;
constexpr uint64_t kTriesToMend = 64;

// `bin` without its items number out_begin .. out_end - 1 and with others.
TreeBin Traded(const TreeItems& items, const TreeBin& bin, uint32_t out_begin, uint32_t out_end,
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

bool DealsWithin(const TreeItems& items, const TreeTerms& terms, std::span<const TreeBin> bins,
                 uint32_t slot, std::span<const uint32_t> added) {
  if (terms.dealt_limits_of == nullptr) return true;
  const Pass& pass = *terms.dealt_limits_of;
  std::vector<SequenceIndex> sequences;
  const auto add = [&](uint32_t item) {
    for (uint32_t i = 0; i < items.count(item); ++i) {
      sequences.push_back(items.tree()[items.first(item) + i]);
    }
  };
  for (uint32_t rank = 0; rank < terms.ranks; ++rank) {
    std::ranges::for_each(bins[rank * terms.slots + slot].items, add);
  }
  std::ranges::for_each(added, add);
  return std::ranges::all_of(pass.limits(), [&](const LoadBudget& limit) {
    if (!limit.dealt) return true;
    double sum = 0;
    for (const SequenceIndex sequence : sequences) sum += pass.loads().Of(limit.load, sequence);
    if (sum > limit.most * terms.ranks) return false;
    const DealtItems dealt = DealItems(pass.loads(), limit.load, sequences, terms.ranks);
    return std::ranges::max(dealt.sums) <= limit.most;
  });
}

// What the step takes of what it depends on, and a little of all work, if two bins cost `x` and
// `y`, all else as it is. Under kLockstep they are in slots whose other bins cost up to rest_a and
// rest_b; else their ranks have as much besides, and other ranks up to rest.
struct TreeSearch::Outlook {
  enum Kind { kOneSlot, kTwoSlots, kOneRank, kTwoRanks };

  template <Kind kKind>
  double As(double x, double y) const {
    const double work = kWorkShare * (x + y);
    if constexpr (kKind == kOneSlot) return std::max(std::max(x, y), rest) + work;
    if constexpr (kKind == kTwoSlots) return std::max(x, rest_a) + std::max(y, rest_b) + work;
    if constexpr (kKind == kOneRank) return std::max(x + y + rest_a, rest) + work;
    return std::max(std::max(x + rest_a, y + rest_b), rest) + work;
  }
  double Of(double x, double y) const {
    switch (kind) {
      case kOneSlot:
        return As<kOneSlot>(x, y);
      case kTwoSlots:
        return As<kTwoSlots>(x, y);
      case kOneRank:
        return As<kOneRank>(x, y);
      case kTwoRanks:
        return As<kTwoRanks>(x, y);
    }
    return 0;
  }
  // values[j] = Of(x + added[j], y - removed[j]).
  template <Kind kKind>
  void Fill(double x, double y, const double* added, const double* removed, size_t count,
            double* values) const {
    for (size_t j = 0; j < count; ++j) values[j] = As<kKind>(x + added[j], y - removed[j]);
  }
  void OfAll(double x, double y, const double* added, const double* removed, size_t count,
             double* values) const {
    switch (kind) {
      case kOneSlot:
        return Fill<kOneSlot>(x, y, added, removed, count, values);
      case kTwoSlots:
        return Fill<kTwoSlots>(x, y, added, removed, count, values);
      case kOneRank:
        return Fill<kOneRank>(x, y, added, removed, count, values);
      case kTwoRanks:
        return Fill<kTwoRanks>(x, y, added, removed, count, values);
    }
  }

  Kind kind = kOneSlot;
  double rest = 0;
  double rest_a = 0;
  double rest_b = 0;
};

TreeSearch::TreeSearch(const TreeItems& items, const TreeTerms& terms, std::vector<TreeBin> bins,
                       uint64_t seed)
    : items_(&items),
      terms_(terms),
      bins_(std::move(bins)),
      bin_of_(items.size()),
      order_(bins_.size()),
      place_(bins_.size()),
      sums_(terms.ranks, 0),
      random_(seed) {
  for (uint32_t bin = 0; bin < bins_.size(); ++bin) {
    for (const uint32_t item : bins_[bin].items) bin_of_[item] = bin;
  }
  CountSequences();
  for (const TreeBin& bin : bins_) {
    excess_weight_ += kExcessWeight * bin.cost / static_cast<double>(bins_.size());
  }
  Regroup();
  best_time_ = time_ = Time();
}

void TreeSearch::CountSequences() {
  if (!terms_.keeps_counts) return;
  std::vector<uint64_t> counts(terms_.ranks, 0);
  for (uint32_t bin = 0; bin < bins_.size(); ++bin) counts[RankOf(bin)] += bins_[bin].sequences;
  counts_ = KeptCounts(std::move(counts));
}

uint64_t TreeSearch::Random(uint64_t below) {
  random_ = MixSeed(random_, 1);
  return random_ % below;
}

// Sorted by cost, so that bins of a slot are alike: within ranks, where items stay there.
void TreeSearch::Regroup() {
  if (terms_.synchronization == Synchronization::kAccumulated) {
    std::ranges::fill(sums_, 0);
    for (uint32_t bin = 0; bin < bins_.size(); ++bin) sums_[RankOf(bin)] += bins_[bin].cost;
    return;
  }
  const auto costlier = [&](uint32_t a, uint32_t b) {
    return std::pair(-bins_[a].cost, a) < std::pair(-bins_[b].cost, b);
  };
  if (terms_.fixed_slots) {
    for (uint32_t slot = 0; slot < terms_.slots; ++slot) {
      for (uint32_t rank = 0; rank < terms_.ranks; ++rank) {
        order_[size_t{slot} * terms_.ranks + rank] = rank * terms_.slots + slot;
      }
    }
    for (uint32_t place = 0; place < order_.size(); ++place) place_[order_[place]] = place;
    return;
  }
  std::iota(order_.begin(), order_.end(), 0u);
  if (!terms_.keeps_ranks && !terms_.keeps_counts) {
    std::ranges::sort(order_, costlier);
  } else {
    std::vector<uint32_t> by_rank = order_;
    for (uint32_t rank = 0; rank < terms_.ranks; ++rank) {
      const auto own = std::span(by_rank).subspan(size_t{rank} * terms_.slots, terms_.slots);
      std::ranges::sort(own, costlier);
      for (uint32_t slot = 0; slot < terms_.slots; ++slot) {
        order_[size_t{slot} * terms_.ranks + rank] = own[slot];
      }
    }
  }
  for (uint32_t place = 0; place < order_.size(); ++place) place_[order_[place]] = place;
}

double TreeSearch::Time() const {
  double time = 0;
  const std::span<const SearchedLoad> searched = items_->searched_loads();
  if (!searched.empty()) {
    double excess = 0;
    for (const TreeBin& bin : bins_) excess += ExcessOf(*items_, bin);
    time += excess_weight_ * excess;
  }
  if (terms_.synchronization == Synchronization::kAccumulated) {
    return time + std::ranges::max(sums_);
  }
  for (size_t slot = 0; slot < terms_.slots; ++slot) {
    double most = 0;
    for (size_t i = 0; i < terms_.ranks; ++i) {
      most = std::max(most, bins_[order_[slot * terms_.ranks + i]].cost);
    }
    time += most;
    for (size_t load = 0; load < searched.size(); ++load) {
      if (searched[load].per_unit == 0) continue;
      double most_of_load = 0;
      for (size_t i = 0; i < terms_.ranks; ++i) {
        most_of_load = std::max(most_of_load, bins_[order_[slot * terms_.ranks + i]].loads[load]);
      }
      time += searched[load].per_unit * most_of_load;
    }
  }
  return time;
}

bool TreeSearch::keeps_limits() const {
  for (const TreeBin& bin : bins_) {
    if (ExcessOf(*items_, bin) > 0) return false;
  }
  for (uint32_t slot = 0; slot < terms_.slots; ++slot) {
    if (!DealsWithin(slot)) return false;
  }
  return true;
}

bool TreeSearch::DealsWithin(uint32_t slot) const {
  return batchplan::DealsWithin(*items_, terms_, bins_, slot, {});
}

template <typename CostOf>
TreeSearch::Outlook TreeSearch::OutlookBy(uint32_t a, uint32_t b, CostOf cost_of) const {
  Outlook outlook;
  const auto rest = [&](size_t slot) {
    double most = 0;
    for (size_t i = slot * terms_.ranks; i < (slot + 1) * terms_.ranks; ++i) {
      if (order_[i] != a && order_[i] != b) most = std::max(most, cost_of(bins_[order_[i]]));
    }
    return most;
  };
  const size_t slot_a = place_[a] / terms_.ranks;
  const size_t slot_b = place_[b] / terms_.ranks;
  outlook.kind = slot_a == slot_b ? Outlook::kOneSlot : Outlook::kTwoSlots;
  outlook.rest = outlook.rest_a = rest(slot_a);
  if (slot_a != slot_b) outlook.rest_b = rest(slot_b);
  return outlook;
}

TreeSearch::Outlook TreeSearch::OutlookOf(uint32_t a, uint32_t b) const {
  Outlook outlook;
  if (terms_.synchronization == Synchronization::kAccumulated) {
    const uint32_t rank_a = RankOf(a);
    const uint32_t rank_b = RankOf(b);
    for (uint32_t rank = 0; rank < terms_.ranks; ++rank) {
      if (rank != rank_a && rank != rank_b) outlook.rest = std::max(outlook.rest, sums_[rank]);
    }
    outlook.kind = rank_a == rank_b ? Outlook::kOneRank : Outlook::kTwoRanks;
    outlook.rest_a = sums_[rank_a] - bins_[a].cost - (rank_a == rank_b ? bins_[b].cost : 0);
    outlook.rest_b = sums_[rank_b] - bins_[b].cost;
    return outlook;
  }
  return OutlookBy(a, b, [](const TreeBin& bin) { return bin.cost; });
}

// A bin that its slot, or all ranks, wait for; sometimes any.
uint32_t TreeSearch::PickCostliest() {
  if (excess_ > 0 && Random(2) == 0) {
    const auto first = static_cast<uint32_t>(Random(bins_.size()));
    for (uint32_t i = 0; i < bins_.size(); ++i) {
      const auto bin = static_cast<uint32_t>((first + i) % bins_.size());
      if (ExcessOf(*items_, bins_[bin]) > 0) return bin;
    }
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
        if (bins_[bin].loads[load] > bins_[costliest].loads[load]) costliest = bin;
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

// Any other bin, or one that has an item beside one of a's in depth-first order.
uint32_t TreeSearch::PickOther(uint32_t a) {
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

// Single items, of large bins some from the offset on, and runs that are whole subtrees of the bin,
// or halves of these.
void TreeSearch::ChunksOf(const TreeBin& from, const TreeBin& into, uint64_t offset,
                          std::vector<Chunk>& chunks) const {
  const PathCost& cost = items_->path_cost();
  const auto size = static_cast<uint32_t>(from.items.size());
  chunks.clear();
  std::vector<double>& costs = sums_of_costs_;
  std::vector<uint64_t>& tokens = sums_of_tokens_;
  costs.assign(1, 0);
  tokens.assign(1, 0);
  std::vector<uint32_t> sequences(1, 0);
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t item = from.items[i];
    costs.push_back(costs[i] + items_->cost(item) - cost(from.commons[i]));
    tokens.push_back(tokens[i] + items_->tokens(item) - from.commons[i]);
    sequences.push_back(sequences[i] + items_->count(item));
  }
  // Items begin .. end - 1, which share at least as much inside as with those around them.
  const auto add = [&](uint32_t begin, uint32_t end) {
    Chunk& chunk = chunks.emplace_back();
    chunk.begin = begin;
    chunk.end = end;
    chunk.sequences = sequences[end] - sequences[begin];
    const uint32_t before = from.commons[begin];
    const TreeChange alone = {.tokens = tokens[end] - tokens[begin] + before,
                              .cost = costs[end] - costs[begin] + cost(before)};
    chunk.out = {.tokens = alone.tokens - before, .cost = alone.cost - cost(before)};
    if (end < size) {
      const uint32_t after = from.commons[end];
      const uint32_t around = std::min(before, after);
      chunk.out.tokens -= after - around;
      chunk.out.cost -= cost(after) - cost(around);
    }
    chunk.in = ChangeBy(*items_, into, std::span(from.items).subspan(begin, end - begin), alone);
  };
  const uint32_t apart = (size + kMostSingles - 1) / kMostSingles;
  for (uint32_t i = apart < 2 ? 0 : offset % apart; i < size; i += apart) add(i, i + 1);
  const size_t most = chunks.size() + kMostRuns;
  // The runs between places where less is in common.
  struct Open {
    uint32_t begin;
    uint32_t common;
  };
  std::vector<Open> open;
  const auto close = [&](const Open& run, uint32_t end) {
    const bool is_all = end - run.begin == size && !terms_.may_empty;
    if (end - run.begin < 2 || is_all || chunks.size() >= most) return;
    add(run.begin, end);
    const uint32_t middle = run.begin + (end - run.begin) / 2;
    if (middle - run.begin >= 2) add(run.begin, middle);
    if (end - middle >= 2) add(middle, end);
  };
  for (uint32_t i = 1; i <= size; ++i) {
    const uint32_t common = i < size ? from.commons[i] : 0;
    uint32_t begin = i - 1;
    while (!open.empty() && open.back().common > common) {
      begin = open.back().begin;
      close(open.back(), i);
      open.pop_back();
    }
    if (common > 0 && (open.empty() || open.back().common < common))
      open.push_back({begin, common});
  }
}

void TreeSearch::Put(uint32_t bin, TreeBin content) {
  if (terms_.synchronization == Synchronization::kAccumulated) {
    sums_[RankOf(bin)] += content.cost - bins_[bin].cost;
  }
  std::swap(bins_[bin], content);
  for (const uint32_t item : bins_[bin].items) bin_of_[item] = bin;
  since_best_.push_back({bin, std::move(content)});
}

void TreeSearch::TakeBack(size_t puts) {
  while (since_best_.size() > puts) {
    Former& former = since_best_.back();
    if (terms_.synchronization == Synchronization::kAccumulated) {
      sums_[RankOf(former.bin)] += former.content.cost - bins_[former.bin].cost;
    }
    bins_[former.bin] = std::move(former.content);
    for (const uint32_t item : bins_[former.bin].items) bin_of_[item] = former.bin;
    since_best_.pop_back();
  }
}

void TreeSearch::Undo() {
  TakeBack(0);
  CountSequences();
  Regroup();
  best_time_ = time_ = Time();
}

// What two bins have of searched loads, and what the step takes for it.
struct TreeSearch::Loads {
  Loads(const TreeSearch& search, uint32_t a, uint32_t b)
      : searched(search.items_->searched_loads()),
        of_a(search.bins_[a].loads),
        of_b(search.bins_[b].loads),
        weight(search.excess_weight_) {
    outlooks.reserve(searched.size());
    for (size_t load = 0; load < searched.size(); ++load) {
      const double per_unit = searched[load].per_unit;
      if (per_unit == 0) {
        outlooks.emplace_back();
        continue;
      }
      outlooks.push_back(
          search.OutlookBy(a, b, [&](const TreeBin& bin) { return per_unit * bin.loads[load]; }));
      const Outlook& outlook = outlooks.back();
      floor += outlook.kind == Outlook::kOneSlot ? outlook.rest : outlook.rest_a + outlook.rest_b;
    }
    excess = Excess(of_a, of_b);
  }

  bool empty() const { return searched.empty(); }

  double Excess(const LoadSums& x, const LoadSums& y) const {
    double sum = 0;
    for (size_t load = 0; load < searched.size(); ++load) {
      const double most = searched[load].most;
      if (x[load] > most) sum += x[load] / most - 1;
      if (y[load] > most) sum += y[load] / most - 1;
    }
    return sum;
  }

  // Infinite where the bins would be further above limits than they are.
  double Of(const LoadSums& x, const LoadSums& y) const {
    const double above = Excess(x, y);
    if (above > excess) return std::numeric_limits<double>::infinity();
    double value = weight * above;
    for (size_t load = 0; load < searched.size(); ++load) {
      const double per_unit = searched[load].per_unit;
      if (per_unit > 0) value += outlooks[load].Of(per_unit * x[load], per_unit * y[load]);
    }
    return value;
  }
  double Now() const { return empty() ? 0 : Of(of_a, of_b); }
  // Where a gives the loads `from_a`, and b `from_b`.
  double Traded(const double* from_a, const double* from_b) const {
    LoadSums x = of_a;
    LoadSums y = of_b;
    for (size_t load = 0; load < searched.size(); ++load) {
      const double to_b =
          (from_a == nullptr ? 0 : from_a[load]) - (from_b == nullptr ? 0 : from_b[load]);
      x[load] -= to_b;
      y[load] += to_b;
    }
    return Of(x, y);
  }

  std::span<const SearchedLoad> searched;
  const LoadSums& of_a;
  const LoadSums& of_b;
  double weight;
  std::vector<Outlook> outlooks;
  // What phases take whatever the two bins have.
  double floor = 0;
  double excess = 0;
};

// What chunks have of searched loads, one behind the other.
void TreeSearch::LoadsOf(const TreeBin& bin, std::span<const Chunk> chunks,
                         std::vector<double>& loads) const {
  const size_t count = items_->searched_loads().size();
  loads.assign(chunks.size() * count, 0);
  for (size_t i = 0; i < chunks.size() && count > 0; ++i) {
    for (uint32_t k = chunks[i].begin; k < chunks[i].end; ++k) {
      const std::span<const double> of_item = items_->loads(bin.items[k]);
      for (size_t load = 0; load < count; ++load) loads[i * count + load] += of_item[load];
    }
  }
}

// Puts the two bins in the place of those numbers; false, and nothing, if a deal does not allow it.
bool TreeSearch::Take(uint32_t a, uint32_t b, TreeBin new_a, TreeBin new_b) {
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

// Exchanges two bins of different slots whole, if the step takes less than `limit` for them then.
bool TreeSearch::TryWhole(uint32_t a, uint32_t b, double limit, const Outlook& outlook,
                          const Loads& loads) {
  const TreeBin& of_a = bins_[a];
  const TreeBin& of_b = bins_[b];
  if (a % terms_.slots == b % terms_.slots) return false;
  if (RankOf(a) != RankOf(b) &&
      (terms_.keeps_ranks || (terms_.keeps_counts && of_a.sequences != of_b.sequences))) {
    return false;
  }
  if (outlook.Of(of_b.cost, of_a.cost) + loads.Of(of_b.loads, of_a.loads) >= limit) return false;
  TreeBin new_a = of_b;
  TreeBin new_b = of_a;
  return Take(a, b, std::move(new_a), std::move(new_b));
}

// The best of all trades of chunks between two bins; taken if the step is longer by `slack` at
// most.
void TreeSearch::Try(uint32_t a, uint32_t b, double slack) {
  const TreeBin& of_a = bins_[a];
  const TreeBin& of_b = bins_[b];
  const uint64_t offset = Random(kMostSingles);
  ChunksOf(of_a, of_b, offset, chunks_a_);
  ChunksOf(of_b, of_a, offset, chunks_b_);
  const Outlook outlook = OutlookOf(a, b);
  const Loads loads(*this, a, b);
  const size_t load_count = loads.searched.size();
  LoadsOf(of_a, chunks_a_, loads_a_);
  LoadsOf(of_b, chunks_b_, loads_b_);
  const auto loads_of_a = [&](size_t i) { return loads_a_.data() + i * load_count; };
  const auto loads_of_b = [&](size_t j) { return loads_b_.data() + j * load_count; };
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
    const Chunk& out = chunks_a_[i];
    if (!keeps_counts(out.sequences)) continue;
    if (out.sequences == of_a.sequences && !terms_.may_empty) continue;
    if (of_b.tokens + out.in.tokens > terms_.capacity) continue;
    double value = outlook.Of(of_a.cost - out.out.cost, of_b.cost + out.in.cost);
    if (!loads.empty()) value += loads.Traded(loads_of_a(i), nullptr);
    if (value < limit) note(i, kNothing, value);
  }
  for (size_t j = 0; j < chunks_b_.size() && may_give; ++j) {
    const Chunk& out = chunks_b_[j];
    if (!keeps_counts(-int64_t{out.sequences})) continue;
    if (out.sequences == of_b.sequences && !terms_.may_empty) continue;
    if (of_a.tokens + out.in.tokens > terms_.capacity) continue;
    double value = outlook.Of(of_a.cost + out.in.cost, of_b.cost - out.out.cost);
    if (!loads.empty()) value += loads.Traded(nullptr, loads_of_b(j));
    if (value < limit) note(kNothing, j, value);
  }
  added_.clear();
  removed_.clear();
  for (const Chunk& chunk : chunks_b_) {
    added_.push_back(chunk.in.cost);
    removed_.push_back(chunk.out.cost);
  }
  values_.resize(chunks_b_.size());
  for (size_t i = 0; i < chunks_a_.size(); ++i) {
    const Chunk& from_a = chunks_a_[i];
    outlook.OfAll(of_a.cost - from_a.out.cost, of_b.cost + from_a.in.cost, added_.data(),
                  removed_.data(), values_.size(), values_.data());
    // The best that leaves room, as far as one can tell without looking at what is joined anew.
    double least = found == kMostExact ? std::min(limit, best[found - 1].value) : limit;
    size_t at = kNothing;
    for (size_t j = 0; j < values_.size(); ++j) {
      if (values_[j] + loads.floor >= least) continue;
      const Chunk& from_b = chunks_b_[j];
      if (!keeps_counts(int64_t{from_a.sequences} - from_b.sequences)) continue;
      if (of_a.tokens - from_a.out.tokens + from_b.in.tokens > terms_.capacity ||
          of_b.tokens - from_b.out.tokens + from_a.in.tokens > terms_.capacity) {
        continue;
      }
      double value = values_[j];
      if (!loads.empty()) {
        value += loads.Traded(loads_of_a(i), loads_of_b(j));
        if (value >= least) continue;
      }
      least = value;
      at = j;
    }
    if (at != kNothing) note(i, at, least);
  }
  for (size_t k = 0; k < found; ++k) {
    const Trade& trade = best[k];
    const Chunk none;
    const Chunk& from_a = trade.a == kNothing ? none : chunks_a_[trade.a];
    const Chunk& from_b = trade.b == kNothing ? none : chunks_b_[trade.b];
    TreeBin new_a = Traded(*items_, of_a, from_a.begin, from_a.end,
                           std::span(of_b.items).subspan(from_b.begin, from_b.end - from_b.begin));
    if (!Fits(new_a)) continue;
    TreeBin new_b = Traded(*items_, of_b, from_b.begin, from_b.end,
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

void TreeSearch::KeepLimits(const Allowance& allowance) {
  for (uint64_t tries = kTriesToMend * bins_.size(); tries > 0; --tries) {
    excess_ = 0;
    uint32_t worst = 0;
    double most = 0;
    for (uint32_t bin = 0; bin < bins_.size(); ++bin) {
      const double excess = movable(bin) ? ExcessOf(*items_, bins_[bin]) : 0;
      excess_ += excess;
      if (excess > most) {
        most = excess;
        worst = bin;
      }
    }
    if (excess_ == 0 || allowance.stop_requested()) break;
    allowance.Spend(kTicksAPair);
    const uint32_t b = PickOther(worst);
    if (b != worst && movable(b)) Try(worst, b, 0);
  }
  Undo();
}

void TreeSearch::Improve(uint64_t pairs, const Allowance& allowance) {
  if (bins_.size() < 2) return;
  const uint64_t ticks = kTicksAPair + kTicksAnItem * 2 * items_->size() / bins_.size();
  SearchSteps steps(allowance, pairs, ticks);
  const uint64_t all = std::max<uint64_t>(1, steps.left);
  const double row = best_time_ / terms_.slots;
  while (steps.left > 0) {
    if (steps.left % kPairsPerLook == 0 && allowance.stop_requested()) break;
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
