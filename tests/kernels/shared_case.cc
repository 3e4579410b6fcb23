#include "shared_case.h"

#include <numeric>
#include <random>
#include <utility>

#include "random_cases.h"

namespace batchplan::kernels {
namespace {

SharedCase CaseOf(Generator& generator, Forest forest) {
  SharedCase c;
  c.forest = std::move(forest);
  c.tail = generator.Below(4);
  static_cast<FieldCase&>(c.field) = generator.NextField();
  c.field.shift = 0;
  // The interpreter is slow for long chains of wide tokens.
  const uint64_t tokens =
      std::accumulate(c.forest.lengths.begin(), c.forest.lengths.end(), uint64_t{0});
  if (tokens > 20000) {
    c.field.elements_per_token = 1;
  } else if (tokens > 500) {
    c.field.elements_per_token = 1 + c.field.elements_per_token / 40;
  }
  c.field.lengths = c.forest.lengths;
  c.field.num_rows = static_cast<uint32_t>(c.forest.lengths.size()) + generator.Below(3);
  for (uint32_t i = 0; i < c.field.num_rows; ++i) c.field.index.push_back(i);
  for (uint32_t i = c.field.num_rows; i > 1; --i) {
    std::swap(c.field.index[i - 1], c.field.index[generator.Below(i)]);
  }
  c.field.index.resize(c.forest.lengths.size());
  c.field.ragged = generator.Below(2) == 0;
  c.field.width = c.forest.longest() + generator.Below(3);
  c.offsets = RowOffsets(c.field, generator);
  return c;
}

}  // namespace

PackedRow RowOfForest(batchplan_backend backend, const Forest& forest, uint32_t tail) {
  return {backend, forest.lengths, RowOfWidth(forest.new_tokens() + tail), 0, forest.shared};
}

void ForEachForest(uint32_t seed, uint64_t rounds,
                   const std::function<void(const SharedCase&, Generator&)>& check) {
  std::mt19937 random(Seed(seed));
  Generator generator(Seed(seed + 1));
  std::vector<Forest> forests = EdgeForests(random);
  for (uint64_t i = Cases(rounds); i > 0; --i) {
    forests.push_back(RandomForest(random, i % 4 == 0 ? 60 : 10, 25));
  }
  for (Forest& forest : forests) {
    const SharedCase c = CaseOf(generator, std::move(forest));
    SCOPED_TRACE(testing::Message() << testing::PrintToString(c.forest) << ", tail " << c.tail
                                    << ", " << testing::PrintToString(c.field));
    check(c, generator);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace batchplan::kernels
