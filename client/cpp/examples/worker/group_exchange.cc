#include "client/cpp/examples/worker/group_exchange.h"

#include "absl/status/status.h"

namespace batchplan::examples {

absl::StatusOr<std::vector<Hidden>> GroupExchange::AllGather(const WorkerMicrobatch& microbatch,
                                                             int round, std::vector<Hidden> own) {
  const std::pair key(microbatch.index, round);
  MutexLock lock(mutex_);
  Board& board = boards_[key];
  board.parts.resize(microbatch.context_parallel);
  board.parts[microbatch.context_parallel_rank] = std::move(own);
  if (++board.given == board.parts.size()) changed_.notify_all();
  while (!aborted_ && board.given < board.parts.size()) changed_.wait(lock);
  if (aborted_) return absl::AbortedError("another rank has failed");
  std::vector<Hidden> gathered;
  for (const std::vector<Hidden>& part : board.parts) {
    gathered.insert(gathered.end(), part.begin(), part.end());
  }
  if (++board.taken == board.parts.size()) boards_.erase(key);
  return gathered;
}

void GroupExchange::Abort() {
  const MutexLock lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

}  // namespace batchplan::examples
