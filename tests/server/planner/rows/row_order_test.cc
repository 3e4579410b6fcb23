#include "server/planner/rows/row_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;

constexpr double kFirst = -std::numeric_limits<double>::infinity();

SearchedLoad LimitedTo(double most) {
  SearchedLoad load;
  load.most = most;
  return load;
}

Row RandomRow(RandomStream& random) {
  Row row;
  row.sequences = static_cast<uint32_t>(random.Between(0, 10));
  if (row.sequences == 0) return row;
  row.tokens = random.Between(1, 100);
  row.loads.sums[0] = static_cast<double>(random.Between(0, 50));
  row.loads.sums[1] = random.Uniform();
  return row;
}

bool HasRoom(const Row& row, const RowNeed& need, const RowTerms& terms,
             const std::vector<SearchedLoad>& searched) {
  if (row.sequences == 0 && need.is_one) return true;
  bool has_room = row.tokens + need.tokens <= terms.capacity &&
                  row.sequences + need.sequences <= terms.max_sequences;
  for (size_t load = 0; load < searched.size(); ++load) {
    has_room = has_room && row.loads.sums[load] + need.loads[load] <= searched[load].most;
  }
  return has_room;
}

TEST(RowOrderTest, FindsRowsInOrderAndLeavesOutNoneWithRoom) {
  const std::vector<SearchedLoad> searched = {LimitedTo(50), LimitedTo(1)};
  const RowTerms terms = {.capacity = 100, .max_sequences = 10};
  for (const uint64_t seed : testing::Seeds(20)) {
    RandomStream random(seed);
    std::vector<Row> rows(random.Between(1, 600));
    std::vector<double> keys(rows.size(), 0);
    RowOrder order(searched, terms, rows);
    std::set<std::pair<double, uint32_t>> expected;
    const auto insert = [&](uint32_t row) {
      order.Insert(keys[row], row);
      expected.emplace(keys[row], row);
    };
    for (uint32_t row = 0; row < rows.size(); ++row) insert(row);
    for (int change = 0; change < 1000; ++change) {
      const auto row = static_cast<uint32_t>(random.Between(0, rows.size() - 1));
      order.Erase(keys[row], row);
      expected.erase({keys[row], row});
      keys[row] = static_cast<double>(random.Between(0, 100));
      rows[row] = RandomRow(random);
      insert(row);
    }
    for (int i = 0; i < 100; ++i) {
      const std::vector<double> loads = {static_cast<double>(random.Between(0, 60)),
                                         random.Uniform()};
      const RowNeed need = {.tokens = random.Between(1, 120),
                            .sequences = random.Between(1, 3),
                            .loads = loads,
                            .is_one = random.Chance(50)};
      const double key = random.Chance(50) ? kFirst : static_cast<double>(random.Between(0, 110));
      std::vector<uint32_t> all;
      order.Find(key, nullptr, [&](uint32_t row) {
        all.push_back(row);
        return false;
      });
      std::vector<uint32_t> with_room;
      order.Find(key, &need, [&](uint32_t row) {
        if (HasRoom(rows[row], need, terms, searched)) with_room.push_back(row);
        return false;
      });
      std::vector<uint32_t> expected_all;
      for (auto at = expected.lower_bound({key, 0}); at != expected.end(); ++at) {
        expected_all.push_back(at->second);
      }
      ASSERT_EQ(all, expected_all) << "seed " << seed;
      std::erase_if(expected_all,
                    [&](uint32_t row) { return !HasRoom(rows[row], need, terms, searched); });
      ASSERT_EQ(with_room, expected_all) << "seed " << seed;
    }
  }
}

TEST(RowOrderTest, PassesOverRowsWithoutRoom) {
  const std::vector<SearchedLoad> searched = {LimitedTo(10)};
  const RowTerms terms = {.capacity = 100, .max_sequences = 10};
  std::vector<Row> rows(10'000);
  RowOrder order(searched, terms, rows);
  for (uint32_t row = 0; row < rows.size(); ++row) {
    rows[row].sequences = 1;
    rows[row].loads.sums[0] = row == 9'000 ? 9 : 10;
    order.Insert(row, row);
  }
  const std::vector<double> loads = {1};
  const RowNeed need = {.tokens = 1, .sequences = 1, .loads = loads};
  std::vector<uint32_t> looks;
  order.Find(kFirst, &need, [&](uint32_t row) {
    looks.push_back(row);
    return row == 9'000;
  });
  EXPECT_THAT(looks, ::testing::Contains(9'000));
  EXPECT_LT(looks.size(), 200);
}

}  // namespace
}  // namespace batchplan
