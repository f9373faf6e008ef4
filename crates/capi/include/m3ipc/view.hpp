// Views of memory for m3ipc.hpp.
#ifndef M3IPC_VIEW_HPP
#define M3IPC_VIEW_HPP

#include <cstddef>
#include <type_traits>
#include <utility>

namespace m3ipc {

/// A view of `size` objects in a row, as std::span of C++20. It owns nothing.
///
///     std::vector<int> numbers(10);
///     m3ipc::span<int> view(numbers);
///     for (int &number : view.first(3)) number = 7;
template <class T>
class span {
  template <class Container>
  using data_of = decltype(std::declval<Container &>().data());
  template <class From>
  static constexpr bool fits = std::is_convertible_v<From (*)[], T (*)[]>;

public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using iterator = T *;

  constexpr span() noexcept = default;
  constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}

  template <std::size_t N>
  constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}

  /// A container with its objects in a row: a string, a vector, an array, another span.
  template <class Container,
            class = std::enable_if_t<fits<std::remove_pointer_t<data_of<Container>>>>>
  constexpr span(Container &&from) noexcept : data_(from.data()), size_(from.size()) {}

  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size_; }

  /// `at` must be below the size.
  constexpr T &operator[](std::size_t at) const noexcept { return data_[at]; }

  /// The first objects, or all if there are fewer.
  constexpr span first(std::size_t count) const noexcept {
    return {data_, count < size_ ? count : size_};
  }

  /// The objects from `offset` on; none if there are fewer.
  constexpr span from(std::size_t offset) const noexcept {
    return offset < size_ ? span(data_ + offset, size_ - offset) : span();
  }

private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};

/// Bytes to be read.
using const_bytes = span<const std::byte>;
/// Bytes to be written.
using mutable_bytes = span<std::byte>;

namespace detail {

template <class Container>
using element_of = std::remove_pointer_t<decltype(std::declval<Container &>().data())>;

} // namespace detail

/// The bytes of a container of plain objects. They can be written if the objects can.
///
///     self.send(server, m3ipc::message(1), m3ipc::bytes_of(std::string_view("text")));
template <class Container, class T = detail::element_of<Container>>
auto bytes_of(Container &&from) noexcept {
  static_assert(std::is_trivially_copyable_v<T>, "only plain objects travel");
  using byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return span<byte>(reinterpret_cast<byte *>(from.data()), from.size() * sizeof(T));
}

/// The bytes of an array of plain objects.
template <class T, std::size_t N>
auto bytes_of(T (&array)[N]) noexcept {
  return bytes_of(span<T>(array));
}

/// The bytes of one plain object.
template <class T>
auto bytes_of_object(T &object) noexcept {
  return bytes_of(span<T>(&object, 1));
}

} // namespace m3ipc

#endif // M3IPC_VIEW_HPP
