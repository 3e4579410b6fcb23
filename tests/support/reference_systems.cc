#include "tests/support/reference_systems.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

namespace batchplan::testing {
namespace {

struct Bin {
  uint64_t room;
  std::vector<uint32_t> items;
  bool has_medium = false;
};

// The sequences of one size class of MFFD, ascending by length.
class SizeClass {
 public:
  explicit SizeClass(std::span<const uint32_t> lengths) : lengths_(lengths) {}

  void Add(uint32_t item) { items_.push_back(item); }
  void Sort() {
    std::sort(items_.begin(), items_.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(lengths_[a], a) < std::pair(lengths_[b], b);
    });
  }
  size_t size() const { return items_.size(); }
  uint32_t length(size_t k) const { return lengths_[items_[k]]; }
  const std::vector<uint32_t>& items() const { return items_; }

  // How many sequences are at most `room` long; the last of these is the largest that fits.
  size_t Fitting(uint64_t room) const {
    return std::partition_point(items_.begin(), items_.end(),
                                [&](uint32_t item) { return lengths_[item] <= room; }) -
           items_.begin();
  }
  uint32_t Take(size_t k) {
    const uint32_t item = items_[k];
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(k));
    return item;
  }

 private:
  std::span<const uint32_t> lengths_;
  std::vector<uint32_t> items_;
};

class NemoRlPacker {
 public:
  NemoRlPacker(std::span<const uint32_t> lengths, uint32_t capacity)
      : lengths_(lengths),
        capacity_(capacity),
        large_(lengths),
        medium_(lengths),
        small_(lengths),
        tiny_(lengths) {
    for (uint32_t i = 0; i < lengths.size(); ++i) {
      const uint64_t length = lengths[i];
      (2 * length > capacity   ? large_
       : 3 * length > capacity ? medium_
       : 6 * length > capacity ? small_
                               : tiny_)
          .Add(i);
    }
    for (SizeClass* c : {&large_, &medium_, &small_, &tiny_}) c->Sort();
  }

  std::vector<std::vector<uint32_t>> Pack() {
    while (large_.size() > 0) Open(bins_, large_.Take(large_.size() - 1));
    AddMedium();
    AddTwoSmall();
    AddWhatFits();
    AddLeftovers();
    std::vector<std::vector<uint32_t>> packed;
    for (Bin& bin : bins_) packed.push_back(std::move(bin.items));
    return packed;
  }

 private:
  void Put(Bin& bin, uint32_t item) {
    bin.items.push_back(item);
    bin.room -= lengths_[item];
  }

  void Open(std::vector<Bin>& bins, uint32_t item) {
    bins.push_back({.room = capacity_, .items = {}});
    Put(bins.back(), item);
  }

  void AddMedium() {
    for (Bin& bin : bins_) {
      const size_t fitting = medium_.Fitting(bin.room);
      if (fitting == 0) continue;
      Put(bin, medium_.Take(fitting - 1));
      bin.has_medium = true;
    }
  }

  void AddTwoSmall() {
    for (size_t b = bins_.size(); b-- > 0;) {
      Bin& bin = bins_[b];
      if (bin.has_medium || small_.size() < 2) continue;
      if (uint64_t{small_.length(0)} + small_.length(1) > bin.room) continue;
      Put(bin, small_.Take(0));
      Put(bin, small_.Take(small_.Fitting(bin.room) - 1));
    }
  }

  void AddWhatFits() {
    for (Bin& bin : bins_) {
      for (;;) {
        // The largest sequence of any class that fits.
        SizeClass* const classes[] = {&medium_, &small_, &tiny_};
        const auto found = std::find_if(std::begin(classes), std::end(classes),
                                        [&](SizeClass* c) { return c->Fitting(bin.room) > 0; });
        if (found == std::end(classes)) break;
        Put(bin, (*found)->Take((*found)->Fitting(bin.room) - 1));
      }
    }
  }

  void AddLeftovers() {
    std::vector<Bin> leftover;
    for (SizeClass* c : {&medium_, &small_, &tiny_}) {
      while (c->size() > 0) {
        const uint32_t item = c->Take(c->size() - 1);
        const auto emptiest =
            std::max_element(leftover.begin(), leftover.end(),
                             [](const Bin& a, const Bin& b) { return a.room < b.room; });
        if (emptiest != leftover.end() && emptiest->room >= lengths_[item]) {
          Put(*emptiest, item);
        } else {
          Open(leftover, item);
        }
      }
    }
    std::move(leftover.begin(), leftover.end(), std::back_inserter(bins_));
  }

  std::span<const uint32_t> lengths_;
  uint32_t capacity_;
  SizeClass large_, medium_, small_, tiny_;
  std::vector<Bin> bins_;
};

// One set of a Karmarkar-Karp state. Sets are ordered by sum, then count, then items.
struct Set {
  uint64_t sum = 0;
  std::vector<uint32_t> items;

  friend bool operator<(const Set& a, const Set& b) {
    const size_t a_size = a.items.size();
    const size_t b_size = b.items.size();
    return std::tie(a.sum, a_size, a.items) < std::tie(b.sum, b_size, b.items);
  }
};

// k sets in descending order.
struct State {
  std::vector<Set> sets;

  uint64_t spread() const { return sets.front().sum - sets.back().sum; }
  void Sort() {
    std::sort(sets.begin(), sets.end(), [](const Set& a, const Set& b) { return b < a; });
  }
  // Whether the other state is merged first.
  friend bool operator<(const State& a, const State& b) {
    if (a.spread() != b.spread()) return a.spread() < b.spread();
    return a.sets.front() < b.sets.front();
  }
};

std::vector<uint64_t> Workloads(std::span<const uint32_t> lengths) {
  std::vector<uint64_t> workloads;
  for (const uint64_t length : lengths) workloads.push_back(24576 * length + length * length);
  return workloads;
}

// Sorts by descending cost, with the even places reversed and the odd ones behind them.
void PutSmallAtBothEnds(std::vector<std::vector<uint32_t>>& microbatches,
                        std::span<const uint64_t> workloads) {
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t m = 0; m < microbatches.size(); ++m) {
    uint64_t cost = 0;
    for (const uint32_t item : microbatches[m]) cost += workloads[item];
    order.emplace_back(cost, m);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(b.first, a.second) < std::pair(a.first, b.second);
  });
  std::vector<std::vector<uint32_t>> ordered;
  for (size_t place = (order.size() + 1) / 2; place-- > 0;) {
    ordered.push_back(std::move(microbatches[order[2 * place].second]));
  }
  for (size_t place = 1; place < order.size(); place += 2) {
    ordered.push_back(std::move(microbatches[order[place].second]));
  }
  microbatches = std::move(ordered);
}

RankMicrobatches MicrobatchesOf(const std::vector<std::vector<uint32_t>>& ranks,
                                std::span<const uint32_t> lengths, uint32_t capacity) {
  uint64_t k = 0;
  for (const std::vector<uint32_t>& rank : ranks) {
    uint64_t tokens = 0;
    for (const uint32_t item : rank) tokens += lengths[item];
    k = std::max<uint64_t>(k, std::min<uint64_t>(rank.size(), (tokens + capacity - 1) / capacity));
  }
  const std::vector<uint64_t> workloads = Workloads(lengths);
  RankMicrobatches plan;
  for (const std::vector<uint32_t>& rank : ranks) {
    std::vector<uint64_t> loads;
    for (const uint32_t item : rank) loads.push_back(workloads[item]);
    std::vector<std::vector<uint32_t>> sets =
        VerlPartition(loads, static_cast<uint32_t>(k), /*equal_sizes=*/false);
    for (std::vector<uint32_t>& set : sets) {
      for (uint32_t& item : set) item = rank[item];
    }
    PutSmallAtBothEnds(sets, workloads);
    plan.push_back(std::move(sets));
  }
  return plan;
}

}  // namespace

std::vector<std::vector<uint32_t>> NemoRlBins(std::span<const uint32_t> lengths,
                                              uint32_t capacity) {
  return NemoRlPacker(lengths, capacity).Pack();
}

void NemoRlAddBins(std::vector<std::vector<uint32_t>>& bins, uint32_t multiple) {
  while (bins.size() % multiple != 0) {
    const auto fullest = std::max_element(
        bins.begin(), bins.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const uint32_t moved = fullest->back();
    fullest->pop_back();
    bins.push_back({moved});
  }
}

RankMicrobatches NemoRlPlan(std::span<const uint32_t> lengths, uint32_t capacity, uint32_t ranks) {
  std::vector<std::vector<uint32_t>> bins = NemoRlBins(lengths, capacity);
  NemoRlAddBins(bins, ranks);
  RankMicrobatches plan(ranks);
  for (size_t bin = 0; bin < bins.size(); ++bin) plan[bin % ranks].push_back(std::move(bins[bin]));
  return plan;
}

std::vector<std::vector<uint32_t>> VerlPartition(std::span<const uint64_t> loads, uint32_t k,
                                                 bool equal_sizes) {
  std::vector<std::pair<uint64_t, uint32_t>> ascending;
  for (uint32_t i = 0; i < loads.size(); ++i) ascending.emplace_back(loads[i], i);
  std::sort(ascending.begin(), ascending.end());

  std::priority_queue<State> states;
  const size_t run = equal_sizes ? k : 1;
  for (size_t first = 0; first < ascending.size(); first += run) {
    State state;
    for (size_t i = first; i < first + run; ++i) {
      state.sets.push_back({.sum = ascending[i].first, .items = {ascending[i].second}});
    }
    state.sets.resize(k);
    state.Sort();
    states.push(std::move(state));
  }
  while (states.size() > 1) {
    State merged = states.top();
    states.pop();
    const State other = states.top();
    states.pop();
    for (size_t i = 0; i < k; ++i) {
      const Set& from = other.sets[k - 1 - i];
      merged.sets[i].sum += from.sum;
      merged.sets[i].items.insert(merged.sets[i].items.end(), from.items.begin(), from.items.end());
    }
    merged.Sort();
    states.push(std::move(merged));
  }
  std::vector<std::vector<uint32_t>> parts;
  for (const Set& set : states.top().sets) {
    parts.push_back(set.items);
    std::sort(parts.back().begin(), parts.back().end());
  }
  return parts;
}

RankMicrobatches VerlPlan(std::span<const uint32_t> lengths, uint32_t capacity, uint32_t ranks) {
  return MicrobatchesOf(VerlPartition(Workloads(lengths), ranks, /*equal_sizes=*/true), lengths,
                        capacity);
}

RankMicrobatches RollPlan(std::span<const uint32_t> lengths, uint32_t capacity, uint32_t ranks) {
  const std::vector<uint64_t> tokens(lengths.begin(), lengths.end());
  return MicrobatchesOf(VerlPartition(tokens, ranks, /*equal_sizes=*/true), lengths, capacity);
}

}  // namespace batchplan::testing
