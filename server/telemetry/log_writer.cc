#include "server/telemetry/log_writer.h"

#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "server/base/mutex.h"
#include "server/telemetry/log.h"

namespace batchplan {
namespace {

// The number of lines queued, written and dropped by the process.
std::atomic<uint64_t> taken = 0;
std::atomic<uint64_t> written = 0;
std::atomic<uint64_t> dropped = 0;

// The thread's pause after a write, so that many lines a second do not each wake it.
constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 1'000'000};

// Writes all of it, unless standard error is closed.
void WriteToStandardError(std::string_view text) {
  while (!text.empty()) {
    const ssize_t bytes = write(STDERR_FILENO, text.data(), text.size());
    if (bytes >= 0) {
      text.remove_prefix(static_cast<size_t>(bytes));
    } else if (errno == EAGAIN) {
      pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

class LogWriter {
 public:
  LogWriter() {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { WriteForEver(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void Take(const std::string& line) {
    bool first = false;
    {
      MutexLock lock(mutex_);
      if (queue_.size() + line.size() > kMaxQueuedLogBytes) {
        dropped.fetch_add(1);
        return;
      }
      queue_ += line;
      taken.fetch_add(1);
      first = lines_++ == 0;
    }
    // The thread takes all lines at once.
    if (first) queued_.notify_one();
  }

 private:
  [[noreturn]] void WriteForEver() {
    std::string text;
    uint64_t told = 0;
    for (;;) {
      uint64_t lines = 0;
      {
        MutexLock lock(mutex_);
        while (lines_ == 0) queued_.wait(lock);
        std::swap(text, queue_);
        lines = std::exchange(lines_, 0);
      }
      WriteToStandardError(text);
      text.clear();
      if (const uint64_t now = dropped.load(); now > told) {
        WriteToStandardError(FormatLogLine(absl::Now(), Severity::kWarning, "log_lines_dropped",
                                           {{"lines", now - std::exchange(told, now)}},
                                           CurrentLogFormat()));
      }
      written.fetch_add(lines);
      nanosleep(&kPause, nullptr);
    }
  }

  Mutex mutex_;
  std::condition_variable_any queued_;
  // The queued lines, one behind the other.
  std::string queue_ ABSL_GUARDED_BY(mutex_);
  uint64_t lines_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

void WriteLogLine(const std::string& line) {
  // Never destroyed, since even the last code of the process may log.
  static LogWriter& writer = *new LogWriter;
  writer.Take(line);
}

bool FlushLog(absl::Duration longest) {
  const uint64_t wanted = taken.load();
  constexpr timespec kLook = {.tv_sec = 0, .tv_nsec = 1'000'000};
  for (int64_t looks = absl::ToInt64Milliseconds(longest); written.load() < wanted; --looks) {
    if (looks <= 0) return false;
    nanosleep(&kLook, nullptr);
  }
  return true;
}

uint64_t DroppedLogLines() { return dropped.load(); }

}  // namespace batchplan
