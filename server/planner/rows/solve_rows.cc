#include "server/planner/rows/solve_rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "server/planner/pass/mini_batch_tree.h"
#include "server/planner/pass/slot_loads.h"
#include "server/planner/pass/step_time.h"
#include "server/planner/ranks/more_slots.h"
#include "server/planner/ranks/tree_bounds.h"
#include "server/planner/request/seeds.h"
#include "server/planner/rows/band_starts.h"
#include "server/planner/rows/row.h"
#include "server/planner/rows/row_items.h"
#include "server/planner/rows/row_placement.h"
#include "server/planner/rows/row_search.h"
#include "server/planner/rows/row_starts.h"

namespace batchplan {
namespace {

// Pieces cost at most this part of a mean row, and save at least this part of their cost. Large
// pieces are also balanced as if they shared nothing.
struct PieceSize {
  double cost;
  double worth;
  bool is_large;
  // Whether kFast has it.
  bool is_quick;
};
constexpr double kAnyCost = std::numeric_limits<double>::infinity();
constexpr PieceSize kWhole = {.cost = kAnyCost, .worth = 0, .is_large = true, .is_quick = true};
constexpr PieceSize kSingles = {.cost = 0, .worth = 1, .is_large = false, .is_quick = false};
constexpr PieceSize kPieceSizes[] = {
    kWhole,
    {.cost = kAnyCost, .worth = 0.1, .is_large = true, .is_quick = false},
    {.cost = 1, .worth = 0.1, .is_large = true, .is_quick = true},
    {.cost = 0.6, .worth = 0.1, .is_large = false, .is_quick = false},
    {.cost = 0.35, .worth = 0.1, .is_large = false, .is_quick = true}};

// The pairs of rows looked at for each sequence, and the least of all.
struct SearchEffort {
  double pairs_a_sequence;
  uint64_t least_pairs;
  // The numbers of slots tried beyond the fewest, and the starts improved to the end.
  int more_slots;
  size_t improved;
};

// Below kThorough rows that share are searched twice as long: a move also changes how many tokens
// there are.
SearchEffort EffortOf(Effort effort, bool shares) {
  const double times = shares ? 2 : 1;
  switch (effort) {
    case Effort::kFast:
      return {.pairs_a_sequence = times * 0.25,
              .least_pairs = static_cast<uint64_t>(times * 200),
              .more_slots = 0,
              .improved = 1};
    case Effort::kThorough:
      return {.pairs_a_sequence = 40, .least_pairs = 20000, .more_slots = 4, .improved = 4};
    default:
      return {.pairs_a_sequence = times * 2.5,
              .least_pairs = static_cast<uint64_t>(times * 1500),
              .more_slots = 3,
              .improved = 2};
  }
}

// Larger mini-batches begin with pieces of one size and the fewest slots.
constexpr size_t kMostForAllStarts = 8192;
// Larger mini-batches have as many pairs looked at as one of this many sequences.
constexpr size_t kMostForPairs = 16384;

class RowSolver {
 public:
  RowSolver(const Pass& pass, std::span<const SequenceIndex> sequences,
            std::span<const uint32_t> rank_of, const SearchContext& context)
      : pass_(pass),
        sequences_(sequences),
        context_(context),
        tree_(pass, sequences),
        items_(RowItems::Create(pass, tree_)),
        groups_keep_rank_(pass.groups_keep_rank() && !pass.groups_keep_microbatch()),
        may_exceed_(!pass.loads().limits().empty() || pass.row_multiple() > 1),
        deals_within_limits_(pass.loads().deals_within_limits()),
        fixed_slots_(deals_within_limits_ || !pass.loads().phases().empty()) {
    if (!items_) return;
    pieces_.emplace(*items_);
    item_of_.resize(sequences.size());
    for (uint32_t item = 0; item < items_->size(); ++item) {
      for (uint32_t i = 0; i < items_->count(item); ++i) {
        const SequenceIndex sequence = tree_[items_->first(item) + i];
        item_of_[PlaceOf(sequence)] = item;
      }
    }
    if (rank_of.empty()) {
      ShardGroups();
      return;
    }
    rank_of_.resize(items_->size());
    for (size_t i = 0; i < sequences.size(); ++i) {
      rank_of_[item_of_[PlaceOf(sequences[i])]] = rank_of[i];
    }
  }

  std::vector<Placement> Solve(std::vector<Placement> others, std::vector<Placement> presets) {
    std::vector<RowSearch> starts;
    if (items_ && !sequences_.empty() && NeedsSearch(others)) starts = ImprovedStarts(others);
    for (Placement& preset : presets) others.push_back(std::move(preset));
    // The others too: the items of a slot are dealt together.
    for (Placement& other : others) other.whole_slots = other.whole_slots || deals_within_limits_;
    std::erase_if(others, [&](const Placement& other) {
      return !KeepsLimits(pass_, other.microbatches, other.slots);
    });
    for (const RowSearch& start : starts) {
      if (!start.keeps_limits()) continue;
      Placement placement = PlacementOf(pass_, tree_, *items_, start);
      // If ranks keep their rows, moving empty ones may have changed which rows share a slot.
      if (deals_within_limits_ && !KeepsLimits(pass_, placement.microbatches, placement.slots)) {
        continue;
      }
      others.push_back(std::move(placement));
    }
    return InOrder(std::move(others));
  }

 private:
  // False if plain passes know all costs of rows and their placements are within limits.
  bool NeedsSearch(const std::vector<Placement>& others) const {
    const bool is_plain =
        pass_.prefixes() == nullptr && pass_.loads().phases().empty() && pass_.row_multiple() == 1;
    return !is_plain || std::ranges::none_of(others, [&](const Placement& other) {
      return KeepsLimits(pass_, other.microbatches, other.slots);
    });
  }

  // The best of the searches that start from `others` and from new rows.
  std::vector<RowSearch> ImprovedStarts(const std::vector<Placement>& others) {
    const SearchEffort effort =
        EffortOf(Affordable(pass_.effort(), context_.allowance), items_->shares());
    std::vector<RowSearch> starts;
    for (const Placement& other : others) AddStart(BinsOf(other), other.slots, starts);
    AddStarts(effort, others, starts);
    const auto pairs = static_cast<uint64_t>(
        std::max(static_cast<double>(effort.least_pairs),
                 effort.pairs_a_sequence *
                     static_cast<double>(std::min<size_t>(items_->size(), kMostForPairs))));
    // All starts a little, the best to the end.
    bool some_keep = std::ranges::any_of(starts, &RowSearch::keeps_limits);
    for (RowSearch& start : starts) {
      if (may_exceed_ && !start.keeps_limits()) {
        start.KeepLimits(context_.allowance, some_keep);
        some_keep = some_keep || start.keeps_limits();
      }
      start.Improve(pairs / 128, context_.allowance);
    }
    SortByTime(starts);
    if (starts.size() > 3 * effort.improved)
      starts.erase(starts.begin() + static_cast<ptrdiff_t>(3 * effort.improved), starts.end());
    for (RowSearch& start : starts) start.Improve(pairs / 16, context_.allowance);
    SortByTime(starts);
    if (starts.size() > effort.improved)
      starts.erase(starts.begin() + static_cast<ptrdiff_t>(effort.improved), starts.end());
    for (RowSearch& start : starts) start.Improve(pairs / effort.improved, context_.allowance);
    SortByTime(starts);
    return starts;
  }

  // The place of a sequence in `by_sequence_`.
  size_t PlaceOf(SequenceIndex sequence) {
    if (by_sequence_.empty()) {
      by_sequence_.assign(sequences_.begin(), sequences_.end());
      std::ranges::sort(by_sequence_);
    }
    return std::ranges::lower_bound(by_sequence_, sequence) - by_sequence_.begin();
  }

  // If groups stay on a rank, gives each a rank: the costliest first, to the rank with least.
  void ShardGroups() {
    // Other code finds equal counts.
    if (!groups_keep_rank_ || pass_.options().keeps_counts()) return;
    std::map<uint32_t, std::vector<uint32_t>> groups;
    for (uint32_t item = 0; item < items_->size(); ++item) {
      groups[pass_.groups()[tree_[items_->first(item)]]].push_back(item);
    }
    std::vector<std::pair<double, std::vector<uint32_t>>> by_cost;
    by_cost.reserve(groups.size());
    for (auto& [group, own] : groups) {
      by_cost.emplace_back(-BinOf(*items_, own).cost, std::move(own));
    }
    std::ranges::stable_sort(by_cost, {}, &std::pair<double, std::vector<uint32_t>>::first);
    std::set<std::pair<double, uint32_t>> ranks;
    for (uint32_t rank = 0; rank < pass_.ranks(); ++rank) ranks.insert({0, rank});
    rank_of_.resize(items_->size());
    for (const auto& [cost, own] : by_cost) {
      const auto [sum, rank] = *ranks.begin();
      ranks.erase(ranks.begin());
      ranks.insert({sum - cost, rank});
      for (const uint32_t item : own) rank_of_[item] = rank;
    }
  }

  void UseRanksOf(const Placement& placement) {
    rank_of_.resize(items_->size());
    const std::vector<uint32_t> ranks = RanksOf(placement, by_sequence_);
    for (size_t i = 0; i < ranks.size(); ++i) rank_of_[item_of_[i]] = ranks[i];
  }

  RowTerms TermsOf(uint64_t slots) const {
    return {.synchronization = pass_.synchronization(),
            .ranks = pass_.ranks(),
            .slots = static_cast<uint32_t>(slots),
            .capacity = pass_.bin_limits().capacity,
            .max_sequences = pass_.bin_limits().max_sequences,
            .keeps_ranks = !rank_of_.empty() || groups_keep_rank_,
            .keeps_counts = pass_.options().keeps_counts(),
            .may_empty = pass_.allow_empty(),
            .dealt_limits_of = deals_within_limits_ ? &pass_ : nullptr,
            .fixed_slots = fixed_slots_};
  }

  // The time with the fixed costs of micro-batches and the time in which a pipeline fills.
  double TimeOf(const RowSearch& search) const {
    const double slots = search.terms().slots;
    const double time = search.time() + items_->path_cost().per_microbatch * slots;
    const Topology& topology = pass_.topology();
    const double filling = (topology.pipeline_parallel - 1.0) / topology.virtual_pipeline;
    return time * (1 + filling / slots);
  }
  void SortByTime(std::vector<RowSearch>& searches) const {
    std::ranges::stable_sort(searches, {}, [&](const RowSearch& search) { return TimeOf(search); });
  }

  std::vector<Row> BinsOf(const Placement& placement) {
    std::vector<Row> bins;
    bins.reserve(placement.microbatches.size());
    for (size_t m = 0; m < placement.microbatches.size(); ++m) {
      std::vector<uint32_t> own;
      for (const SequenceIndex sequence : placement.microbatches[m]) {
        own.push_back(item_of_[PlaceOf(sequence)]);
      }
      std::ranges::sort(own);
      own.erase(std::unique(own.begin(), own.end()), own.end());
      bins.push_back(BinOf(*items_, std::move(own)));
    }
    return bins;
  }

  void AddStart(std::vector<Row> bins, uint64_t slots, std::vector<RowSearch>& starts) {
    starts.emplace_back(*items_, TermsOf(slots), std::move(bins),
                        MixSeed(context_.seed, starts.size()));
  }

  uint64_t FewestSlots() const {
    if (rank_of_.empty()) {
      const uint64_t fewest = TreeBounds(pass_, sequences_).FewestMicrobatches();
      return pass_.counts().RoundUp((fewest + pass_.ranks() - 1) / pass_.ranks());
    }
    std::vector<std::vector<SequenceIndex>> shares(pass_.ranks());
    for (uint32_t item = 0; item < items_->size(); ++item) {
      for (uint32_t i = 0; i < items_->count(item); ++i) {
        shares[rank_of_[item]].push_back(tree_[items_->first(item) + i]);
      }
    }
    uint64_t fewest = 1;
    for (const auto& share : shares) {
      if (!share.empty()) fewest = std::max(fewest, TreeBounds(pass_, share).FewestMicrobatches());
    }
    return pass_.counts().RoundUp(fewest);
  }

  uint64_t MostSlots() const {
    std::vector<uint64_t> counts(pass_.ranks(), items_->size() / pass_.ranks());
    if (!rank_of_.empty()) {
      std::ranges::fill(counts, 0);
      for (const uint32_t rank : rank_of_) ++counts[rank];
    }
    return pass_.allow_empty() ? pass_.counts().RoundUp(std::ranges::max(counts) + 1)
                               : std::ranges::min(counts);
  }

  // Adds starts for the fewest slots that hold all items, and for a few more.
  void AddStarts(const SearchEffort& effort, const std::vector<Placement>& others,
                 std::vector<RowSearch>& starts) {
    if (groups_keep_rank_ && rank_of_.empty()) {
      if (others.empty()) return;
      UseRanksOf(others.front());
    }
    const uint64_t most = MostSlots();
    // More slots than `others` have are of no use, except for whole subtrees.
    uint64_t enough = 0;
    for (const Placement& other : others) enough = std::max<uint64_t>(enough, other.slots);
    if (enough == 0 || enough > most || may_exceed_) enough = most;
    int more = items_->size() > kMostForAllStarts || !items_->shares() ? 0 : effort.more_slots;
    uint64_t slots = FewestSlots();
    if (pass_.pipeline() != nullptr) {
      for (const uint64_t number :
           SlotsOnPipelines(pass_.counts(), *pass_.pipeline(), slots, most)) {
        AddStarts(number, starts);
      }
      return;
    }
    while (slots <= enough) {
      const size_t before = starts.size();
      AddStarts(slots, starts);
      // If nothing fits, numbers further apart are tried.
      const uint64_t step = starts.size() > before ? 1 : 1 + slots / 16;
      slots = pass_.counts().RoundUp(slots + step);
      if (starts.size() > before && more-- == 0) break;
    }
    if (!rank_of_.empty()) return;
    if (pass_.prefixes() == nullptr) return;
    // As many slots as whole subtrees need.
    const uint64_t whole = SlotsOf(pass_, *items_, PiecesOf(kWhole, 0));
    for (const uint64_t other : {whole, pass_.counts().RoundUp(whole + 1)}) {
      if (other >= slots && other <= most) AddStarts(other, starts);
      if (effort.more_slots == 0 || items_->size() > kMostForAllStarts) break;
    }
  }

  // For rows of mean cost `mean`.
  std::vector<TreePiece> PiecesOf(const PieceSize& size, double mean) const {
    return pieces_->Cut({.tokens = pass_.bin_limits().capacity,
                         .sequences = pass_.bin_limits().max_sequences,
                         .cost = size.cost == kAnyCost ? kAnyCost : mean * size.cost,
                         .worth = size.worth});
  }

  // Adds starts of balanced pieces. If there are fewer pieces than rows, some rows stay empty, or
  // the costliest pieces are cut; under kLockstep either may be faster. False if none is found.
  bool AddBalanced(const RowTerms& terms, std::span<const TreePiece> pieces,
                   std::vector<RowSearch>& starts) {
    const size_t rows = size_t{terms.ranks} * terms.slots;
    const size_t before = starts.size();
    const auto balance = [&](std::span<const TreePiece> own) {
      std::optional<std::vector<Row>> balanced =
          BalancePieces(pass_, *items_, terms, own, context_.allowance);
      if (balanced) AddStart(*std::move(balanced), terms.slots, starts);
    };
    if (pieces.size() >= rows || terms.may_empty) balance(pieces);
    if (pieces.size() < rows &&
        (starts.size() == before || terms.synchronization == Synchronization::kLockstep)) {
      std::vector<TreePiece> enough(pieces.begin(), pieces.end());
      if (pieces_->CutUpTo(rows, enough)) balance(enough);
    }
    return starts.size() > before;
  }

  void AddStarts(uint64_t slots, std::vector<RowSearch>& starts) {
    // At most as many as a plan may have.
    const uint64_t empty = pass_.allow_empty() ? pass_.most_with_empty() : 0;
    if (slots > (items_->size() + empty) / pass_.ranks()) return;
    const RowTerms terms = TermsOf(slots);
    double all = 0;
    for (uint32_t item = 0; item < items_->size(); ++item) {
      all += items_->cost(item) -
             (item == 0 ? 0 : items_->path_cost()(items_->Common(item - 1, item)));
    }
    const double mean = all / (static_cast<double>(slots) * pass_.ranks());
    const size_t before = starts.size();
    const bool few = items_->size() <= kMostForAllStarts;
    const bool is_fast = pass_.effort() == Effort::kFast;
    const bool is_free = rank_of_.empty() && !terms.keeps_counts;
    const bool shares = items_->shares();
    std::vector<std::vector<TreePiece>> tried;
    bool is_balanced = false;
    for (const PieceSize& size : kPieceSizes) {
      // Without sharing every sequence is a piece, whatever the size.
      if (!shares && size.cost != 1) continue;
      if ((!few && size.cost != 1) || (is_fast && !size.is_quick)) continue;
      // Beside balanced starts those of small pieces hardly win.
      if (is_balanced && !size.is_large && pass_.effort() == Effort::kDefault) continue;
      if (context_.allowance.stop_requested()) return;
      const std::vector<TreePiece> pieces = PiecesOf(size, mean);
      if (std::ranges::find(tried, pieces) != tried.end()) continue;
      tried.push_back(pieces);
      if (is_free && few && size.is_large && shares && !may_exceed_ && !fixed_slots_) {
        const bool found = AddBalanced(terms, pieces, starts);
        if (found && is_fast) continue;
        is_balanced = is_balanced || found;
      }
      std::optional<std::vector<Row>> bins = FillWithPieces(
          *items_, terms, pieces, PieceChoice::kCheapest, rank_of_, context_.allowance);
      if (bins) AddStart(*std::move(bins), slots, starts);
    }
    if (is_free && few && fixed_slots_) {
      for (const BandOrder order : {BandOrder::kByPhases, BandOrder::kByCost}) {
        std::optional<std::vector<Row>> bands = FillBands(*items_, terms, order);
        if (bands) AddStart(*std::move(bands), slots, starts);
      }
    }
    // If filling by cost finds no room, filling by tokens may.
    if (starts.size() == before) {
      for (const PieceSize& size : {kWhole, kSingles}) {
        if ((!few && size.worth == kSingles.worth) || (!shares && size.worth != kSingles.worth)) {
          continue;
        }
        std::optional<std::vector<Row>> bins =
            FillWithPieces(*items_, terms, PiecesOf(size, mean), PieceChoice::kFewestTokens,
                           rank_of_, context_.allowance);
        if (bins) AddStart(*std::move(bins), slots, starts);
      }
    }
    if (!is_free || is_fast || !shares || may_exceed_) return;
    std::optional<std::vector<Row>> runs = CutIntoRuns(*items_, terms);
    if (runs) AddStart(*std::move(runs), slots, starts);
  }

  std::vector<Placement> InOrder(std::vector<Placement> placements) const {
    std::vector<std::pair<Cost, size_t>> times;
    TriedSlots tried;
    for (size_t i = 0; i < placements.size(); ++i) {
      const bool affords = AffordsStepTime(pass_, placements[i], context_.allowance);
      const Cost time = affords ? StepTime(pass_, placements[i], context_.allowance)
                                : std::numeric_limits<Cost>::max();
      if (affords) NoteSlots(placements[i].slots, pass_.cost().ToUnits(time), tried);
      times.emplace_back(time, i);
    }
    std::ranges::sort(times);
    std::vector<Placement> sorted;
    for (const auto& [time, i] : times) {
      sorted.push_back(std::move(placements[i]));
      // Bounds proven by others are for sequences that share nothing.
      sorted.back().proven = {};
      sorted.back().tried = tried;
    }
    return sorted;
  }

  const Pass& pass_;
  const std::span<const SequenceIndex> sequences_;
  const SearchContext& context_;
  const MiniBatchTree tree_;
  const std::optional<RowItems> items_;
  std::optional<TreePieces> pieces_;
  // Whether groups stay on a rank, but not in one row.
  const bool groups_keep_rank_;
  // Whether rows may exceed limits, or miss a multiple, at first.
  const bool may_exceed_;
  const bool deals_within_limits_;
  // Whether the step depends on more than the costs of the rows that share a slot.
  const bool fixed_slots_;
  std::vector<SequenceIndex> by_sequence_;
  // By place in by_sequence_.
  std::vector<uint32_t> item_of_;
  // Of items, where ranks are given.
  std::vector<uint32_t> rank_of_;
};

}  // namespace

std::vector<Placement> SolveRows(const Pass& pass, std::span<const SequenceIndex> sequences,
                                 std::span<const uint32_t> rank_of, std::vector<Placement> others,
                                 std::vector<Placement> presets, const SearchContext& context) {
  return RowSolver(pass, sequences, rank_of, context).Solve(std::move(others), std::move(presets));
}

std::vector<uint32_t> RanksOf(const Placement& placement,
                              std::span<const SequenceIndex> sequences) {
  std::vector<std::pair<SequenceIndex, uint32_t>> ranks;
  for (size_t m = 0; m < placement.microbatches.size(); ++m) {
    for (const SequenceIndex sequence : placement.microbatches[m]) {
      ranks.emplace_back(sequence, static_cast<uint32_t>(m / placement.slots));
    }
  }
  std::ranges::sort(ranks);
  std::vector<uint32_t> rank_of;
  rank_of.reserve(sequences.size());
  for (const SequenceIndex sequence : sequences) {
    const auto at = std::ranges::lower_bound(ranks, std::pair(sequence, 0u));
    rank_of.push_back(at->second);
  }
  return rank_of;
}

}  // namespace batchplan
