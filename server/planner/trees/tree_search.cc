#include "server/planner/trees/tree_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

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
  if (terms_.synchronization == Synchronization::kAccumulated) {
    for (const double sum : sums_) time = std::max(time, sum);
    return time;
  }
  for (size_t slot = 0; slot < terms_.slots; ++slot) {
    double most = 0;
    for (size_t i = 0; i < terms_.ranks; ++i) {
      most = std::max(most, bins_[order_[slot * terms_.ranks + i]].cost);
    }
    time += most;
  }
  return time;
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
  const auto rest = [&](size_t slot) {
    double most = 0;
    for (size_t i = slot * terms_.ranks; i < (slot + 1) * terms_.ranks; ++i) {
      if (order_[i] != a && order_[i] != b) most = std::max(most, bins_[order_[i]].cost);
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

// A bin that its slot, or all ranks, wait for; sometimes any.
uint32_t TreeSearch::PickCostliest() {
  if (Random(8) == 0) return static_cast<uint32_t>(Random(bins_.size()));
  if (terms_.synchronization == Synchronization::kAccumulated) {
    const auto rank = static_cast<uint32_t>(std::ranges::max_element(sums_) - sums_.begin());
    return rank * terms_.slots + static_cast<uint32_t>(Random(terms_.slots));
  }
  const size_t slot = Random(terms_.slots);
  uint32_t costliest = order_[slot * terms_.ranks];
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

void TreeSearch::Undo() {
  while (!since_best_.empty()) {
    Former& former = since_best_.back();
    bins_[former.bin] = std::move(former.content);
    for (const uint32_t item : bins_[former.bin].items) bin_of_[item] = former.bin;
    since_best_.pop_back();
  }
  CountSequences();
  Regroup();
  best_time_ = time_ = Time();
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
  const double now = outlook.Of(of_a.cost, of_b.cost);
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
    const double value = outlook.Of(of_a.cost - out.out.cost, of_b.cost + out.in.cost);
    if (value < limit) note(i, kNothing, value);
  }
  for (size_t j = 0; j < chunks_b_.size() && may_give; ++j) {
    const Chunk& out = chunks_b_[j];
    if (!keeps_counts(-int64_t{out.sequences})) continue;
    if (out.sequences == of_b.sequences && !terms_.may_empty) continue;
    if (of_a.tokens + out.in.tokens > terms_.capacity) continue;
    const double value = outlook.Of(of_a.cost + out.in.cost, of_b.cost - out.out.cost);
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
      if (values_[j] >= least) continue;
      const Chunk& from_b = chunks_b_[j];
      if (!keeps_counts(int64_t{from_a.sequences} - from_b.sequences)) continue;
      if (of_a.tokens - from_a.out.tokens + from_b.in.tokens > terms_.capacity ||
          of_b.tokens - from_b.out.tokens + from_a.in.tokens > terms_.capacity) {
        continue;
      }
      least = values_[j];
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
    if (!Fits(new_b) || outlook.Of(new_a.cost, new_b.cost) >= limit) continue;
    Put(a, std::move(new_a));
    Put(b, std::move(new_b));
    counts_.Give(RankOf(a), RankOf(b), int64_t{from_a.sequences} - from_b.sequences);
    ++puts_;
    // Sorting many bins takes longer than a trade.
    if (terms_.synchronization == Synchronization::kLockstep &&
        puts_ % (1 + bins_.size() / 64) == 0) {
      Regroup();
    }
    time_ = Time();
    if (time_ < best_time_) {
      best_time_ = time_;
      since_best_.clear();
    }
    return;
  }
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
