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
  for (const char* job : {"a", "b", "c"}) ASSERT_TRUE(store.Replace(job, 0, job, "owner").value());
  ASSERT_EQ(store.Get("a")->state, "a");
  // Asking for an unknown job neither makes nor needs room.
  EXPECT_EQ(store.Get("d")->version, 0);
  ASSERT_TRUE(store.Replace("b", store.Get("b")->version, "B", "owner").value());
  ASSERT_TRUE(store.Replace("d", 0, "d", "owner").value());
  EXPECT_EQ(store.jobs(), 3);
  EXPECT_EQ(store.Get("c")->version, 0);
  EXPECT_EQ(store.Get("a")->state, "a");
  EXPECT_EQ(store.Get("b")->state, "B");
  EXPECT_EQ(store.Get("d")->state, "d");
}

TEST(MemoryFitStoreTest, ManyNewJobsOfOneOwnerCostNoOtherOwnerAndNoJobThatGoesOnItsState) {
  MemoryFitStore store(/*max_jobs=*/100);
  ASSERT_TRUE(store.Replace("victim", 0, "v", "A").value());
  ASSERT_TRUE(store.Replace("steady", 0, "s", "B").value());
  ASSERT_TRUE(store.Replace("steady", store.Get("steady")->version, "s", "B").value());
  for (int i = 0; i < 4200; ++i) {
    ASSERT_TRUE(store.Replace("new-" + std::to_string(i), 0, "n", "B").value());
    if (i % 100 == 0) {
      ASSERT_TRUE(store.Replace("steady", store.Get("steady")->version, "s", "B").value());
    }
  }
  EXPECT_EQ(store.jobs(), 100);
  EXPECT_EQ(store.Get("victim")->state, "v");
  EXPECT_EQ(store.Get("steady")->state, "s");
  EXPECT_EQ(store.Get("new-4199")->state, "n");
  EXPECT_EQ(store.Get("new-0")->version, 0);
}

// Reports of the job, as the service counts them.
void Report(MemoryFitStore& store, const std::string& job, int times = 1) {
  for (int i = 0; i < times; ++i) {
    ASSERT_TRUE(store.Replace(job, store.Get(job)->version, job, "owner").value());
  }
}

TEST(MemoryFitStoreTest, AJobThatHasReportedMoreOutlivesNamesOfItsOwnerThatReportAFewTimes) {
  MemoryFitStore store(/*max_jobs=*/100);
  Report(store, "victim", 40);
  for (int i = 0; i < 1000; ++i) Report(store, "new-" + std::to_string(i), 1 + i % 3);
  EXPECT_EQ(store.Get("victim")->state, "victim");
  // The job reports now and then, and so do the others.
  for (int i = 0; i < 100'000; ++i) {
    Report(store, "newer-" + std::to_string(i), 2);
    if (i % 1000 == 0) Report(store, "victim");
  }
  EXPECT_EQ(store.Get("victim")->state, "victim");
  EXPECT_EQ(store.jobs(), 100);
}

TEST(MemoryFitStoreTest, JobsThatHaveEndedGiveWayToThoseThatBegin) {
  MemoryFitStore store(/*max_jobs=*/10);
  for (int i = 0; i < 10; ++i) {
    Report(store, "ended-" + std::to_string(i), 2 * static_cast<int>(MemoryFitStore::kMostWrites));
  }
  // Two jobs that begin together stop displacing each other before this loop ends.
  for (uint64_t i = 0; i < 2 * MemoryFitStore::kMostWrites; ++i) {
    Report(store, "a");
    Report(store, "b");
  }
  for (int i = 0; i < 10; ++i) {
    Report(store, "a");
    Report(store, "b");
    Report(store, "once-" + std::to_string(i));
    EXPECT_NE(store.Get("a")->version, 0);
    EXPECT_NE(store.Get("b")->version, 0);
  }
}

TEST(MemoryFitStoreTest, AJobIsWhoseReportedLast) {
  MemoryFitStore store(/*max_jobs=*/4);
  for (const char* job : {"a", "b", "c"}) ASSERT_TRUE(store.Replace(job, 0, job, "A").value());
  for (const char* job : {"a", "b"}) {
    ASSERT_TRUE(store.Replace(job, store.Get(job)->version, job, "B").value());
  }
  ASSERT_TRUE(store.Replace("d", 0, "d", "B").value());
  ASSERT_TRUE(store.Replace("e", 0, "e", "C").value());
  EXPECT_EQ(store.Get("d")->version, 0) << "B's, written once";
  EXPECT_EQ(store.Get("c")->state, "c");
}

TEST(MemoryFitStoreTest, AStateReadBeforeItsJobWasForgottenReplacesNothing) {
  MemoryFitStore store(/*max_jobs=*/1);
  ASSERT_TRUE(store.Replace("a", 0, "first", "owner").value());
  const uint64_t read = store.Get("a")->version;
  ASSERT_TRUE(store.Replace("b", 0, "b", "owner").value());
  ASSERT_TRUE(store.Replace("a", 0, "second", "owner").value());
  EXPECT_FALSE(store.Replace("a", read, "first and more", "owner").value());
  EXPECT_EQ(store.Get("a")->state, "second");
}

}  // namespace
}  // namespace batchplan::testing
