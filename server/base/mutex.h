// A mutex for Clang's -Wthread-safety, which refuses to compile code that touches something guarded
// without holding its mutex.
//
//   class Counter {
//    public:
//     void Add() {
//       MutexLock lock(mutex_);
//       ++count_;
//       changed_.notify_all();
//     }
//     void AwaitTen() {
//       MutexLock lock(mutex_);
//       while (count_ < 10) changed_.wait(lock);
//     }
//
//    private:
//     Mutex mutex_;
//     std::condition_variable_any changed_;
//     int count_ ABSL_GUARDED_BY(mutex_) = 0;
//   };
//
// It is a std::mutex, so that the thread sanitizer sees it, as it does not see Debian's
// absl::Mutex.

#ifndef BATCHPLAN_SERVER_BASE_MUTEX_H_
#define BATCHPLAN_SERVER_BASE_MUTEX_H_

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace batchplan {

// The names are those that the standard library's locks and condition variables need.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

  // Only tells Clang that the caller holds it. For the first line of a predicate that a condition
  // variable calls, since Clang checks a lambda by itself.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  std::mutex mutex_;
};

// Holds a mutex from its construction to its destruction, except between unlock() and lock().
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }

 private:
  std::unique_lock<Mutex> lock_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_BASE_MUTEX_H_
