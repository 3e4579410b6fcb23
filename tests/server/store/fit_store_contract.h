// The promises of every FitStore, as tests. A program with a store instantiates them:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, FitStoreContract,
//                            ::testing::Values(FitStoresFactory{"MemoryFitStore", MakeStores}));
//
// Included once in a program.

#ifndef BATCHPLAN_TESTS_SERVER_STORE_FIT_STORE_CONTRACT_H_
#define BATCHPLAN_TESTS_SERVER_STORE_FIT_STORE_CONTRACT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "server/store/fit_store.h"

namespace batchplan::testing {

// An empty store, as two replicas see it.
class FitStores {
 public:
  virtual ~FitStores() = default;

  // For replica 0 or 1; may be one object.
  virtual FitStore& store(int replica) = 0;
};

struct FitStoresFactory {
  std::string name;
  std::function<std::unique_ptr<FitStores>()> make;

  friend void PrintTo(const FitStoresFactory& factory, std::ostream* out) { *out << factory.name; }
};

class FitStoreContract : public ::testing::TestWithParam<FitStoresFactory> {
 protected:
  FitStore& store(int replica = 0) { return stores_->store(replica); }

  StoredFit Get(const std::string& job, int replica = 0) {
    absl::StatusOr<StoredFit> fit = store(replica).Get(job);
    EXPECT_TRUE(fit.ok()) << fit.status();
    return fit.ok() ? *fit : StoredFit();
  }

  std::unique_ptr<FitStores> stores_ = GetParam().make();
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FitStoreContract);

TEST_P(FitStoreContract, AnUnknownJobHasAnEmptyStateOfVersionZero) {
  const StoredFit fit = Get("job");
  EXPECT_EQ(fit.state, "");
  EXPECT_EQ(fit.version, 0);
}

TEST_P(FitStoreContract, AStateIsReplacedByWhoeverReadItLast) {
  EXPECT_TRUE(store(0).Replace("job", 0, "one", "owner").value());
  const StoredFit first = Get("job", 1);
  EXPECT_EQ(first.state, "one");
  EXPECT_NE(first.version, 0);
  EXPECT_TRUE(store(1).Replace("job", first.version, "two", "owner").value());
  const StoredFit second = Get("job", 0);
  EXPECT_EQ(second.state, "two");
  EXPECT_NE(second.version, first.version);

  for (uint64_t stale : {uint64_t{0}, first.version}) {
    EXPECT_FALSE(store().Replace("job", stale, "three", "owner").value());
    EXPECT_EQ(Get("job").state, "two");
    EXPECT_EQ(Get("job").version, second.version);
  }
}

TEST_P(FitStoreContract, TheSameStateAgainIsANewVersion) {
  EXPECT_TRUE(store().Replace("job", 0, "one", "owner").value());
  const uint64_t version = Get("job").version;
  EXPECT_TRUE(store().Replace("job", version, "one", "owner").value());
  EXPECT_NE(Get("job").version, version);
}

TEST_P(FitStoreContract, AJobThatHasNoStateHasNoOtherVersionThanZero) {
  EXPECT_FALSE(store().Replace("job", 1, "one", "owner").value());
  EXPECT_EQ(Get("job").version, 0);
}

TEST_P(FitStoreContract, JobsAreApartAndBytesAreKeptAsTheyAre) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  EXPECT_TRUE(store().Replace(every_byte, 0, every_byte, "owner").value());
  EXPECT_TRUE(store().Replace("job", 0, "one", "owner").value());
  EXPECT_EQ(Get(every_byte, 1).state, every_byte);
  EXPECT_EQ(Get("job", 1).state, "one");
}

TEST_P(FitStoreContract, NoneOfTheReportsOfConcurrentReplicasIsLost) {
  constexpr int kThreads = 4;
  constexpr int kReports = 25;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([this, thread] {
        FitStore& mine = store(thread % 2);
        for (int report = 0; report < kReports;) {
          const absl::StatusOr<StoredFit> fit = mine.Get("job");
          if (!fit.ok()) break;
          if (mine.Replace("job", fit->version, fit->state + "x", "owner").value_or(false))
            ++report;
        }
      });
    }
  }
  EXPECT_EQ(Get("job").state.size(), kThreads * kReports);
}

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_STORE_FIT_STORE_CONTRACT_H_
