// The classes of m3ipc.hpp against a node of their own. Two threads of one process are the peers:
// the main thread has the endpoint of the process, the other one an endpoint of its own.
#include <m3ipc.hpp>
#include <m3ipc/sock.hpp>

#include <atomic>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

static std::atomic<int> cases, failures;

static void check(bool holds, const char *text, int line) {
  cases++;
  if (holds) return;
  failures++;
  std::printf("line %d: %s\n", line, text);
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__, __LINE__)

struct sum {
  int a, b;
};

// ---- Without a node ------------------------------------------------------------------------

static void results() {
  m3ipc::result<std::string> good(std::string("text")), bad(m3ipc::error(EMOLDSTDIED));
  CHECK(good && *good == "text" && good->size() == 4 && good.value() == "text");
  CHECK(!bad && bad.error() == EMOLDSTDIED && bad.error() != EMOLSRCDIED);
  CHECK(bad.value_or("other") == "other" && good.value_or("other") == "text");
  CHECK(std::string(bad.error().text()) == m3_strerror(EMOLDSTDIED));
  CHECK(std::string(bad.error().reason()) == m3_last_reason());
  try {
    bad.value();
    CHECK(false);
  } catch (const m3ipc::bad_result &thrown) {
    CHECK(thrown.code() == EMOLDSTDIED && std::string(thrown.what()) == bad.error().text());
  }
  CHECK(m3ipc::result<void>() && !m3ipc::result<void>(m3ipc::error(EMOLAGAIN)));
  auto moved = std::move(good).value();
  CHECK(moved == "text");
}

static void views() {
  std::vector<int> numbers{1, 2, 3};
  const auto &fixed = numbers;
  m3ipc::span<int> view(numbers);
  m3ipc::span<const int> constant(fixed), converted(view);
  CHECK(view.size() == 3 && view[2] == 3 && view.from(1)[0] == 2 && view.first(9).size() == 3);
  CHECK(constant.data() == numbers.data() && converted.size_bytes() == 12 && view.from(9).empty());
  static_assert(std::is_same_v<decltype(m3ipc::bytes_of(numbers)), m3ipc::mutable_bytes>);
  static_assert(std::is_same_v<decltype(m3ipc::bytes_of(fixed)), m3ipc::const_bytes>);
  static_assert(!std::is_convertible_v<m3ipc::const_bytes, m3ipc::mutable_bytes>);
  static_assert(!std::is_copy_constructible_v<m3ipc::endpoint>);
  static_assert(!std::is_copy_constructible_v<m3ipc::block>);
  static_assert(std::is_nothrow_move_constructible_v<m3ipc::timer>);
  m3ipc::message m(7, sum{2, 3});
  CHECK(m.type() == 7 && m.as<sum>().b == 3 && m.raw().m_type == 7);
  CHECK(m3ipc::limit().ms() == -1 && m3ipc::limit(1500us).ms() == 2);
  CHECK(m3ipc::limit(-1s).ms() == 0 && m3ipc::limit::no_wait().ms() == 0);
  using real = std::chrono::duration<double>;
  const double endless = std::numeric_limits<double>::infinity();
  CHECK(m3ipc::limit(std::chrono::seconds::max()).ms() == M3_TIMEOUT_FOREVER);
  CHECK(m3ipc::limit(std::chrono::hours::max()).ms() == M3_TIMEOUT_FOREVER);
  CHECK(m3ipc::limit(std::chrono::nanoseconds::max()).ms() == 9223372036855);
  CHECK(m3ipc::limit(std::chrono::seconds::min()).ms() == 0 && m3ipc::limit(1ns).ms() == 1);
  CHECK(m3ipc::limit(real(endless)).ms() == M3_TIMEOUT_FOREVER);
  CHECK(m3ipc::limit(real(-endless)).ms() == 0 && m3ipc::limit(real(endless - endless)).ms() == 0);
  CHECK(m3ipc::limit(real(1e300)).ms() == M3_TIMEOUT_FOREVER);
  CHECK(m3ipc::limit(real(0.5)).ms() == 500);
}

// ---- Two endpoints -------------------------------------------------------------------------

static const m3ipc::vm *the_vm;

/// Runs `body` in a thread with an endpoint of its own.
static std::thread peer(std::function<void(m3ipc::endpoint &)> body) {
  return std::thread([body = std::move(body)] {
    auto own = m3ipc::endpoint::bind_thread_any(*the_vm);
    CHECK(own.has_value());
    if (own) body(*own);
  });
}

static void messages(m3ipc::endpoint &self) {
  const int server = self.address();
  std::atomic<bool> is_full{false};
  auto client = peer([&](m3ipc::endpoint &own) {
    auto answer = own.call(server, m3ipc::message(1, sum{20, 22}), 10s);
    CHECK(answer && answer->type() == 2 && answer->as<int>() == 42);
    char buffer[16] = {};
    auto text = own.call(server, m3ipc::message(3), m3ipc::bytes_of(std::string_view("text")),
                         m3ipc::bytes_of(buffer), 10s);
    CHECK(text && text->bytes() == 4 && std::string_view(buffer, 4) == "TEXT");
    CHECK(own.send(server, m3ipc::message(5), 10s).has_value());
    char head[3] = {'1', '2', '3'}, tail[] = "4567";
    iovec out[] = {{head, 3}, {tail, 4}}, in[] = {{tail, 2}, {head, 3}};
    CHECK(own.sendv(server, m3ipc::message(6), out, 10s).has_value());
    auto parts = own.callv(server, m3ipc::message(7), out, in, 10s);
    CHECK(parts && parts->bytes() == 4);
    CHECK(std::string_view(tail, 4) == "ab67" && std::string_view(head, 3) == "cd3");
    CHECK(own.set_priority(7).has_value() && own.priority().value_or(-1) == 7);
    CHECK(own.set_priority(M3_PRIORITY_MAX + 1).error() == EMOLBADRANGE);
    CHECK(own.set_inheritance(M3_INHERIT_ORDER).has_value());
    CHECK(own.set_inheritance(M3_INHERIT_NONE).has_value());
    CHECK(own.notify(server).has_value());
    for (std::uint64_t value = 0; value < M3_PULSES_MAX; value++)
      CHECK(own.send_pulse(server, {200, value}).has_value());
    const auto refused = own.send_pulse(server, {200, 99});
    CHECK(!refused && refused.error() == EMOLAGAIN);
    CHECK(own.pending_pulses(server).value_or(-1) == M3_PULSES_MAX);
    is_full = true;
    CHECK(own.send(server, m3ipc::message(8), 10s).has_value());
  });
  auto first = self.receive(m3ipc::any, 10s);
  CHECK(first && first->kind() == m3ipc::kind::request && first->type() == 1);
  const auto asked = first->as<sum>();
  CHECK(self.peer() && self.peer()->endpoint == first->source() && self.peer()->pid == getpid());
  CHECK(self.reply(first->source(), m3ipc::message(2, asked.a + asked.b)).value_or(false));
  CHECK(!self.reply(first->source(), m3ipc::message(2)).value_or(true));
  CHECK(self.reply(1000000, m3ipc::message(2)).error() == EMOLRANGE);
  char buffer[8] = {};
  auto second = self.receive(m3ipc::bytes_of(buffer), first->source(), 10s);
  CHECK(second && second->bytes() == 4 && std::string_view(buffer, 4) == "text");
  for (char &letter : buffer) letter = static_cast<char>(letter & ~0x20);
  CHECK(self.reply(second->source(), m3ipc::message(4), m3ipc::bytes_of(buffer).first(4))
            .has_value());
  auto third = self.receive(m3ipc::any, 10s);
  CHECK(third && third->kind() == m3ipc::kind::message && third->type() == 5);
  char front[2] = {}, back[9] = {};
  iovec into[] = {{front, 2}, {back, 9}};
  auto parts = self.receivev(into, m3ipc::any, 10s);
  CHECK(parts && parts->bytes() == 7 && std::string_view(front, 2) == "12");
  CHECK(std::string_view(back, 5) == "34567");
  auto request = self.receive_request(m3ipc::bytes_of(back), 10s);
  CHECK(request && request->type() == 7 && request->bytes() == 7);
  char left[] = "abc", right[] = "d";
  iovec answer[] = {{left, 3}, {right, 1}};
  CHECK(self.replyv(request->source(), m3ipc::message(0), answer).has_value());
  // No pulse is taken before the last one is refused.
  while (!is_full) std::this_thread::yield();
  auto noted = self.receive(request->source(), 10s);
  CHECK(noted && noted->kind() == m3ipc::kind::notification && noted->died() == M3_NONE);
  std::uint64_t value = 0;
  for (auto next = self.receive(m3ipc::any, 10s); next; next = self.receive(m3ipc::any, 10s)) {
    if (next->kind() != m3ipc::kind::pulse) {
      CHECK(next->type() == 8 && value == M3_PULSES_MAX);
      break;
    }
    CHECK(next->pulse() == m3ipc::pulse{200, value++} && next->count() == 1);
    CHECK(next->raw().m_type == M3_PULSE);
  }
  client.join();
  CHECK(self.receive(m3ipc::any, m3ipc::limit::no_wait()).error() == EMOLAGAIN);
}

static void reply_and_receive(m3ipc::endpoint &self) {
  const int server = self.address();
  auto client = peer([&](m3ipc::endpoint &own) {
    for (std::size_t length : {0U, 40U, 1792U, 1793U, 100000U}) {
      std::string text(length, 'x'), answer(length, '.');
      auto got = own.call(server, m3ipc::message(1), m3ipc::bytes_of(std::as_const(text)),
                          m3ipc::bytes_of(answer), 10s);
      CHECK(got && got->type() == 2 && got->bytes() == length);
      CHECK(answer == std::string(length, 'X'));
    }
    auto last = own.call(server, m3ipc::message(9), 10s);
    CHECK(last && last->type() == 10);
  });
  std::string buffer(200000, ' ');
  bool answered = true;
  auto request = self.receive(m3ipc::bytes_of(buffer), m3ipc::any, 10s);
  while (request && request->type() == 1) {
    for (char &letter : buffer) letter = static_cast<char>(letter & ~0x20);
    const auto answer = m3ipc::bytes_of(std::as_const(buffer)).first(request->bytes());
    request = self.reply_receive(request->source(), m3ipc::message(2), answer,
                                 m3ipc::bytes_of(buffer), answered, 10s);
    CHECK(request && answered && request->kind() == m3ipc::kind::request);
  }
  CHECK(request && request->type() == 9);
  auto none = self.reply_receive(request->source(), m3ipc::message(10), answered,
                                 m3ipc::limit::no_wait());
  CHECK(answered && none.error() == EMOLAGAIN);
  client.join();
  // A client that is gone ends no loop: the next message comes.
  const int gone = request->source();
  auto next = peer([&](m3ipc::endpoint &own) {
    for (int type : {11, 12}) CHECK(own.send(server, m3ipc::message(type), 10s).has_value());
  });
  none = self.reply_receive(gone, m3ipc::message(10), answered, 10s);
  CHECK(!answered && none && none->type() == 11);
  none = self.reply_receive(gone, m3ipc::message(10), m3ipc::bytes_of(std::as_const(buffer)),
                            m3ipc::bytes_of(buffer), answered, 10s);
  CHECK(!answered && none && none->type() == 12);
  next.join();
}

static void deaths_and_names(m3ipc::endpoint &self) {
  const int server = self.address();
  CHECK(self.watch_all().has_value());
  CHECK(self.attach_name("calls").has_value());
  CHECK(self.attach_name("calls").error() == EMOLRSCBUSY);
  CHECK(self.locate("nobody").error() == EMOLNONODE);
  std::atomic<int> address{0};
  auto client = peer([&](m3ipc::endpoint &own) {
    address = own.address();
    CHECK(own.wait_for_name("calls", 10s).value_or(-1) == server);
    CHECK(own.send(server, m3ipc::message(1), 10s).has_value());
  });
  auto got = self.receive(m3ipc::any, 10s);
  CHECK(got && got->type() == 1);
  auto died = self.receive(m3ipc::any, 10s);
  CHECK(died && died->kind() == m3ipc::kind::death && died->died() == address);
  CHECK(died->source() == M3_SYSTEM && died->pulse() == m3ipc::pulse{});
  client.join();
  CHECK(self.watch_all(false).has_value());
  CHECK(self.send(address, m3ipc::message(1)).error() == EMOLDSTDIED);
}

static void timers(m3ipc::endpoint &self) {
  auto tick = m3ipc::timer::every(2ms, {1, 11});
  auto once = m3ipc::timer::after(1ms, {2, 22});
  CHECK(tick && once);
  bool seen[3] = {};
  while (!seen[1] || !seen[2]) {
    auto got = self.receive(m3ipc::any, 10s);
    CHECK(got && got->kind() == m3ipc::kind::pulse && got->source() == self.address());
    if (!got) return;
    CHECK(got->count() >= 1 && got->pulse().value == 11u * got->pulse().code);
    seen[got->pulse().code] = true;
  }
  tick->cancel();
  once = m3ipc::timer::after(1h, {3, 33}); // ends with the function
  CHECK(self.receive(m3ipc::any, 3ms).error() == EMOLTIMEDOUT);
  CHECK(m3_timer(256, 0, 0, 0) == EMOLINVAL && m3_timer_cancel(12345) == EMOLBADVALUE);
}

static void copies(m3ipc::endpoint &self) {
  const int server = self.address();
  auto client = peer([&](m3ipc::endpoint &own) {
    std::string text("0123456789"), answer(8, '.');
    m3ipc::loan loans[] = {m3ipc::loan::to_read(m3ipc::bytes_of(text)),
                           m3ipc::loan::to_write(m3ipc::bytes_of(answer))};
    CHECK(own.call_lent(server, m3ipc::message(1), loans, 10s).has_value());
    CHECK(answer == "..bye...");
    auto grant = m3ipc::grant::give(server, m3ipc::bytes_of(text), M3_READ);
    CHECK(grant.has_value());
    CHECK(own.call(server, m3ipc::message(2, grant->name()), 10s).has_value());
  });
  char buffer[3] = {};
  auto request = self.receive(m3ipc::any, 10s);
  const int from = request.value().source();
  CHECK(self.read_lent(from, 4, m3ipc::bytes_of(buffer)).has_value());
  CHECK(std::string_view(buffer, 3) == "456");
  CHECK(self.write_lent(from, 2, m3ipc::bytes_of(std::string_view("bye"))).has_value());
  CHECK(self.write_lent(from, 6, m3ipc::bytes_of(std::string_view("bye"))).error() == EMOLRANGE);
  CHECK(self.reply(from, m3ipc::message(0)).has_value());
  request = self.receive(m3ipc::any, 10s);
  const auto name = request.value().as<m3_grant_t>();
  CHECK(self.read_granted(from, name, 7, m3ipc::bytes_of(buffer)).has_value());
  CHECK(std::string_view(buffer, 3) == "789");
  CHECK(self.write_granted(from, name, 0, m3ipc::bytes_of(buffer)).error() == EMOLPERM);
  CHECK(self.read_lent(from, 0, m3ipc::bytes_of(buffer)).error() == EMOLPERM);
  CHECK(self.reply(from, m3ipc::message(0)).has_value());
  client.join();
}

static void blocks(m3ipc::endpoint &self) {
  const int server = self.address();
  auto client = peer([&](m3ipc::endpoint &own) {
    auto area = m3ipc::area::create(1 << 20);
    auto block = area.value().allocate(4096);
    block.value().as<int>()[1] = 7;
    void *at = block->data();
    auto answer = own.call_with_block(server, m3ipc::message(1), *block, 10s);
    CHECK(answer && !*block && block->size() == 0);
    auto back = own.take_block();
    CHECK(back && back->data() == at && back->as<int>()[1] == 8);
    CHECK(own.take_block().error() == EMOLNOMSG);
  });
  auto request = self.receive(m3ipc::any, 10s);
  auto block = self.take_block();
  CHECK(request && block && block->size() >= 4096 && block->as<int>()[1] == 7);
  block->as<int>()[1]++;
  CHECK(self.reply_block(request->source(), m3ipc::message(0), *block).has_value() && !*block);
  client.join();
}

/// A block is the receiver's once the message is taken, although the call fails.
static void blocks_of_failed_calls(m3ipc::endpoint &self) {
  auto area = m3ipc::area::create(1 << 20).value();
  std::atomic<int> address{0};
  auto server = peer([&](m3ipc::endpoint &own) {
    address = own.address();
    auto request = own.receive(m3ipc::any, 10s);
    CHECK(request && request->kind() == m3ipc::kind::request && own.take_block().has_value());
  });
  while (address == 0) std::this_thread::yield();
  auto block = area.allocate(4096).value();
  auto answer = self.call_with_block(address, m3ipc::message(1), block, 10s);
  CHECK(!answer && answer.error().delivery() == M3_TAKEN && !block);
  server.join();
  block = area.allocate(4096).value();
  answer = self.call_with_block(address, m3ipc::message(1), block, 10s);
  CHECK(answer.error() == EMOLDEADSRCDST || answer.error() == EMOLDSTDIED);
  CHECK(block && block.bytes()[0] == std::byte{0});
  CHECK(!self.send_block(address, m3ipc::message(1), block, 10s) && block);
  CHECK(!self.reply_block(address, m3ipc::message(1), block).value_or(true) && block);
}

/// Threads that share an endpoint lose no message, and know the kind of each.
static void two_receivers(m3ipc::endpoint &self) {
  const int server = self.address(), messages = 2000;
  std::atomic<bool> has_ended{false};
  std::atomic<int> received{0};
  auto client = peer([&](m3ipc::endpoint &own) {
    for (int number = 0; number < messages; number++) {
      if (number % 2 == 0) CHECK(own.send(server, m3ipc::message(8), 10s).has_value());
      else while (!own.send_pulse(server, {1, 2})) std::this_thread::yield();
    }
    has_ended = true;
  });
  const auto receive = [&] {
    while (received < messages) {
      const bool is_last = has_ended;
      auto next = self.receive(m3ipc::any, m3ipc::limit::no_wait());
      if (next) {
        received++;
        CHECK((next->type() == 8) == (next->kind() == m3ipc::kind::message));
        CHECK((next->type() == M3_PULSE) == (next->kind() == m3ipc::kind::pulse));
      } else if (next.error() == EMOLAGAIN && is_last) {
        break;
      }
    }
  };
  std::thread other(receive);
  receive();
  other.join();
  client.join();
  CHECK(received == messages);
  client = peer([&](m3ipc::endpoint &own) { CHECK(own.send_pulse(server, {3, 4}).has_value()); });
  client.join();
  auto first = self.receive(m3ipc::any, 10s);
  CHECK(first && first->kind() == m3ipc::kind::pulse);
  std::atomic<bool> is_over{false};
  other = std::thread([&] {
    CHECK(m3_last_kind() == EMOLNOMSG);
    auto next = self.receive(m3ipc::any, 10s);
    // The look below is a call on the endpoint too.
    while (!next && next.error() == EMOLNOTREADY) next = self.receive(m3ipc::any, 10s);
    CHECK(next && next->kind() == m3ipc::kind::notification);
    is_over = true;
  });
  while (m3_kind() != EMOLNOTREADY && !is_over) std::this_thread::yield();
  CHECK(m3_last_kind() == M3_KIND_PULSE);
  client = peer([&](m3ipc::endpoint &own) { CHECK(own.notify(server).has_value()); });
  client.join();
  other.join();
}

static void sockets() {
  auto listener = m3ipc::socket::stream();
  CHECK(listener && listener->bind() && listener->listen(1));
  const auto to = listener->address().value();
  std::thread client([to] {
    auto own = m3ipc::socket::connect(to);
    CHECK(own.has_value());
    CHECK(own->send(m3ipc::bytes_of(std::string_view("text"))).value_or(0) == 4);
  });
  auto peer = listener->accept();
  char buffer[8] = {};
  CHECK(peer && peer->receive(m3ipc::bytes_of(buffer)).value_or(0) == 4);
  CHECK(std::string_view(buffer, 4) == "text");
  client.join();
  CHECK(peer->receive(m3ipc::bytes_of(buffer)).value_or(9) == 0);
  CHECK(listener->receive(m3ipc::bytes_of(buffer)).error() == std::errc::not_connected);
}

int main() {
  results();
  views();
  m3ipc::start_node().value();
  m3ipc::vm_options options;
  options.number = 7;
  options.name = "calls";
  CHECK(m3ipc::vm::named("calls").error() == EMOLNONODE);
  auto vm = m3ipc::vm::create(options).value();
  CHECK(m3ipc::vm::create(options).error() == EMOLRSCBUSY);
  CHECK(m3ipc::vm::named("calls").value().number() == 7);
  options.name = "a name that is too long";
  CHECK(m3ipc::vm::create(options).error() == EMOLNAMESIZE);
  the_vm = &vm;
  {
    auto self = m3ipc::endpoint::bind(vm, 1).value();
    CHECK(m3ipc::endpoint::bind_any(vm).error() == EMOLSLOTUSED);
    messages(self);
    reply_and_receive(self);
    deaths_and_names(self);
    timers(self);
    copies(self);
    blocks(self);
    blocks_of_failed_calls(self);
    two_receivers(self);
    sockets();
    CHECK(self.migrate().error() == EMOLNOPROXY && self.address() == 1);
    CHECK(self.migrate(1s).error() == EMOLNOPROXY);
    auto moved = std::move(self);
    CHECK(moved.address() == 1 && moved.send(1, m3ipc::message(1)).error() == EMOLENDPOINT);
  }
  auto again = m3ipc::endpoint::bind_any(vm);
  CHECK(again && again->address() >= m3ipc::first_user_slot && again->vm_number() == 7);
  std::printf("%d passed, %d failed\n", cases - failures, failures.load());
  return failures == 0 ? 0 : 1;
}
