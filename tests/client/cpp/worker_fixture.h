// Shared by tests of a worker's plans: a backend, and a batch whose tokens tell where they come
// from.

#ifndef BATCHPLAN_TESTS_CLIENT_CPP_WORKER_FIXTURE_H_
#define BATCHPLAN_TESTS_CLIENT_CPP_WORKER_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "batchplan/kernels.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "batchplan/worker_options.h"
#include "tests/client/cpp/backend_memory.h"

namespace batchplan {

// Skips backends that this machine does not have.
class WorkerFixture : public testing::TestWithParam<batchplan_backend> {
 protected:
  void SetUp() override {
    if (const batchplan_status status = batchplan_backend_status(GetParam());
        status != BATCHPLAN_OK) {
      GTEST_SKIP() << batchplan_status_string(status);
    }
  }

  static WorkerOptions OptionsOf(uint32_t data_parallel_rank, uint32_t context_parallel_rank) {
    WorkerOptions options;
    options.data_parallel_rank = data_parallel_rank;
    options.context_parallel_rank = context_parallel_rank;
    options.backend = GetParam();
    options.allocator = AllocatorOf(GetParam());
    return options;
  }

  template <typename T>
  static SharedArray<T> Shared(size_t size, T value) {
    return SharedArray<T>(GetParam(), size, value);
  }
};

// A batch whose token values tell their place: sequence * width + position + 1.
struct NumberedBatch {
  NumberedBatch(batchplan_backend backend, const v1::PlanBatchRequest& request)
      : lengths(request.manifest().lengths().begin(), request.manifest().lengths().end()),
        width(*std::max_element(lengths.begin(), lengths.end())),
        numbers(backend, lengths.size() * width, 0) {
    for (size_t s = 0; s < lengths.size(); ++s) {
      for (size_t t = 0; t < lengths[s]; ++t) {
        numbers.data()[s * width + t] = static_cast<int64_t>(s * width + t + 1);
      }
    }
  }

  std::vector<uint32_t> lengths;
  size_t width;
  // [sequences, width], 0 for padding.
  SharedArray<int64_t> numbers;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_CLIENT_CPP_WORKER_FIXTURE_H_
