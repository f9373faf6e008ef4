// result and error of m3ipc.hpp: a value, or the reason for which there is none.
#ifndef M3IPC_RESULT_HPP
#define M3IPC_RESULT_HPP

#ifndef M3_NO_SHORT_NAMES
#define M3_NO_SHORT_NAMES
#endif
#include "../m3ipc.h"

#include <cstdlib>
#include <exception>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace m3ipc {

/// The negative code with which a call failed, a number of m3ipc/codes.h.
///
///     auto sent = self.send(server, request);
///     if (!sent && sent.error() == EMOLDSTDIED) look_the_server_up_again();
///     else if (!sent) std::fprintf(stderr, "send: %s\n", sent.error().reason());
class error {
public:
  explicit constexpr error(int code) noexcept : code_(code) {}

  constexpr int code() const noexcept { return code_; }

  /// The meaning of the code in a few words.
  const char *text() const noexcept { return m3_strerror(code_); }

  /// Why the call failed, as a sentence: m3_last_reason. Right after the call, in its thread: the
  /// next failed call replaces it.
  static const char *reason() noexcept { return m3_last_reason(); }

  /// Whether the message of the failed call was taken: M3_NOT_TAKEN, M3_TAKEN or
  /// M3_DELIVERY_UNKNOWN. As with reason, ask right after the call.
  static int delivery() noexcept { return m3_last_delivery(); }

  friend constexpr bool operator==(error a, error b) noexcept { return a.code_ == b.code_; }
  friend constexpr bool operator!=(error a, error b) noexcept { return a.code_ != b.code_; }
  friend constexpr bool operator==(error a, int code) noexcept { return a.code_ == code; }
  friend constexpr bool operator!=(error a, int code) noexcept { return a.code_ != code; }

private:
  int code_;
};

/// What result::value throws if there is no value.
class bad_result : public std::exception {
public:
  explicit bad_result(int code, const char *text) noexcept : code_(code), text_(text) {}
  const char *what() const noexcept override { return text_; }
  int code() const noexcept { return code_; }

private:
  int code_;
  const char *text_;
};

namespace detail {

[[noreturn]] inline void fail(int code, const char *text) {
#if defined(__cpp_exceptions)
  throw bad_result(code, text);
#else
  (void)code;
  (void)text;
  std::abort();
#endif
}

[[noreturn]] inline void fail(error why) { fail(why.code(), why.text()); }

[[noreturn]] inline void fail(const std::error_code &why) {
  fail(why.value(), "a call of a socket failed");
}

} // namespace detail

/// A value or an error, as std::expected of C++23.
///
///     m3ipc::result<int> server = self.locate("stock");
///     if (!server) return server.error();
///     use(*server);
///     int other = self.locate("prices").value(); // throws bad_result without one
template <class T, class E = error>
class [[nodiscard]] result {
public:
  using value_type = T;
  using error_type = E;

  result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  result(E why) : state_(std::in_place_index<1>, std::move(why)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// The value. Throws bad_result without one; ends the program if exceptions are off.
  T &value() & { return checked(), *std::get_if<0>(&state_); }
  const T &value() const & { return checked(), *std::get_if<0>(&state_); }
  T &&value() && { return checked(), std::move(*std::get_if<0>(&state_)); }

  /// The value. There must be one.
  T &operator*() & noexcept { return *std::get_if<0>(&state_); }
  const T &operator*() const & noexcept { return *std::get_if<0>(&state_); }
  T &&operator*() && noexcept { return std::move(*std::get_if<0>(&state_)); }
  T *operator->() noexcept { return std::get_if<0>(&state_); }
  const T *operator->() const noexcept { return std::get_if<0>(&state_); }

  /// The error. There must be one.
  const E &error() const noexcept { return *std::get_if<1>(&state_); }

  template <class U>
  T value_or(U &&other) && {
    return has_value() ? std::move(**this) : static_cast<T>(std::forward<U>(other));
  }
  template <class U>
  T value_or(U &&other) const & {
    return has_value() ? **this : static_cast<T>(std::forward<U>(other));
  }

private:
  void checked() const {
    if (!has_value()) detail::fail(*std::get_if<1>(&state_));
  }

  std::variant<T, E> state_;
};

/// Success or an error.
template <class E>
class [[nodiscard]] result<void, E> {
public:
  using value_type = void;
  using error_type = E;

  result() noexcept = default;
  result(E why) : why_(std::in_place_index<1>, std::move(why)) {}

  bool has_value() const noexcept { return why_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// Throws bad_result after an error; ends the program if exceptions are off.
  void value() const {
    if (!has_value()) detail::fail(*std::get_if<1>(&why_));
  }

  /// The error. There must be one.
  const E &error() const noexcept { return *std::get_if<1>(&why_); }

private:
  std::variant<std::monostate, E> why_;
};

namespace detail {

/// The result of a call that returns 0 or a code.
inline result<void> done(int code) noexcept {
  return code < 0 ? result<void>(error(code)) : result<void>();
}

/// Whether a reply failed because its client gave up, ended, moved or broke the rules.
inline bool is_of_client(int code) noexcept {
  return code == EMOLPROCSTS || code == EMOLDSTDIED || code == EMOLENDPOINT ||
         code == EMOLMIGRATE || code == EMOLNOTCONN || code == EMOLPEERBROKE;
}

/// The result of a reply: whether its client gets it.
inline result<bool> delivered(int code) noexcept {
  if (code >= 0) return true;
  if (is_of_client(code)) return false;
  return error(code);
}

} // namespace detail
} // namespace m3ipc

#endif // M3IPC_RESULT_HPP
