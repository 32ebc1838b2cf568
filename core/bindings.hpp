// What bindings.cpp needs at the border between Python and the core: arrays that are checked, refusals, the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "half.hpp"

namespace nanobind::detail {

template <>
struct dtype_traits<kdcode::Half> {
  static constexpr dlpack::dtype value{static_cast<std::uint8_t>(dlpack::dtype_code::Float), 16, 1};
  static constexpr auto name = const_name("float16");
};

}  // namespace nanobind::detail

namespace kdcode {

namespace nb = nanobind;

// Becomes the class of this name in kdcode.errors; see translate_refusals.
class Refusal : public std::exception {
 public:
  Refusal(const char* error, std::string message) : error_(error), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  const char* error() const { return error_; }

 private:
  const char* error_;
  std::string message_;
};

[[noreturn]] inline void refuse(const char* error, std::string message) { throw Refusal(error, std::move(message)); }

// For what a caller must keep; the text says what that is.
inline void expect(bool holds, const char* message) {
  if (!holds) [[unlikely]]
    refuse("OptionError", message);
}

// The one place where a refusal turns into an exception of Python.
inline void translate_refusals() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Refusal& refusal) {
      try {
        const nb::object error = nb::module_::import_("kdcode.errors").attr(refusal.error());
        PyErr_SetString(error.ptr(), refusal.what());
      } catch (nb::python_error& missing) {
        missing.restore();
      }
    }
  });
}

// Lets other threads run Python while the core works; not for less than some microseconds of work, since giving the
// GIL up and taking it again costs more than that when threads wait for it.
class ReleaseGil {
 public:
  explicit ReleaseGil(std::size_t work) {
    if (work >= 1 << 14) released_.emplace();
  }

 private:
  std::optional<nb::gil_scoped_release> released_;
};

inline std::span<const std::uint8_t> bytes_of(const nb::bytes& object) {
  return {static_cast<const std::uint8_t*>(object.data()), object.size()};
}

inline std::string text_of(nb::handle object) {
  return nb::cast<std::string>(nb::steal<nb::object>(PyObject_Str(object.ptr())));
}

// "float64 of shape (3, 4), not contiguous", or the class of what is no array of numpy's.
inline std::string describe(nb::handle object) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "flags")) return text_of(object.type());
  std::string text = text_of(object.attr("dtype")) + " of shape " + text_of(object.attr("shape"));
  if (!nb::cast<bool>(object.attr("flags").attr("c_contiguous"))) text += ", not contiguous";
  if (!nb::cast<bool>(object.attr("flags").attr("aligned"))) text += ", not aligned";
  if (!nb::cast<bool>(object.attr("flags").attr("writeable"))) text += ", read-only";
  return text;
}

// The memory of an array of Python, held while this lives: C-contiguous, aligned, of one type, with a fixed number of
// dimensions. Nothing is ever converted or copied on the way; what does not fit is refused.
template <class Value, int dimensions>
class Array {
 public:
  using Taken = nb::ndarray<Value, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;

  bool take(nb::handle object, nb::detail::cleanup_list* cleanup) {
    nb::detail::make_caster<Taken> caster;
    if (!caster.from_python(object, 0, cleanup)) return false;
    array_ = std::move(caster.value);
    return reinterpret_cast<std::uintptr_t>(array_.data()) % alignof(Value) == 0;
  }
  static std::string expected() {
    return std::string(std::is_const_v<Value> ? "" : "writable ") + nb::detail::dtype_traits<Value>::name.text +
           " values, C-contiguous and aligned, with " + std::to_string(dimensions) + " dimensions";
  }
  Value* data() const { return array_.data(); }
  std::size_t shape(std::size_t axis) const { return array_.shape(axis); }
  std::size_t size() const { return array_.size(); }
  std::span<Value> span() const { return {data(), size()}; }

 private:
  Taken array_;
};

// The same for any of the eight types of integers, read-only unless said otherwise. `visit` calls a
// function with a pointer to the values.
template <int dimensions, bool writable = false>
class Integers {
 public:
  using Taken = std::conditional_t<writable, nb::ndarray<nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>,
                                   nb::ndarray<nb::ro, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>>;

  bool take(nb::handle object, nb::detail::cleanup_list* cleanup) {
    nb::detail::make_caster<Taken> caster;
    if (!caster.from_python(object, 0, cleanup)) return false;
    array_ = std::move(caster.value);
    const nb::dlpack::dtype type = array_.dtype();
    const bool integers = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int) || natural();
    return integers && type.bits % 8 == 0 && reinterpret_cast<std::uintptr_t>(array_.data()) % array_.itemsize() == 0;
  }
  static std::string expected() {
    return std::string(writable ? "writable " : "") + "integers, C-contiguous and aligned, with " +
           std::to_string(dimensions) + " dimensions";
  }
  std::size_t shape(std::size_t axis) const { return array_.shape(axis); }
  std::size_t size() const { return array_.size(); }

  template <class Function>
  auto visit(Function function) const {
    switch (array_.itemsize()) {
      case 1:
        return natural() ? call<std::uint8_t>(function) : call<std::int8_t>(function);
      case 2:
        return natural() ? call<std::uint16_t>(function) : call<std::int16_t>(function);
      case 4:
        return natural() ? call<std::uint32_t>(function) : call<std::int32_t>(function);
      default:
        return natural() ? call<std::uint64_t>(function) : call<std::int64_t>(function);
    }
  }

 private:
  bool natural() const { return array_.dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt); }
  template <class Value, class Function>
  auto call(Function function) const {
    return function(static_cast<std::conditional_t<writable, Value, const Value>*>(array_.data()));
  }
  Taken array_;
};

// The numbers of a codec as they are stored: float32, float16 or int8.
template <int dimensions>
class Stored {
 public:
  using Taken = nb::ndarray<nb::ro, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;

  bool take(nb::handle object, nb::detail::cleanup_list* cleanup) {
    nb::detail::make_caster<Taken> caster;
    if (!caster.from_python(object, 0, cleanup)) return false;
    array_ = std::move(caster.value);
    if (reinterpret_cast<std::uintptr_t>(array_.data()) % array_.itemsize() != 0) return false;
    const nb::dlpack::dtype type = array_.dtype();
    return type == nb::dtype<float>() || type == nb::dtype<Half>() || type == nb::dtype<std::int8_t>();
  }
  static std::string expected() {
    return "float32, float16 or int8 values, C-contiguous and aligned, with " + std::to_string(dimensions) +
           " dimensions";
  }
  const void* data() const { return array_.data(); }
  std::size_t itemsize() const { return array_.itemsize(); }
  std::size_t shape(std::size_t axis) const { return array_.shape(axis); }
  std::size_t size() const { return array_.size(); }

 private:
  Taken array_;
};

// Row numbers in a tensor of torch: int64, on the CPU, contiguous, with any number of dimensions. It is asked for by
// the exchange API of DLPack 1.2, in tens of nanoseconds; to make an array of numpy of it takes longer than to decode
// some rows. Older versions of torch hand over a capsule instead.
class Ids {
 public:
  using Taken = nb::ndarray<const std::int64_t, nb::c_contig, nb::device::cpu>;

  bool take(nb::handle object, nb::detail::cleanup_list* cleanup) {
    nb::dlpack::dltensor tensor;
    if (!borrow(object, &tensor)) {
      nb::detail::make_caster<Taken> caster;
      if (!caster.from_python(object, 0, cleanup)) return false;
      array_ = std::move(caster.value);
      numbers_ = {array_.data(), array_.size()};
      return reinterpret_cast<std::uintptr_t>(array_.data()) % alignof(std::int64_t) == 0;
    }
    if (tensor.device.device_type != nb::device::cpu::value || tensor.dtype != nb::dtype<std::int64_t>()) return false;
    std::int64_t count = 1;  // of numbers, and how far apart those of a dimension are
    for (std::int32_t axis = tensor.ndim; axis-- > 0;) {
      if (tensor.shape[axis] == 0) return true;  // whatever the strides are
      if (tensor.shape[axis] != 1 && tensor.strides != nullptr && tensor.strides[axis] != count) return false;
      count *= tensor.shape[axis];
    }
    const auto* first = static_cast<const char*>(tensor.data) + tensor.byte_offset;
    numbers_ = {reinterpret_cast<const std::int64_t*>(first), static_cast<std::size_t>(count)};
    return reinterpret_cast<std::uintptr_t>(first) % alignof(std::int64_t) == 0;
  }
  static std::string expected() { return "a contiguous tensor of int64 on the CPU"; }
  std::span<const std::int64_t> span() const { return numbers_; }

 private:
  // The beginning of the struct that DLPack 1.2 calls DLPackExchangeAPI.
  struct Exchange {
    std::uint32_t major, minor;
    void* older;
    void* functions[3];
    int (*borrow)(void* object, nb::dlpack::dltensor* tensor);
  };

  // What a class offers; null where it offers nothing. The first class that does is remembered: it is that of tensors.
  static const Exchange* exchange_of(nb::handle type) {
    struct Known {
      nb::handle type;
      const Exchange* exchange;
    };
    static std::atomic<const Known*> first;
    const Known* known = first.load(std::memory_order_acquire);
    if (known != nullptr && known->type.is(type)) return known->exchange;
    const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
    if (capsule.is_none()) return nullptr;
    const auto* found = static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (found == nullptr) throw nb::python_error();
    if (found->major != 1 || found->borrow == nullptr) return nullptr;
    if (known == nullptr) {
      known = new Known{type.inc_ref(), found};  // stays as long as the process
      const Known* none = nullptr;
      if (!first.compare_exchange_strong(none, known)) delete known;
    }
    return found;
  }

  // Asks for what lies in memory while the caller holds the object; false where the object does not tell.
  static bool borrow(nb::handle object, nb::dlpack::dltensor* tensor) {
    const Exchange* exchange = exchange_of(object.type());
    if (exchange != nullptr && exchange->borrow(object.ptr(), tensor) != 0) throw nb::python_error();
    return exchange != nullptr;
  }

  Taken array_;
  std::span<const std::int64_t> numbers_;
};

inline std::string shape_text(std::span<const std::size_t> shape) {
  std::string text = "(";
  for (const std::size_t length : shape) text += std::to_string(length) + (shape.size() == 1 ? ",)" : ", ");
  if (shape.size() > 1) text.replace(text.size() - 2, 2, ")");
  return text;
}

// expect_shape(codes, "the codes", {rows, columns}) refuses codes of any other shape.
template <class Taken, std::size_t dimensions>
void expect_shape(const Taken& array, const char* name, const std::size_t (&shape)[dimensions]) {
  std::size_t found[dimensions];
  bool equal = true;
  for (std::size_t axis = 0; axis < dimensions; ++axis) {
    found[axis] = array.shape(axis);
    equal &= found[axis] == shape[axis];
  }
  if (equal) [[likely]]
    return;
  refuse("OptionError", std::string(name) + " must have shape " + shape_text(shape) + ", got " + shape_text(found));
}

}  // namespace kdcode

namespace nanobind::detail {

// Arguments are handed to functions by const reference, and given back when the call ends.
template <class Argument>
struct ArgumentCaster {
  template <class>
  using Cast = const Argument&;
  template <class>
  static constexpr bool can_cast() {
    return true;
  }
  bool from_python(handle object, std::uint32_t, cleanup_list* cleanup) {
    if (!value.take(object, cleanup)) {
      kdcode::refuse("OptionError", "expected " + Argument::expected() + "; got " + kdcode::describe(object));
    }
    return true;
  }
  explicit operator const Argument&() { return value; }
  Argument value;
};

template <class Value, int dimensions>
struct type_caster<kdcode::Array<Value, dimensions>> : ArgumentCaster<kdcode::Array<Value, dimensions>> {
  static constexpr auto Name = const_name("numpy.typing.NDArray[numpy.") + dtype_traits<Value>::name + const_name("]");
};

template <int dimensions, bool writable>
struct type_caster<kdcode::Integers<dimensions, writable>> : ArgumentCaster<kdcode::Integers<dimensions, writable>> {
  static constexpr auto Name = const_name("numpy.typing.NDArray[numpy.integer[typing.Any]]");
};

template <int dimensions>
struct type_caster<kdcode::Stored<dimensions>> : ArgumentCaster<kdcode::Stored<dimensions>> {
  static constexpr auto Name = const_name("numpy.typing.NDArray[typing.Any]");
};

template <>
struct type_caster<kdcode::Ids> : ArgumentCaster<kdcode::Ids> {
  static constexpr auto Name = const_name("typing.Any");
};

}  // namespace nanobind::detail
