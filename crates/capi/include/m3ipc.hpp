// m3ipc for C++17: the calls of m3ipc.h with owners, views and results. Header only.
//
//   #include <m3ipc.hpp>             CMake: m3ipc::cpp; pkg-config: m3ipc
//
//   result<T>             a value or an error, as std::expected
//   span<T>               a view of memory, as std::span
//   message, pulse        what is sent;  received  what is taken
//   vm, endpoint          a VM, and the membership of a process or thread in it
//   area, block           memory that changes its owner without a copy
//   grant, timer          memory that others may copy, and pulses to oneself
//   socket                a com-socket, in m3ipc/sock.hpp
//
// An owner ends what it owns in its destructor, can be moved, and cannot be copied. No call throws;
// result::value throws bad_result if there is no value.
//
// The calls act for the endpoint of the calling thread: the one that the thread bound for itself,
// else that of its process. An endpoint object must therefore be used, and destroyed, where it is
// that endpoint. The same holds for the areas, blocks, grants and timers of an endpoint. Threads
// that share an endpoint make one call at a time: error EMOLNOTREADY.
//
// The header leaves out the short names of m3ipc.h (ANY, message). It defines no other macro than
// its guard, and M3_NO_SHORT_NAMES.
#ifndef M3IPC_HPP
#define M3IPC_HPP

#ifndef M3_NO_SHORT_NAMES
#define M3_NO_SHORT_NAMES
#endif
#include "m3ipc.h"

#include "m3ipc/result.hpp"
#include "m3ipc/view.hpp"

#include <sys/uio.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace m3ipc {

/// Every endpoint, as the source of a receive.
inline constexpr int any = M3_ANY;
/// The lowest slot for users.
inline constexpr int first_user_slot = M3_FIRST_USER_NR;

// ---- Time limits ---------------------------------------------------------------------------

/// How long a call may wait: for ever (the default), not at all, or for a duration.
///
///     auto received = self.receive(m3ipc::any, std::chrono::seconds(1));
///     auto now = self.receive(m3ipc::any, m3ipc::limit::no_wait());
class limit {
public:
  constexpr limit() noexcept = default;

  /// A duration, rounded up to milliseconds; one below zero counts as zero, and one beyond all
  /// limits as for ever.
  template <class Rep, class Period>
  constexpr limit(std::chrono::duration<Rep, Period> time) noexcept : ms_(rounded(time)) {}

  static constexpr limit no_wait() noexcept { return limit(0L); }
  static constexpr limit forever() noexcept { return limit(); }

  /// The limit in milliseconds, as the calls of C take it.
  constexpr long ms() const noexcept { return ms_; }

private:
  explicit constexpr limit(long ms) noexcept : ms_(ms) {}

  template <class Duration>
  static constexpr long rounded(Duration time) noexcept {
    const long double ms = std::chrono::duration<long double, std::milli>(time).count();
    if (!(ms > 0)) return 0L; // also what is no number
    if (ms >= static_cast<long double>(std::numeric_limits<long>::max()))
      return M3_TIMEOUT_FOREVER;
    return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(time).count());
  }

  long ms_ = M3_TIMEOUT_FOREVER;
};

// ---- Messages ------------------------------------------------------------------------------

/// A notification with a code and a value.
struct pulse {
  std::uint8_t code = 0;
  std::uint64_t value = 0;

  friend constexpr bool operator==(const pulse &a, const pulse &b) noexcept {
    return a.code == b.code && a.value == b.value;
  }
  friend constexpr bool operator!=(const pulse &a, const pulse &b) noexcept { return !(a == b); }
};

/// A message: a type, and up to 40 bytes in which a plain record travels.
///
///     struct sum { int a, b; };
///     m3ipc::message request(1, sum{2, 3});
///     assert(request.type() == 1 && request.as<sum>().b == 3);
class message {
public:
  static constexpr std::size_t capacity = sizeof(m3_message::m_u);

  explicit message(int type = 0) noexcept : raw_() { raw_.m_type = type; }

  template <class Record>
  message(int type, const Record &record) noexcept : message(type) {
    put(record);
  }

  int type() const noexcept { return raw_.m_type; }
  void type(int type) noexcept { raw_.m_type = type; }

  /// The endpoint of the sender. The node vouches for it.
  int source() const noexcept { return raw_.m_source; }

  /// The first bytes of the message as a record. The programs agree on the record.
  template <class Record>
  Record as() const noexcept {
    check<Record>();
    Record record;
    std::memcpy(&record, &raw_.m_u, sizeof record);
    return record;
  }

  template <class Record>
  void put(const Record &record) noexcept {
    check<Record>();
    std::memcpy(&raw_.m_u, &record, sizeof record);
  }

  /// The message as the calls of C know it.
  m3_message &raw() noexcept { return raw_; }
  const m3_message &raw() const noexcept { return raw_; }

private:
  template <class Record>
  static constexpr void check() noexcept {
    static_assert(std::is_trivially_copyable_v<Record>, "only plain records travel");
    static_assert(sizeof(Record) <= capacity, "a message has room for 40 bytes");
  }

  m3_message raw_;
};

/// The kind of what was taken. The sender cannot choose it.
enum class kind {
  message = M3_KIND_MESSAGE,
  request = M3_KIND_REQUEST,
  notification = M3_KIND_NOTIFY,
  death = M3_KIND_DEATH,
  pulse = M3_KIND_PULSE,
};

/// A message that was taken, its kind, and the number of bytes that came beside it.
///
///     switch (auto received = self.receive(); received ? received->kind() : m3ipc::kind::death) {
///     case m3ipc::kind::request: self.reply(received->source(), answer); break;
///     case m3ipc::kind::pulse:   handle(received->pulse()); break;
///     default:                   break;
///     }
class received : public message {
public:
  received(message taken, m3ipc::kind kind, std::size_t bytes) noexcept
      : message(taken), kind_(kind), bytes_(bytes) {}

  m3ipc::kind kind() const noexcept { return kind_; }

  /// The number of bytes in the buffer of the call.
  std::size_t bytes() const noexcept { return bytes_; }

  /// Code and value of a pulse. Of anything else, a pulse of zeros.
  m3ipc::pulse pulse() const noexcept {
    if (kind_ != kind::pulse) return {};
    return {static_cast<std::uint8_t>(raw().M3_PULSE_CODE), raw().M3_PULSE_VALUE};
  }

  /// How often the timer of this pulse ran out since the last take; 1 for other pulses.
  int count() const noexcept { return kind_ == kind::pulse ? raw().M3_PULSE_COUNT : 0; }

  /// The endpoint whose death is reported. Of anything else, M3_NONE.
  int died() const noexcept { return kind_ == kind::death ? raw().M3_DEATH_ENDPOINT : M3_NONE; }

private:
  m3ipc::kind kind_;
  std::size_t bytes_;
};

// ---- The node and its VMs ------------------------------------------------------------------

/// Starts the node, unless it runs already.
inline result<void> start_node() noexcept {
  const int code = mnx_drvs_init(M3_LOCALNODE, nullptr);
  return code == EMOLDRVSBUSY ? result<void>() : detail::done(code);
}

/// Number, name and life of a VM to be made. `params` has all further parameters.
struct vm_options {
  int number = 0;
  std::string_view name;
  unsigned life = M3_VM_UNTIL_ENDED;
  m3_vm_usr_t params{};
};

/// A VM. One that this object made ends with it; one that was only opened goes on.
///
///     m3ipc::start_node().value();
///     m3ipc::vm_options options;
///     options.number = 7;
///     options.name = "shop";
///     auto vm = m3ipc::vm::open_or_create(options).value();
///     auto same = m3ipc::vm::named("shop").value();
class vm {
public:
  vm(vm &&other) noexcept
      : number_(other.number_), is_owner_(std::exchange(other.is_owner_, false)) {}
  vm &operator=(vm &&other) noexcept {
    if (this != &other) {
      end_if_owner();
      number_ = other.number_;
      is_owner_ = std::exchange(other.is_owner_, false);
    }
    return *this;
  }
  ~vm() { end_if_owner(); }

  /// Makes a VM, which ends with the result.
  static result<vm> create(const vm_options &options) noexcept {
    return start(options, mnx_vm_init, true);
  }

  /// Joins the VM of this name, or makes it. It goes on after the result.
  static result<vm> open_or_create(const vm_options &options) noexcept {
    return start(options, m3_vm_open_or_create, false);
  }

  /// The running VM of a name.
  static result<vm> named(const char *name) noexcept {
    const int number = m3_vm_named(name);
    if (number < 0) return error(number);
    return vm(number, false);
  }

  int number() const noexcept { return number_; }

  /// Ends the VM and waits until each member has left.
  result<void> end() noexcept {
    is_owner_ = false;
    return detail::done(mnx_vm_end(number_));
  }

  /// Lets a VM that this object made go on.
  void release() noexcept { is_owner_ = false; }

private:
  vm(int number, bool is_owner) noexcept : number_(number), is_owner_(is_owner) {}

  static result<vm> start(const vm_options &options, int (*by)(m3_vm_usr_t *),
                          bool is_owner) noexcept {
    m3_vm_usr_t params = options.params;
    params.vm_vmid = options.number;
    params.vm_life = options.life;
    if (options.name.size() >= sizeof params.vm_name) return error(EMOLNAMESIZE);
    std::memset(params.vm_name, 0, sizeof params.vm_name);
    std::memcpy(params.vm_name, options.name.data(), options.name.size());
    const int code = by(&params);
    if (code < 0) return error(code);
    return vm(params.vm_vmid, is_owner);
  }

  void end_if_owner() noexcept {
    if (std::exchange(is_owner_, false)) mnx_vm_end(number_);
  }

  int number_;
  bool is_owner_;
};

// ---- Blocks --------------------------------------------------------------------------------

/// A block of an area. It is freed with this object, unless it was sent or released.
///
///     auto block = area.allocate(1 << 20).value();
///     block.bytes()[0] = std::byte{7};
///     self.send_block(server, m3ipc::message(1), block).value();
///     assert(!block); // the receiver owns it
class block {
public:
  block() noexcept = default;
  block(void *data, std::size_t size) noexcept : data_(data), size_(size) {}
  block(block &&other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  block &operator=(block &&other) noexcept {
    if (this != &other) {
      free();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  ~block() { free(); }

  explicit operator bool() const noexcept { return data_ != nullptr; }
  void *data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  span<std::byte> bytes() const noexcept { return {static_cast<std::byte *>(data_), size_}; }

  /// The block as a row of plain records; a rest too small for one is left out.
  template <class Record>
  span<Record> as() const noexcept {
    static_assert(std::is_trivially_copyable_v<Record>, "only plain records travel");
    return {static_cast<Record *>(data_), size_ / sizeof(Record)};
  }

  /// Gives the block to the caller, who frees it by m3_block_free.
  void *release() noexcept {
    size_ = 0;
    return std::exchange(data_, nullptr);
  }

  /// Frees the block now.
  void free() noexcept {
    if (data_ != nullptr) m3_block_free(release());
  }

private:
  void *data_ = nullptr;
  std::size_t size_ = 0;
};

/// An area: memory at one address in each member, from which blocks come. The destructor leaves it.
///
///     auto area = m3ipc::area::create(1 << 30).value();
///     auto block = area.allocate(4096).value();
class area {
public:
  area(area &&other) noexcept : number_(std::exchange(other.number_, 0)) {}
  area &operator=(area &&other) noexcept {
    if (this != &other) {
      detach();
      number_ = std::exchange(other.number_, 0);
    }
    return *this;
  }
  ~area() { detach(); }

  /// Makes an area for a VM, or for a pair of endpoints. `flags` are those of m3_area_create.
  static result<area> create(std::uint64_t bytes_max, int audience = any,
                             unsigned flags = 0) noexcept {
    return of(m3_area_create(bytes_max, audience, flags));
  }

  /// Attaches an area by its number. A block that comes with a message attaches its area by itself.
  static result<area> attach(int number) noexcept {
    const int code = m3_area_attach(number);
    return of(code < 0 ? code : number);
  }

  int number() const noexcept { return number_; }

  result<block> allocate(std::size_t bytes, unsigned flags = 0) const noexcept {
    void *data = nullptr;
    const int code = m3_block_alloc(number_, bytes, flags, &data);
    if (code < 0) return error(code);
    return block(data, bytes);
  }

  /// Stays attached until the endpoint ends.
  int release() noexcept { return std::exchange(number_, 0); }

  /// Leaves the area and frees the blocks of this endpoint in it.
  void detach() noexcept {
    if (number_ != 0) m3_area_detach(release());
  }

private:
  explicit area(int number) noexcept : number_(number) {}

  static result<area> of(int number) noexcept {
    if (number < 0) return error(number);
    return area(number);
  }

  int number_;
};

// ---- Grants and timers ---------------------------------------------------------------------

/// Memory that another endpoint may copy while this one waits, until this object ends.
///
///     auto grant = m3ipc::grant::give(server, m3ipc::bytes_of(table), M3_READ).value();
///     request.put(grant.name());
class grant {
public:
  grant(grant &&other) noexcept : name_(std::exchange(other.name_, 0)) {}
  grant &operator=(grant &&other) noexcept {
    if (this != &other) {
      revoke();
      name_ = std::exchange(other.name_, 0);
    }
    return *this;
  }
  ~grant() { revoke(); }

  /// `rights` are M3_READ, M3_WRITE or both; `to` may be `any`. The memory outlives the grant.
  static result<grant> give(int to, span<std::byte> memory, unsigned rights) noexcept {
    m3_grant_t name = 0;
    const int code = m3_grant(to, memory.data(), memory.size(), rights, &name);
    if (code < 0) return error(code);
    return grant(name);
  }

  /// The name of the grant, to be sent to the endpoint that uses it.
  m3_grant_t name() const noexcept { return name_; }

  void revoke() noexcept {
    if (name_ != 0) m3_revoke(std::exchange(name_, 0));
  }

private:
  explicit grant(m3_grant_t name) noexcept : name_(name) {}

  m3_grant_t name_;
};

/// A timer, which sends pulses to the endpoint that set it. It ends with this object.
///
///     auto tick = m3ipc::timer::every(std::chrono::milliseconds(10), {1, 0}).value();
///     auto received = self.receive().value();
///     assert(received.source() == self.address() && received.pulse().code == 1);
class timer {
public:
  timer(timer &&other) noexcept : number_(std::exchange(other.number_, 0)) {}
  timer &operator=(timer &&other) noexcept {
    if (this != &other) {
      cancel();
      number_ = std::exchange(other.number_, 0);
    }
    return *this;
  }
  ~timer() { cancel(); }

  static result<timer> after(std::chrono::nanoseconds time, m3ipc::pulse pulse) noexcept {
    return start(time, std::chrono::nanoseconds(0), pulse);
  }
  static result<timer> every(std::chrono::nanoseconds period, m3ipc::pulse pulse) noexcept {
    return start(period, period, pulse);
  }
  static result<timer> start(std::chrono::nanoseconds first, std::chrono::nanoseconds period,
                             m3ipc::pulse pulse) noexcept {
    const int number = m3_timer(pulse.code, pulse.value, positive(first), positive(period));
    if (number < 0) return error(number);
    return timer(number);
  }

  /// Ends the timer, and takes its pulse back if no receive has taken that.
  void cancel() noexcept {
    if (number_ != 0) m3_timer_cancel(release());
  }

  /// Lets the timer run until it ends by itself, or with its endpoint.
  int release() noexcept { return std::exchange(number_, 0); }

private:
  explicit timer(int number) noexcept : number_(number) {}

  static std::uint64_t positive(std::chrono::nanoseconds time) noexcept {
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
  }

  int number_;
};

} // namespace m3ipc

#include "m3ipc/endpoint.hpp"

#endif // M3IPC_HPP
