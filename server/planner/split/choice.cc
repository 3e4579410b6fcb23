#include "server/planner/split/choice.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace batchplan {
namespace {

// A choice that gains less is not worth overtaking units that came first.
constexpr double kWorthPassing = 1e-4;
// Runs of an order that are tried.
constexpr size_t kRuns = 12;

using Seats = std::vector<uint32_t>;

class Search {
 public:
  // Best will have the `most` best choices below `to_beat`.
  Search(const WaitingPool& pool, const StepRatio& ratio, double to_beat, uint64_t evaluations,
         size_t most, const Allowance& allowance)
      : pool_(pool),
        ratio_(ratio),
        good_(to_beat * (1 - kWorthPassing)),
        left_(evaluations),
        most_(most),
        allowance_(allowance) {
    for (uint32_t position = 0; position < pool.open().size(); ++position) {
      classes_[SizeOf(position)].push_back(position);
    }
    for (const uint32_t position : pool.first_choice()) ++seats_[SizeOf(position)];
    Try({pool.first_choice().begin(), pool.first_choice().end()});
  }

  // Tries runs of each class in the order of `costs`, which are by unit, and each end of the order
  // for a part of the seats.
  void TryOrder(std::span<const double> costs) {
    if (is_over()) return;
    std::map<uint64_t, Seats> ascending = classes_;
    for (auto& [size, positions] : ascending) {
      std::ranges::stable_sort(positions, {}, [&](uint32_t p) { return costs[pool_.open()[p]]; });
    }
    for (size_t run = 0; run <= kRuns && !is_over(); ++run) {
      Seats chosen;
      for (const auto& [size, positions] : ascending) {
        const size_t seats = SeatsOf(size);
        const size_t first = (positions.size() - seats) * run / kRuns;
        chosen.insert(chosen.end(), positions.begin() + static_cast<std::ptrdiff_t>(first),
                      positions.begin() + static_cast<std::ptrdiff_t>(first + seats));
      }
      Try(std::move(chosen));
    }
    for (const bool dearest : {true, false}) {
      for (const size_t eighths : {1, 2, 4, 6}) {
        if (is_over()) return;
        Seats chosen;
        for (const auto& [size, positions] : ascending) {
          FillEnd(positions, SeatsOf(size), SeatsOf(size) * eighths / 8, dearest, chosen);
        }
        Try(std::move(chosen));
      }
    }
  }

  // Exchanges units of the best choice for others, as long as that makes it better.
  void Improve() {
    if (best_.empty() || best_.size() == open()) return;
    std::vector<bool> in(open(), false);
    for (const uint32_t position : best_) in[position] = true;
    uint64_t tokens = TokensOf(best_);
    std::minstd_rand random(1);
    for (uint64_t failed = 0; !is_over() && failed < 4 * open(); ++failed) {
      const size_t place = random() % best_.size();
      const uint32_t out = best_[place];
      const Seats& alike = classes_[SizeOf(out)];
      const uint32_t other = alike[random() % alike.size()];
      if (in[other]) continue;
      const uint64_t others = tokens - pool_.TokensOf(pool_.open()[out]);
      const uint64_t with = others + pool_.TokensOf(pool_.open()[other]);
      if (with > pool_.max_open_tokens()) continue;
      Seats next = best_;
      next[place] = other;
      const double before = best_ratio_;
      // A choice that was tried before counts too, as it is slow to recognise.
      if (!Try(std::move(next))) --left_;
      if (best_ratio_ == before) continue;
      in[out] = false;
      in[other] = true;
      tokens = with;
      failed = 0;
    }
  }

  // The best choices, without first in, first out.
  std::vector<Seats> Best() const {
    std::vector<Seats> best;
    for (const auto& [ratio, seats] : tried_) {
      if (best.size() == most_ || ratio >= good_) break;
      if (seats != first_) best.push_back(seats);
    }
    return best;
  }

 private:
  size_t open() const { return pool_.open().size(); }
  bool is_over() const { return left_ == 0 || allowance_.stop_requested(); }
  // A unit is exchanged only for one of this size. All have one size if nothing has to add up.
  uint64_t SizeOf(uint32_t position) const {
    return pool_.adds_up() ? pool_.units()[pool_.open()[position]].size() : 0;
  }
  size_t SeatsOf(uint64_t size) const {
    const auto seats = seats_.find(size);
    return seats == seats_.end() ? 0 : seats->second;
  }

  // Gives `of_order` seats to one end of an order of positions, the rest to those that came first.
  static void FillEnd(const Seats& order, size_t seats, size_t of_order, bool last, Seats& chosen) {
    Seats rest(order);
    if (last) std::ranges::reverse(rest);
    chosen.insert(chosen.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(of_order));
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(of_order));
    std::ranges::sort(rest);
    chosen.insert(chosen.end(), rest.begin(),
                  rest.begin() + static_cast<std::ptrdiff_t>(seats - of_order));
  }

  uint64_t TokensOf(const Seats& seats) const {
    uint64_t tokens = 0;
    for (const uint32_t position : seats) tokens += pool_.TokensOf(pool_.open()[position]);
    return tokens;
  }

  // Evaluates a choice if it is the first, or was not tried before and keeps within the tokens.
  // Returns whether it did.
  bool Try(Seats seats) {
    std::ranges::sort(seats);
    const bool first = seen_.empty();
    if (!first && (is_over() || TokensOf(seats) > pool_.max_open_tokens())) return false;
    if (!seen_.insert(seats).second) return false;
    if (!first) --left_;
    const double ratio = ratio_(pool_.Sequences(seats), Enough());
    if (first) first_ = seats;
    if (first || ratio < best_ratio_ * (1 - kWorthPassing)) {
      best_ratio_ = ratio;
      best_ = seats;
    }
    tried_.emplace(ratio, std::move(seats));
    if (tried_.size() > kKept) tried_.erase(std::prev(tried_.end()));
    return true;
  }

  // A choice of this ratio is neither the best nor among those of Best.
  double Enough() const {
    if (seen_.size() == 1) return std::numeric_limits<double>::infinity();
    double last = good_;
    size_t others = 0;
    for (auto tried = tried_.begin(); tried != tried_.end() && others < most_; ++tried) {
      if (tried->second != first_ && ++others == most_) last = std::min(last, tried->first);
    }
    return std::max(last, best_ratio_ * (1 - kWorthPassing));
  }

  static constexpr size_t kKept = 64;

  const WaitingPool& pool_;
  const StepRatio& ratio_;
  const double good_;
  uint64_t left_;
  const size_t most_;
  const Allowance& allowance_;
  std::map<uint64_t, Seats> classes_;
  std::map<uint64_t, size_t> seats_;
  Seats first_;
  double best_ratio_ = 0;
  Seats best_;
  std::set<Seats> seen_;
  // The best choices of those tried.
  std::multimap<double, Seats> tried_;
};

}  // namespace

std::vector<std::vector<uint32_t>> Choices(const WaitingPool& pool,
                                           std::span<const double> unit_costs,
                                           std::span<const double> unit_longest,
                                           const StepRatio& ratio, double to_beat,
                                           uint64_t evaluations, size_t most,
                                           const Allowance& allowance) {
  if (pool.first_choice().empty() || pool.first_choice().size() == pool.open().size()) return {};
  Search search(pool, ratio, to_beat, evaluations, most, allowance);
  search.TryOrder(unit_longest);
  search.TryOrder(unit_costs);
  search.Improve();
  return search.Best();
}

}  // namespace batchplan
