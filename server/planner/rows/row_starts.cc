#include "server/planner/rows/row_starts.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "server/planner/balance/accumulated.h"
#include "server/planner/balance/lockstep.h"
#include "server/planner/packing/even_counts.h"
#include "server/planner/packing/fewest_bins.h"
#include "server/planner/packing/packer.h"
#include "server/planner/pass/items.h"
#include "server/planner/rows/row_order.h"

namespace batchplan {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// The items on either side of a piece, in depth-first order, whose bins are tried for few tokens.
constexpr uint32_t kNeighbours = 32;
constexpr uint32_t kMostForNeighbours = 8192;

// Pieces from one look for a stop to the next.
constexpr size_t kPiecesPerLook = 1024;

// After this many bins without room, the roomiest is tried.
constexpr int kMostLooks = 64;

// The key by which pieces go first: their cost or, for few tokens with limited loads, the largest
// share of a bin's tokens or of a load.
double SizeOf(const RowItems& items, const RowTerms& terms, PieceChoice choice, const Row& piece) {
  const std::span<const SearchedLoad> searched = items.searched_loads();
  if (choice != PieceChoice::kFewestTokens || searched.empty()) return CostWithPhases(items, piece);
  double size = static_cast<double>(piece.tokens) / static_cast<double>(terms.capacity);
  for (size_t load = 0; load < searched.size(); ++load) {
    size = std::max(size, piece.loads.sums[load] / searched[load].most);
  }
  return size;
}

// Pieces as items that share nothing. The prefix that all items share is left out of each, as every
// bin has it once.
struct PackedPieces {
  PackedPieces(const Pass& pass, const RowItems& all, std::span<const TreePiece> pieces) {
    const uint32_t common = all.size() == 1 ? 0 : all.Common(0, all.size() - 1);
    limits = {.capacity = pass.bin_limits().capacity - common,
              .max_sequences = pass.bin_limits().max_sequences};
    for (const TreePiece& piece : pieces) {
      std::vector<uint32_t> own(piece.count);
      std::iota(own.begin(), own.end(), piece.first);
      const Row alone = BinOf(all, std::move(own));
      // A sequence that runs alone fills a bin.
      const uint64_t tokens = std::min<uint64_t>(alone.tokens - common, limits.capacity);
      items.lengths.push_back(static_cast<uint32_t>(std::max<uint64_t>(tokens, 1)));
      items.counts.push_back(alone.sequences);
      const double cost = std::max(0.0, alone.cost - all.path_cost()(common));
      items.costs.push_back(static_cast<uint64_t>(pass.cost().FromUnits(cost)));
    }
  }

  // Adds items that cost nothing and hardly need room, since the solvers leave no bin empty. False
  // if lengths leave no place for them.
  bool FillUpTo(size_t count) {
    const uint64_t scale = std::min<uint64_t>(kMostFillers, kMostLength / limits.capacity);
    if (count - items.lengths.size() >= scale || limits.max_sequences < kMostFillers) return false;
    for (uint32_t& length : items.lengths) length *= static_cast<uint32_t>(scale);
    limits.capacity = static_cast<uint32_t>(limits.capacity * scale + scale - 1);
    items.lengths.resize(count, 1);
    items.counts.resize(count, 1);
    items.costs.resize(count, 0);
    return true;
  }

  Items items;
  BinLimits limits;

 private:
  static constexpr uint64_t kMostFillers = 4096;
  static constexpr uint64_t kMostLength = uint64_t{1} << 31;
};

// Fills bins with pieces.
class PieceFiller {
 public:
  PieceFiller(const RowItems& items, const RowTerms& terms, PieceChoice choice,
              std::span<const uint32_t> rank_of)
      : items_(items),
        terms_(terms),
        choice_(choice),
        rank_of_(rank_of),
        bins_(size_t{terms.ranks} * terms.slots),
        sums_(terms.ranks, 0),
        counts_(terms.ranks, 0),
        keeps_counts_(terms.keeps_counts && rank_of.empty()),
        even_(items.tree().size(), terms.ranks),
        bin_of_(items.size(), kNone),
        common_(items.size() < 2 ? 0 : items.Common(0, items.size() - 1)),
        in_order_(by_ranks() ? terms.ranks : 1, RowOrder(items.searched_loads(), terms, bins_)) {
    for (uint32_t bin = 0; bin < bins_.size(); ++bin) Enter(bin);
    for (uint32_t rank = 0; rank < in_order_.size(); ++rank) ranks_.emplace(0, rank);
  }

  bool Put(const TreePiece& piece) {
    std::vector<uint32_t> added(piece.count);
    std::iota(added.begin(), added.end(), piece.first);
    const Row alone = BinOf(items_, added);
    const RowChange of_piece = {.tokens = alone.tokens, .cost = alone.cost};
    uint32_t best = kNone;
    std::pair<double, double> least;
    const auto look = [&](uint32_t bin) {
      if (!rank_of_.empty() && RankOf(bin) != rank_of_[piece.first]) return false;
      if (bins_[bin].sequences + uint64_t{alone.sequences} > terms_.max_sequences ||
          !MayHave(counts_[RankOf(bin)] + alone.sequences)) {
        return false;
      }
      // A sequence that runs alone may exceed limits.
      const bool may_be_above = bins_[bin].items.empty() && piece.count == 1;
      if (!may_be_above && !HasRoomForLoads(items_, bins_[bin], alone.loads.sums)) return false;
      const RowChange change = ChangeBy(items_, bins_[bin], added, of_piece);
      const uint64_t tokens = bins_[bin].tokens + change.tokens;
      const bool fits = tokens <= terms_.capacity || (bins_[bin].items.empty() && piece.count == 1);
      if (!fits || !DealsWithin(items_, terms_, bins_, bin % terms_.slots, added)) return false;
      const std::pair<double, double> value =
          choice_ == PieceChoice::kFewestTokens
              ? std::pair(static_cast<double>(change.tokens), -static_cast<double>(tokens))
              : std::pair(
                    (accumulates() ? sums_[RankOf(bin)] : CostWithPhases(items_, bins_[bin])) +
                        change.cost,
                    0.0);
      if (best == kNone || value < least) {
        best = bin;
        least = value;
      }
      return true;
    };
    if (rank_of_.empty()) {
      // The fullest that has room even if it shares no more than all items do.
      const double room =
          static_cast<double>(terms_.capacity) - static_cast<double>(alone.tokens - common_);
      const double first =
          choice_ == PieceChoice::kFewestTokens ? -room : -std::numeric_limits<double>::infinity();
      const bool has_limits = !items_.searched_loads().empty() || terms_.dealt_limits_of != nullptr;
      const RowNeed need = NeedOf(piece, alone);
      int looks = 0;
      for (const auto& [sum, rank] : ranks_) {
        in_order_[rank].Find(first, has_limits ? &need : nullptr, [&](uint32_t bin) {
          return look(bin) || (!has_limits && ++looks == kMostLooks);
        });
        if (best != kNone || looks == kMostLooks) break;
      }
      if (best == kNone) look(by_tokens_.begin()->second);
    } else {
      const uint32_t rank = rank_of_[piece.first];
      for (uint32_t slot = 0; slot < terms_.slots; ++slot) look(rank * terms_.slots + slot);
    }
    // Its neighbours in depth-first order.
    const bool is_few = items_.size() <= kMostForNeighbours;
    const uint32_t most = choice_ == PieceChoice::kFewestTokens && is_few ? kNeighbours : 1;
    const uint32_t end = piece.first + piece.count;
    for (uint32_t i = 0; i < most && end + i < items_.size(); ++i) {
      if (bin_of_[end + i] == kNone) continue;
      if (items_.Common(end - 1, end + i) == 0) break;
      look(bin_of_[end + i]);
    }
    for (uint32_t i = 1; i <= most && i <= piece.first; ++i) {
      if (bin_of_[piece.first - i] == kNone) continue;
      if (items_.Common(piece.first - i, piece.first) == 0) break;
      look(bin_of_[piece.first - i]);
    }
    if (best == kNone) {
      if (piece.count == 1) return false;
      const uint32_t half = piece.count / 2;
      return Put({piece.first, half}) && Put({piece.first + half, piece.count - half});
    }
    Add(best, added);
    return true;
  }

  // Gives empty bins an item of the costliest bins that can spare one; false if none can.
  bool FillEmpty() {
    // Within each rank if items stay on their ranks, or ranks keep their numbers of sequences.
    const bool is_any = rank_of_.empty() && !terms_.keeps_counts;
    const size_t size = is_any ? bins_.size() : terms_.slots;
    for (size_t begin = 0; begin < bins_.size(); begin += size) {
      std::set<std::pair<double, size_t>> givers;
      for (size_t bin = begin; bin < begin + size; ++bin) {
        if (bins_[bin].items.size() > 1) givers.emplace(bins_[bin].cost, bin);
      }
      for (size_t bin = begin; bin < begin + size; ++bin) {
        if (!bins_[bin].items.empty()) continue;
        if (givers.empty()) return false;
        const size_t giver = std::prev(givers.end())->second;
        givers.erase(std::prev(givers.end()));
        std::vector<uint32_t> kept = bins_[giver].items;
        const uint32_t given = kept.back();
        kept.pop_back();
        bins_[giver] = BinOf(items_, std::move(kept));
        bins_[bin] = BinOf(items_, {given});
        if (bins_[giver].items.size() > 1) givers.emplace(bins_[giver].cost, giver);
      }
    }
    return true;
  }

  std::vector<Row> Take() { return std::move(bins_); }

 private:
  bool accumulates() const { return terms_.synchronization == Synchronization::kAccumulated; }
  uint32_t RankOf(uint32_t bin) const { return bin / terms_.slots; }
  // Whether a rank may have this many sequences, more than it has now.
  bool MayHave(uint64_t sequences) const {
    if (!keeps_counts_ || sequences <= even_.least) return true;
    return sequences == even_.most() && larger_ < even_.larger;
  }
  // Whether bins are looked at rank by rank, from the one that has least.
  bool by_ranks() const { return accumulates() && choice_ == PieceChoice::kCheapest; }
  // The cheapest first; or the fullest.
  double KeyOf(uint32_t bin) const {
    return choice_ == PieceChoice::kFewestTokens ? -static_cast<double>(bins_[bin].tokens)
                                                 : CostWithPhases(items_, bins_[bin]);
  }
  RowOrder& OrderOf(uint32_t bin) { return in_order_[by_ranks() ? RankOf(bin) : 0]; }
  // What a piece adds to any bin at least: it shares most with the items beside it.
  RowNeed NeedOf(const TreePiece& piece, const Row& alone) const {
    const uint32_t end = piece.first + piece.count;
    const uint32_t before = piece.first == 0 ? 0 : items_.Common(piece.first - 1, piece.first);
    const uint32_t after = end == items_.size() ? 0 : items_.Common(end - 1, end);
    // What the items beside it have in common, they share already.
    uint32_t both = std::min(before, after);
    if (piece.count > 1) both = std::min(both, items_.Common(piece.first, end - 1));
    return {.tokens = alone.tokens - (before + uint64_t{after} - both),
            .sequences = alone.sequences,
            .loads = alone.loads.sums,
            .is_one = piece.count == 1};
  }
  void Enter(uint32_t bin) {
    if (!rank_of_.empty()) return;
    OrderOf(bin).Insert(KeyOf(bin), bin);
    by_tokens_.emplace(bins_[bin].tokens, bin);
  }
  void Leave(uint32_t bin) {
    if (!rank_of_.empty()) return;
    OrderOf(bin).Erase(KeyOf(bin), bin);
    by_tokens_.erase({bins_[bin].tokens, bin});
  }

  void Add(uint32_t bin, std::span<const uint32_t> added) {
    const uint32_t rank = RankOf(bin);
    if (by_ranks()) ranks_.erase({sums_[rank], rank});
    Leave(bin);
    for (const uint32_t item : added) bin_of_[item] = bin;
    const double before = bins_[bin].cost;
    const uint32_t sequences = bins_[bin].sequences;
    AddTo(items_, added, bins_[bin]);
    sums_[rank] += bins_[bin].cost - before;
    counts_[rank] += bins_[bin].sequences - sequences;
    if (counts_[rank] > even_.least) ++larger_;
    Enter(bin);
    if (by_ranks()) ranks_.emplace(sums_[rank], rank);
  }

  const RowItems& items_;
  const RowTerms& terms_;
  const PieceChoice choice_;
  const std::span<const uint32_t> rank_of_;
  std::vector<Row> bins_;
  std::vector<double> sums_;
  // Sequences of each rank, and whether these must be equal.
  std::vector<uint64_t> counts_;
  const bool keeps_counts_;
  const EvenCounts even_;
  uint64_t larger_ = 0;  // ranks that have one more than others
  std::vector<uint32_t> bin_of_;
  // The tokens that all items have in common.
  const uint32_t common_;
  // Of ranks where bins are looked at by these, else one of all bins; and ranks by their sums.
  std::vector<RowOrder> in_order_;
  std::set<std::pair<double, uint32_t>> ranks_;
  std::set<std::pair<uint64_t, uint32_t>> by_tokens_;
};

}  // namespace

uint64_t SlotsOf(const Pass& pass, const RowItems& items, std::span<const TreePiece> pieces) {
  const PackedPieces packed(pass, items, pieces);
  const size_t bins = PackBestFitDecreasing(packed.items.ForPacking(), packed.limits).size();
  return pass.counts().RoundUp((bins + pass.ranks() - 1) / pass.ranks());
}

std::optional<std::vector<Row>> BalancePieces(const Pass& pass, const RowItems& items,
                                              const RowTerms& terms,
                                              std::span<const TreePiece> pieces,
                                              const Allowance& allowance) {
  const size_t count = size_t{terms.ranks} * terms.slots;
  PackedPieces of_pieces(pass, items, pieces);
  if (pieces.size() < count && (!terms.may_empty || !of_pieces.FillUpTo(count))) {
    return std::nullopt;
  }
  const BinLimits& limits = of_pieces.limits;
  const PackItems packed = of_pieces.items.ForPacking();
  Bins bins;
  if (terms.synchronization == Synchronization::kLockstep) {
    std::optional<BalancedBins> balanced = BalanceLockstep({.items = packed,
                                                            .limits = limits,
                                                            .ranks = terms.ranks,
                                                            .slots = terms.slots,
                                                            .rank_of = {},
                                                            .effort = pass.effort(),
                                                            .allowance = allowance});
    if (!balanced) return std::nullopt;
    bins = std::move(balanced->bins);
  } else {
    std::optional<Bins> start = PackInto(packed, limits, count, Effort::kFast, allowance);
    if (!start) return std::nullopt;
    bins = BalanceAccumulated(packed, limits, terms.ranks, terms.slots, *start, pass.effort(),
                              allowance);
  }
  std::vector<Row> result;
  for (size_t bin = 0; bin < bins.size(); ++bin) {
    std::vector<uint32_t> own;
    for (const uint32_t piece : bins[bin]) {
      if (piece >= pieces.size()) continue;
      for (uint32_t i = 0; i < pieces[piece].count; ++i) own.push_back(pieces[piece].first + i);
    }
    std::ranges::sort(own);
    result.push_back(BinOf(items, std::move(own)));
  }
  return result;
}

std::optional<std::vector<Row>> FillWithPieces(const RowItems& items, const RowTerms& terms,
                                               std::span<const TreePiece> pieces,
                                               PieceChoice choice,
                                               std::span<const uint32_t> rank_of,
                                               const Allowance& allowance) {
  // If ranks are given, a piece ends where the rank changes.
  std::vector<std::pair<double, TreePiece>> by_cost;
  for (const TreePiece& piece : pieces) {
    for (uint32_t first = piece.first; first < piece.first + piece.count;) {
      uint32_t end = first + 1;
      while (end < piece.first + piece.count &&
             (rank_of.empty() || rank_of[end] == rank_of[first])) {
        ++end;
      }
      std::vector<uint32_t> own(end - first);
      std::iota(own.begin(), own.end(), first);
      by_cost.emplace_back(-SizeOf(items, terms, choice, BinOf(items, std::move(own))),
                           TreePiece{first, end - first});
      first = end;
    }
  }
  std::ranges::stable_sort(by_cost, {}, &std::pair<double, TreePiece>::first);
  PieceFiller filler(items, terms, choice, rank_of);
  size_t put = 0;
  for (const auto& [cost, piece] : by_cost) {
    if (put++ % kPiecesPerLook == 0 && allowance.stop_requested()) return std::nullopt;
    if (!filler.Put(piece)) return std::nullopt;
  }
  if (!terms.may_empty && !filler.FillEmpty()) return std::nullopt;
  return filler.Take();
}

std::optional<std::vector<Row>> CutIntoRuns(const RowItems& items, const RowTerms& terms) {
  const size_t bins = size_t{terms.ranks} * terms.slots;
  if (items.size() < bins) return std::nullopt;
  std::vector<uint32_t> ends;
  // The fewest runs of at most this cost.
  const auto cut = [&](double most) {
    ends.clear();
    uint64_t tokens = 0;
    uint64_t sequences = 0;
    double cost = 0;
    for (uint32_t item = 0; item < items.size(); ++item) {
      const uint32_t common = item == 0 ? 0 : items.Common(item - 1, item);
      const bool ends_here =
          sequences > 0 && (tokens + items.tokens(item) - common > terms.capacity ||
                            sequences + items.count(item) > terms.max_sequences ||
                            cost + items.cost(item) - items.path_cost()(common) > most);
      if (ends_here) {
        ends.push_back(item);
        tokens = sequences = 0;
        cost = 0;
      }
      const bool begins = sequences == 0;
      tokens += items.tokens(item) - (begins ? 0 : common);
      cost += items.cost(item) - (begins ? 0 : items.path_cost()(common));
      sequences += items.count(item);
    }
    ends.push_back(items.size());
    return ends.size() <= bins;
  };
  double high = 0;
  for (uint32_t item = 0; item < items.size(); ++item) high += items.cost(item);
  if (!cut(high)) return std::nullopt;
  double low = 0;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (cut(middle) ? high : low) = middle;
  }
  cut(high);
  std::vector<Row> result;
  uint32_t begin = 0;
  // The longest runs are halved until there are as many as bins.
  std::vector<std::pair<uint32_t, uint32_t>> runs;
  for (const uint32_t end : ends) {
    runs.emplace_back(begin, end);
    begin = end;
  }
  while (runs.size() < bins) {
    const auto longest =
        std::ranges::max_element(runs, {}, [](const auto& run) { return run.second - run.first; });
    const uint32_t middle = longest->first + (longest->second - longest->first) / 2;
    const uint32_t end = longest->second;
    longest->second = middle;
    runs.emplace_back(middle, end);
  }
  for (const auto& [first, end] : runs) {
    std::vector<uint32_t> own(end - first);
    std::iota(own.begin(), own.end(), first);
    result.push_back(BinOf(items, std::move(own)));
  }
  return result;
}

}  // namespace batchplan
