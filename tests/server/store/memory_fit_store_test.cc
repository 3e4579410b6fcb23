#include "server/store/memory_fit_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/server/store/fit_store_contract.h"

namespace batchplan::testing {
namespace {

class MemoryStores : public FitStores {
 public:
  FitStore& store(int) override { return store_; }

 private:
  MemoryFitStore store_{/*max_jobs=*/16};
};

std::unique_ptr<FitStores> MakeMemoryStores() { return std::make_unique<MemoryStores>(); }

INSTANTIATE_TEST_SUITE_P(Memory, FitStoreContract,
                         ::testing::Values(FitStoresFactory{"MemoryFitStore", MakeMemoryStores}));

TEST(MemoryFitStoreTest, TheLeastRecentlyUsedJobIsForgottenForANewOne) {
  MemoryFitStore store(/*max_jobs=*/3);
  for (const char* job : {"a", "b", "c"}) ASSERT_TRUE(store.Replace(job, 0, job).value());
  ASSERT_EQ(store.Get("a")->state, "a");
  // Asking for what is not there makes no room and takes none.
  EXPECT_EQ(store.Get("d")->version, 0);
  ASSERT_TRUE(store.Replace("b", store.Get("b")->version, "B").value());
  ASSERT_TRUE(store.Replace("d", 0, "d").value());
  EXPECT_EQ(store.jobs(), 3);
  EXPECT_EQ(store.Get("c")->version, 0);
  EXPECT_EQ(store.Get("a")->state, "a");
  EXPECT_EQ(store.Get("b")->state, "B");
  EXPECT_EQ(store.Get("d")->state, "d");
}

TEST(MemoryFitStoreTest, AStateReadBeforeItsJobWasForgottenReplacesNothing) {
  MemoryFitStore store(/*max_jobs=*/1);
  ASSERT_TRUE(store.Replace("a", 0, "first").value());
  const uint64_t read = store.Get("a")->version;
  ASSERT_TRUE(store.Replace("b", 0, "b").value());
  ASSERT_TRUE(store.Replace("a", 0, "second").value());
  EXPECT_FALSE(store.Replace("a", read, "first and more").value());
  EXPECT_EQ(store.Get("a")->state, "second");
}

}  // namespace
}  // namespace batchplan::testing
