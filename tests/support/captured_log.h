// What a test's own process logs.
//
//   CaptureLog();
//   ... something that logs ...
//   const std::string log = CapturedLog();

#ifndef BATCHPLAN_TESTS_SUPPORT_CAPTURED_LOG_H_
#define BATCHPLAN_TESTS_SUPPORT_CAPTURED_LOG_H_

#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"
#include "server/telemetry/log_writer.h"

namespace batchplan {

inline void CaptureLog() {
  // Earlier lines are written first, so that they are not captured.
  FlushLog(absl::Minutes(1));
  ::testing::internal::CaptureStderr();
}

inline std::string CapturedLog() {
  FlushLog(absl::Minutes(1));
  return ::testing::internal::GetCapturedStderr();
}

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_SUPPORT_CAPTURED_LOG_H_
