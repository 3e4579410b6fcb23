#include "server/fitting/least_squares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tests/support/generators.h"

namespace batchplan {
namespace {

using testing::RandomStream;

// A random set of columns, at least one.
Columns RandomColumns(RandomStream& random) {
  return static_cast<Columns>(random.Between(1, kAllColumns));
}

// Rows whose columns differ in size by many orders of magnitude, as tokens and their squares do.
NormalEquations RandomEquations(RandomStream& random, PerColumn* sizes) {
  for (double& size : *sizes) size = std::pow(10.0, 14 * random.Uniform() - 4);
  NormalEquations equations;
  const uint64_t rows = random.Between(1, 3 * kColumns);
  for (uint64_t i = 0; i < rows; ++i) {
    PerColumn row;
    for (size_t j = 0; j < kColumns; ++j) row[j] = (*sizes)[j] * (0.05 + random.Uniform());
    equations.Add(row, 2 * random.Uniform() - 0.5, 0.1 + random.Uniform());
  }
  return equations;
}

TEST(NormalEquationsTest, TheSolutionMakesTheGradientVanish) {
  for (const uint64_t seed : testing::Seeds(5000)) {
    RandomStream random(seed);
    PerColumn sizes;
    const NormalEquations equations = RandomEquations(random, &sizes);
    for (int tried = 0; tried < 20; ++tried) {
      const Columns columns = RandomColumns(random);
      const std::optional<PerColumn> solution = equations.Solve(columns);
      if (!solution) continue;
      for (size_t j = 0; j < kColumns; ++j) {
        if ((columns >> j & 1U) == 0) {
          ASSERT_EQ((*solution)[j], 0) << seed;
          continue;
        }
        const double gradient = Dot(equations.matrix[j], *solution) - equations.right[j];
        ASSERT_NEAR(gradient / sizes[j], 0, 1e-4) << seed << " " << columns;
      }
    }
  }
}

TEST(NormalEquationsTest, ColumnsThatDependOnOneAnotherAreRefused) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    NormalEquations equations;
    for (int i = 0; i < 20; ++i) {
      const double tokens = 1 + 1e6 * random.Uniform();
      equations.Add({tokens, 4096 * tokens, 1, 0}, random.Uniform(), 1);
    }
    EXPECT_FALSE(equations.Solve(3)) << seed;
    EXPECT_FALSE(equations.Solve(kAllColumns)) << seed;
    EXPECT_TRUE(equations.Solve(5)) << seed;
  }
}

TEST(NormalEquationsTest, AForgottenColumnIsAsIfItHadBeenZero) {
  for (const uint64_t seed : testing::Seeds(100)) {
    RandomStream random(seed);
    NormalEquations forgotten;
    NormalEquations without;
    for (int i = 0; i < 10; ++i) {
      PerColumn row;
      for (double& value : row) value = random.Uniform();
      const double target = random.Uniform();
      forgotten.Add(row, target, 1);
      row[3] = 0;
      without.Add(row, target, 1);
    }
    forgotten.Forget(3);
    EXPECT_EQ(forgotten, without) << seed;
  }
}

TEST(NormalEquationsTest, VariancesAreTheDiagonalOfTheInverse) {
  uint64_t found = 0;
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    PerColumn sizes;
    const NormalEquations equations = RandomEquations(random, &sizes);
    const Columns columns = RandomColumns(random);
    const std::optional<PerColumn> variances = equations.Variances(columns);
    EXPECT_EQ(variances.has_value(), equations.Solve(columns).has_value()) << seed;
    if (!variances) continue;
    for (size_t j = 0; j < kColumns; ++j) {
      PerColumn unit{};
      unit[j] = 1;
      const double expected =
          HasColumn(columns, j) ? equations.SolveFor(unit, columns, 0)->at(j) : 0;
      EXPECT_NEAR((*variances)[j], expected, 1e-6 * expected) << seed << " " << j;
      found += expected > 0;
    }
  }
  EXPECT_GT(found, testing::Cases(1000));
}

TEST(NormalEquationsTest, WhatIsForgottenForLongEndsAsNothing) {
  NormalEquations equations;
  equations.Add({1, 2, 3}, 1, 1);
  for (int i = 0; i < 1000; ++i) equations.Decay(0.5);
  EXPECT_EQ(equations.matrix, NormalEquations().matrix);
  EXPECT_EQ(equations.right, NormalEquations().right);
}

// Tries every set of columns.
TEST(NonNegativeTest, NoSetOfColumnsExplainsMore) {
  for (const uint64_t seed : testing::Seeds(300)) {
    RandomStream random(seed);
    PerColumn sizes;
    const NormalEquations equations = RandomEquations(random, &sizes);
    const Columns columns = RandomColumns(random);
    const double explained = Dot(SolveNonNegative(equations, columns), equations.right);
    for (Columns tried = 1; tried <= columns; ++tried) {
      if ((tried & ~columns) != 0) continue;
      const std::optional<PerColumn> solution = equations.Solve(tried);
      if (!solution || std::ranges::any_of(*solution, [](double x) { return x < 0; })) continue;
      EXPECT_LE(Dot(*solution, equations.right), explained * (1 + 1e-6)) << seed << " " << tried;
    }
  }
}

// The conditions of Karush, Kuhn and Tucker, which hold only at the optimum.
TEST(NonNegativeTest, NoCoefficientCanBeMovedForTheBetter) {
  uint64_t held = 0;
  for (const uint64_t seed : testing::Seeds(20000)) {
    RandomStream random(seed);
    PerColumn sizes;
    const NormalEquations equations = RandomEquations(random, &sizes);
    if (!equations.Solve(kAllColumns)) continue;
    const PerColumn best = SolveNonNegative(equations, kAllColumns);
    for (size_t j = 0; j < kColumns; ++j) {
      ASSERT_GE(best[j], 0) << seed;
      const double gradient = (Dot(equations.matrix[j], best) - equations.right[j]) / sizes[j];
      ASSERT_GE(gradient, -1e-4) << seed;
      if (best[j] > 0) {
        ASSERT_LE(gradient, 1e-4) << seed;
      }
      held += best[j] == 0;
    }
  }
  EXPECT_GT(held, testing::Cases(20000) / 4);
}

TEST(NonNegativeTest, OnlyTheColumnsAskedForAreUsed) {
  for (const uint64_t seed : testing::Seeds(1000)) {
    RandomStream random(seed);
    PerColumn sizes;
    const NormalEquations equations = RandomEquations(random, &sizes);
    for (int tried = 0; tried < 20; ++tried) {
      const Columns columns = RandomColumns(random);
      const PerColumn best = SolveNonNegative(equations, columns);
      for (size_t j = 0; j < kColumns; ++j) {
        if ((columns >> j & 1U) == 0) {
          EXPECT_EQ(best[j], 0) << seed;
        }
      }
    }
  }
}

}  // namespace
}  // namespace batchplan
