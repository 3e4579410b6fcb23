#include "tests/support/scarce_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "batchplan/client.h"
#include "batchplan/in_process_connection.h"
#include "tests/client/cpp/requests.h"

namespace batchplan {
namespace {

TEST(ScarceMemoryTest, MemoryThatRunsOutIsAnErrorOfPlanningInProcess) {
  const Client client(MakeInProcessConnection());
  const v1::PlanBatchRequest request = RequestOf(5000);
  absl::Status status;
  {
    const testing::ScarceMemory scarce({.largest = 4096});
    status = client.PlanBatch(request).status();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(std::string(status.message()), "planning 5000 sequences in process ran out of memory");
  EXPECT_TRUE(client.PlanBatch(request).ok());
}

}  // namespace
}  // namespace batchplan
