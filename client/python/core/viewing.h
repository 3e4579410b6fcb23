// NumPy's views of what C++ has.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_VIEWING_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_VIEWING_H_

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace batchplan::python {

template <typename Number>
using NumpyArray =
    nanobind::ndarray<nanobind::numpy, const Number, nanobind::ndim<1>, nanobind::c_contig>;

// `values` without a copy: the array keeps their owner.
template <typename Values, typename Owner>
auto Viewing(const Values& values, Owner owner) {
  using Number = std::remove_cvref_t<decltype(*values.data())>;
  auto kept = std::make_unique<Owner>(std::move(owner));
  nanobind::capsule capsule(kept.get(),
                            [](void* share) noexcept { delete static_cast<Owner*>(share); });
  kept.release();
  return NumpyArray<Number>(values.data(), {static_cast<size_t>(values.size())}, capsule);
}

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_VIEWING_H_
