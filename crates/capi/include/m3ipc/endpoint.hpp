// endpoint of m3ipc.hpp: the membership of a process or thread in a VM, and its calls.
#ifndef M3IPC_ENDPOINT_HPP
#define M3IPC_ENDPOINT_HPP

#include "../m3ipc.hpp"

namespace m3ipc {

/// Memory that is lent to the server of one request.
///
///     m3ipc::loan loans[] = {m3ipc::loan::to_read(text), m3ipc::loan::to_write(answer)};
///     auto answered = self.call_lent(server, request, loans);
struct loan : m3_loan {
  /// The server may read the memory.
  static loan to_read(const_bytes memory) noexcept {
    return loan(const_cast<std::byte *>(memory.data()), memory.size(), M3_READ);
  }
  /// The server may write the memory.
  static loan to_write(mutable_bytes memory) noexcept {
    return loan(memory.data(), memory.size(), M3_WRITE);
  }
  /// The server may do both.
  static loan to_change(mutable_bytes memory) noexcept {
    return loan(memory.data(), memory.size(), M3_READ | M3_WRITE);
  }

private:
  loan(void *memory, std::size_t size, unsigned allowed) noexcept : m3_loan() {
    base = memory;
    bytes = size;
    rights = allowed;
  }
};
static_assert(sizeof(loan) == sizeof(m3_loan), "an array of loans is one of m3_loan");

/// An endpoint: the address of this process, or of this thread, in a VM. The destructor unbinds it.
///
///     auto self = m3ipc::endpoint::bind(vm, 1).value();
///     for (;;) {
///       char text[256];
///       auto request = self.receive(m3ipc::bytes_of(text)).value();
///       if (request.kind() == m3ipc::kind::request)
///         self.reply(request.source(), m3ipc::message(0), m3ipc::bytes_of(text)).value();
///     }
class endpoint {
public:
  endpoint(endpoint &&other) noexcept
      : vm_(other.vm_), address_(std::exchange(other.address_, M3_NONE)) {}
  endpoint &operator=(endpoint &&other) noexcept {
    if (this != &other) {
      unbind_if_bound();
      vm_ = other.vm_;
      address_ = std::exchange(other.address_, M3_NONE);
    }
    return *this;
  }
  ~endpoint() { unbind_if_bound(); }

  // -- Bind and unbind

  /// Binds the process to a slot.
  static result<endpoint> bind(const vm &vm, int slot) noexcept {
    return bound(vm, mnx_bind(vm.number(), slot), slot);
  }
  /// Binds the process to any free slot for users.
  static result<endpoint> bind_any(const vm &vm) noexcept {
    return bound(vm, m3_bind_any(vm.number()));
  }
  /// Binds the process as the backup of a slot, once the slot is at this node.
  static result<endpoint> bind_backup(const vm &vm, int slot, limit within = {}) noexcept {
    return bound(vm, m3_bind_backup_T(vm.number(), slot, within.ms()), slot);
  }
  /// Binds the calling thread, whose process is bound already. Use and destroy the endpoint in it.
  static result<endpoint> bind_thread(const vm &vm, int slot) noexcept {
    return bound(vm, mnx_tbind(vm.number(), slot), slot);
  }
  static result<endpoint> bind_thread_any(const vm &vm) noexcept {
    return bound(vm, m3_tbind_any(vm.number()));
  }

  int address() const noexcept { return address_; }
  int vm_number() const noexcept { return vm_; }

  result<void> unbind() noexcept {
    return detail::done(mnx_unbind(vm_, std::exchange(address_, M3_NONE)));
  }

  /// Moves to the other node that may have the slot. The endpoint has ended here afterwards.
  result<void> migrate(limit within = {}) noexcept {
    const int code = m3_migrate_T(within.ms());
    // After EMOLNOTBIND the address may be that of another endpoint already.
    if (code == 0 || code == EMOLNOTBIND) address_ = M3_NONE;
    return detail::done(code);
  }

  /// Stays bound until the process or the thread ends.
  void release() noexcept { address_ = M3_NONE; }

  // -- Messages

  /// Sends a message, with bytes beside it or without, and returns when the receiver has taken it.
  result<void> send(int to, const message &m, limit within = {}) noexcept {
    message copy = m;
    return detail::done(mnx_send_T(to, &copy.raw(), within.ms()));
  }
  result<void> send(int to, const message &m, const_bytes bytes, limit within = {}) noexcept {
    message copy = m;
    return detail::done(
        m3_send_long_T(to, &copy.raw(), bytes.data(), bytes.size(), within.ms()));
  }

  /// Takes a message, a notification, a pulse or the report of a death. Without a buffer, bytes
  /// beside the message are an error (EMOLMSGSIZE), which means that the message was taken.
  result<received> receive(int from = any, limit within = {}) noexcept {
    message m;
    return taken(m, 0, mnx_receive_T(from, &m.raw(), within.ms()));
  }
  result<received> receive(mutable_bytes buffer, int from = any, limit within = {}) noexcept {
    message m;
    std::size_t bytes = 0;
    const int code =
        m3_receive_long_T(from, &m.raw(), buffer.data(), buffer.size(), &bytes, within.ms());
    return taken(m, bytes, code);
  }
  /// The same for requests, notifications and pulses alone.
  result<received> receive_request(mutable_bytes buffer = {}, limit within = {}) noexcept {
    message m;
    std::size_t bytes = 0;
    const int code =
        m3_rcvrqst_long_T(&m.raw(), buffer.data(), buffer.size(), &bytes, within.ms());
    return taken(m, bytes, code);
  }

  /// Sends a request and waits for the answer (sendrec).
  result<message> call(int server, const message &request, limit within = {}) noexcept {
    message m = request;
    return answer(m, mnx_sendrec_T(server, &m.raw(), within.ms()));
  }
  /// The same with bytes beside both. The bytes of the answer go to `buffer`.
  result<received> call(int server, const message &request, const_bytes out, mutable_bytes buffer,
                        limit within = {}) noexcept {
    message m = request;
    std::size_t bytes = 0;
    const int code = m3_sendrec_long_T(server, &m.raw(), out.data(), out.size(), buffer.data(),
                                       buffer.size(), &bytes, within.ms());
    if (code < 0) return error(code);
    return received(m, kind::message, bytes);
  }
  /// The same, and lends memory to the server for this request.
  result<message> call_lent(int server, const message &request, span<const loan> loans,
                            limit within = {}) noexcept {
    message m = request;
    const int code = m3_sendrec_lent_T(server, &m.raw(), loans.data(),
                                       static_cast<int>(loans.size()), within.ms());
    return answer(m, code);
  }

  /// Answers a request. Never waits. False if the client does not wait any more: it gave up or
  /// ended, which is no error of a server.
  result<bool> reply(int client, const message &m) noexcept {
    message copy = m;
    return detail::delivered(mnx_reply(client, &copy.raw()));
  }
  result<bool> reply(int client, const message &m, const_bytes bytes) noexcept {
    message copy = m;
    return detail::delivered(m3_reply_long(client, &copy.raw(), bytes.data(), bytes.size()));
  }

  /// Answers a request, then receives the next message: the loop of a server in one call. The
  /// answer goes first. `answered` is false if the client did not get it. If the client does not
  /// wait any more, the next message is received all the same.
  result<received> reply_receive(int client, const message &answer, bool &answered,
                                 limit within = {}) noexcept {
    message m = answer;
    int given = 0;
    const int code = m3_reply_receive_T(client, &m.raw(), &given, within.ms());
    answered = given != 0;
    if (answered) return taken(m, 0, code);
    if (detail::is_of_client(code)) return receive(any, within);
    return error(code);
  }
  /// The same with bytes beside both. Those of the next message go to `buffer`.
  result<received> reply_receive(int client, const message &answer, const_bytes out,
                                 mutable_bytes buffer, bool &answered,
                                 limit within = {}) noexcept {
    message m = answer;
    std::size_t bytes = 0;
    int given = 0;
    const int code =
        m3_reply_receive_long_T(client, &m.raw(), out.data(), out.size(), buffer.data(),
                                buffer.size(), &bytes, &given, within.ms());
    answered = given != 0;
    if (answered) return taken(m, bytes, code);
    if (detail::is_of_client(code)) return receive(buffer, any, within);
    return error(code);
  }

  // -- Messages in parts, as readv(2) and writev(2) name them

  result<void> sendv(int to, const message &m, span<const iovec> parts,
                     limit within = {}) noexcept {
    message copy = m;
    return detail::done(m3_sendv_T(to, &copy.raw(), parts.data(), static_cast<int>(parts.size()),
                                   within.ms()));
  }
  result<received> receivev(span<const iovec> parts, int from = any, limit within = {}) noexcept {
    message m;
    std::size_t bytes = 0;
    const int code = m3_receivev_T(from, &m.raw(), parts.data(), static_cast<int>(parts.size()),
                                   &bytes, within.ms());
    return taken(m, bytes, code);
  }
  result<received> callv(int server, const message &request, span<const iovec> out,
                         span<const iovec> in, limit within = {}) noexcept {
    message m = request;
    std::size_t bytes = 0;
    const int code =
        m3_sendrecv_T(server, &m.raw(), out.data(), static_cast<int>(out.size()), in.data(),
                      static_cast<int>(in.size()), &bytes, within.ms());
    if (code < 0) return error(code);
    return received(m, kind::message, bytes);
  }
  result<bool> replyv(int client, const message &m, span<const iovec> parts) noexcept {
    message copy = m;
    return detail::delivered(
        m3_replyv(client, &copy.raw(), parts.data(), static_cast<int>(parts.size())));
  }

  // -- Notifications and pulses. Neither waits.

  result<void> notify(int to) noexcept { return detail::done(mnx_notify(to)); }

  /// Queues a pulse. EMOLAGAIN: the queue is full, and this pulse was not taken.
  result<void> send_pulse(int to, m3ipc::pulse pulse) noexcept {
    return detail::done(m3_pulse_send(to, pulse.code, pulse.value));
  }

  /// The number of pulses that wait for an endpoint.
  result<int> pending_pulses(int to) noexcept { return number(m3_pulse_pending(to)); }

  // -- Memory of a client that waits for an answer

  /// Copies what the client lent, from an offset on.
  result<void> read_lent(int client, std::uint64_t offset, mutable_bytes into) noexcept {
    return detail::done(m3_msg_read(client, offset, into.data(), into.size()));
  }
  result<void> write_lent(int client, std::uint64_t offset, const_bytes from) noexcept {
    return detail::done(m3_msg_write(client, offset, from.data(), from.size()));
  }
  /// Copies what a peer granted, from an offset on.
  result<void> read_granted(int peer, m3_grant_t grant, std::uint64_t offset,
                            mutable_bytes into) noexcept {
    return detail::done(
        m3_copy_granted(peer, grant, offset, into.data(), into.size(), M3_READ));
  }
  result<void> write_granted(int peer, m3_grant_t grant, std::uint64_t offset,
                             const_bytes from) noexcept {
    return detail::done(m3_copy_granted(peer, grant, offset,
                                        const_cast<std::byte *>(from.data()), from.size(),
                                        M3_WRITE));
  }

  // -- Blocks. A block that the receiver has is not here any more, and `block` is empty: always
  // after a success, and after a failure if the receiver took the message.

  result<void> send_block(int to, const message &m, m3ipc::block &block,
                          limit within = {}) noexcept {
    message copy = m;
    return detail::done(given(block, m3_send_block_T(to, &copy.raw(), block.data(), within.ms())));
  }
  result<message> call_with_block(int server, const message &request, m3ipc::block &block,
                                  limit within = {}) noexcept {
    message m = request;
    const int code = m3_sendrec_block_T(server, &m.raw(), block.data(), within.ms());
    return answer(m, given(block, code));
  }
  /// The block stays here if the client does not wait any more.
  result<bool> reply_block(int client, const message &m, m3ipc::block &block) noexcept {
    message copy = m;
    return detail::delivered(given(block, m3_reply_block(client, &copy.raw(), block.data())));
  }
  /// Takes the block that came with the last message.
  result<m3ipc::block> take_block() noexcept {
    void *data = nullptr;
    std::size_t bytes = 0;
    const int code = m3_block_take(&data, &bytes);
    if (code < 0) return error(code);
    return m3ipc::block(data, bytes);
  }

  // -- Names and deaths

  result<void> attach_name(const char *name) noexcept {
    return detail::done(m3_name_attach(name));
  }
  /// The endpoint of a name. Endpoints of tasks, which are below 0, need m3_name_locate.
  result<int> locate(const char *name) noexcept { return number(m3_name_locate(name)); }
  result<int> wait_for_name(const char *name, limit within = {}) noexcept {
    return number(m3_wait4name_T(name, within.ms()));
  }

  /// Reports the death of an endpoint as something to receive.
  result<void> watch(int peer) noexcept { return detail::done(m3_watch(peer)); }
  result<void> unwatch(int peer) noexcept { return detail::done(m3_unwatch(peer)); }
  /// Reports the death of each endpoint that exchanges something with this one.
  result<void> watch_all(bool on = true) noexcept { return detail::done(m3_watch_all(on)); }

  /// Who sent what was taken last. The node vouches for all of it.
  result<struct m3_peer> peer() noexcept {
    struct m3_peer who{};
    const int code = ::m3_peer(&who);
    if (code < 0) return error(code);
    return who;
  }

  /// A descriptor for poll(2): see m3_fd.
  result<int> fd() noexcept { return number(m3_fd()); }

  /// M3_WAIT_ADAPTIVE, M3_WAIT_SPIN or M3_WAIT_BLOCK.
  result<void> set_wait(int wait) noexcept { return detail::done(m3_set_wait(wait)); }

  /// The longest bytes beside a message that this endpoint takes: see m3_set_receive_limit.
  result<void> set_receive_limit(std::size_t bytes) noexcept {
    return detail::done(m3_set_receive_limit(bytes));
  }

  /// The place among the senders that wait for a receiver, 0 to M3_PRIORITY_MAX.
  result<void> set_priority(int priority) noexcept {
    return detail::done(m3_set_priority(priority));
  }
  /// What was set, or what was taken over from a client if that is higher.
  result<int> priority() noexcept { return number(m3_priority()); }
  /// M3_INHERIT_NONE, M3_INHERIT_ORDER or M3_INHERIT_THREAD.
  result<void> set_inheritance(int inheritance) noexcept {
    return detail::done(m3_set_inheritance(inheritance));
  }

private:
  endpoint(int vm, int address) noexcept : vm_(vm), address_(address) {}

  static result<endpoint> bound(const vm &vm, int address) noexcept {
    if (address < 0) return error(address);
    return endpoint(vm.number(), address);
  }
  static result<endpoint> bound(const vm &vm, int address, int slot) noexcept {
    if (!M3_BOUND(address, slot)) return error(address);
    return endpoint(vm.number(), address);
  }

  static result<int> number(int result) noexcept {
    if (result < 0) return error(result);
    return result;
  }

  static result<received> taken(const message &m, std::size_t bytes, int code) noexcept {
    if (code < 0) return error(code);
    // Not m3_kind: another thread may use the endpoint by now.
    return received(m, static_cast<m3ipc::kind>(m3_last_kind()), bytes);
  }

  static result<message> answer(const message &m, int code) noexcept {
    if (code < 0) return error(code);
    return m;
  }

  /// Empties `block` if the call with this code gave it away. Returns the code.
  static int given(m3ipc::block &block, int code) noexcept {
    if (code >= 0 || m3_last_block_kept() == 0) block.release();
    return code;
  }

  void unbind_if_bound() noexcept {
    if (address_ != M3_NONE) mnx_unbind(vm_, std::exchange(address_, M3_NONE));
  }

  int vm_;
  int address_;
};

} // namespace m3ipc

#endif // M3IPC_ENDPOINT_HPP
