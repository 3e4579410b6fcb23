// Statuses as exceptions, on their way to Python.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_STATUS_ERROR_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_STATUS_ERROR_H_

#include <exception>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace batchplan::python {

// What _errors.py makes a Python exception of.
struct StatusError : std::exception {
  explicit StatusError(absl::Status from) : status(std::move(from)) {}
  const char* what() const noexcept override { return "batchplan::python::StatusError"; }
  absl::Status status;
};

inline void Check(const absl::Status& status) {
  if (!status.ok()) throw StatusError(status);
}

template <typename T>
T Get(absl::StatusOr<T> result) {
  Check(result.status());
  return *std::move(result);
}

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_STATUS_ERROR_H_
