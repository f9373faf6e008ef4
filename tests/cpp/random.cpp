// 64 requests in flight under random time limits, cancels, drops of endpoints, kills and restarts
// of the server. Each request has one outcome, and it is true: the server writes the number of each
// request that it takes to a file. In the end this process and the daemon hold what they held
// before. The sanitizer finds memory that this process has lost.
//
//   M3_SOAK_SECONDS=60 random      (2 seconds without it)
#include <m3ipc.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;
using number = std::uint64_t;

namespace {

constexpr int THREADS = 64;
constexpr std::size_t SIZES[] = {8, 60, 1000, 6000, 100000};

enum class outcome { answered, not_taken, taken, unknown };

struct ended {
  number request;
  outcome how;
};

/// What one client saw.
struct seen {
  std::vector<ended> requests;
  std::map<int, int> codes; // how often each code came
  std::string failure;
};

std::atomic<bool> is_over{false};
std::atomic<number> numbers{1};
std::atomic<int> bound{0};
std::atomic<int> answered{0};

// ---- The server process ---------------------------------------------------------------------

int serve(int record) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that is killed leaves no server
  m3ipc::start_node().value();
  auto vm = m3ipc::vm::named("random").value();
  auto self = m3ipc::endpoint::bind_any(vm).value();
  if (!self.attach_name("server")) return 1;
  std::vector<std::byte> room(SIZES[4]);
  for (;;) {
    auto request = self.receive(m3ipc::mutable_bytes(room));
    if (!request) {
      // A client that died with its block, or a payload without room for it: the next one.
      if (request.error() == EMOLNOTBIND || request.error() == EMOLSHUTDOWN) return 1;
      continue;
    }
    if (request->kind() != m3ipc::kind::request) continue;
    const number taken = request->as<number>();
    if (write(record, &taken, sizeof taken) != sizeof taken) return 1;
    if (taken % 32 == 0) std::this_thread::sleep_for(1ms);
    // A client that has given up is no error here.
    (void)self.reply(request->source(), m3ipc::message(0, taken),
                     m3ipc::const_bytes(room.data(), request->bytes()));
  }
}

// ---- The clients ----------------------------------------------------------------------------

outcome outcome_of(int code) {
  switch (code) {
  case EMOLDSTDIED: case EMOLDEADSRCDST: case EMOLENDPOINT: return outcome::not_taken;
  case EMOLSRCDIED: return outcome::taken;
  default: return outcome::unknown;
  }
}

void work(const m3ipc::vm &vm, unsigned seed, seen &own) {
  std::minstd_rand random(seed);
  const auto one_of = [&random](unsigned choices) {
    return static_cast<unsigned>(random()) % choices;
  };
  std::vector<std::byte> out(SIZES[4]), in(SIZES[4]);
  while (!is_over) {
    auto self = m3ipc::endpoint::bind_thread_any(vm);
    if (!self) {
      own.failure = std::string("bind: ") + self.error().text();
      return;
    }
    bound++;
    // The endpoint is dropped after some requests, and made anew.
    for (unsigned left = 1 + one_of(200); left > 0 && !is_over; left--) {
      const auto server = self->locate("server");
      if (!server) {
        std::this_thread::sleep_for(1ms);
        continue;
      }
      const number request = numbers++;
      const std::size_t size = SIZES[one_of(20) == 0 ? 4 : one_of(4)];
      std::fill_n(out.begin(), size, static_cast<std::byte>(request));
      const std::chrono::milliseconds limits[] = {1ms, 10ms, 30s};
      const auto answer = self->call(*server, m3ipc::message(1, request),
                                     m3ipc::const_bytes(out.data(), size),
                                     m3ipc::mutable_bytes(in), limits[one_of(3)]);
      if (!answer) {
        own.codes[answer.error().code()]++;
        own.requests.push_back({request, outcome_of(answer.error().code())});
        continue;
      }
      own.requests.push_back({request, outcome::answered});
      answered++;
      if (answer->as<number>() != request || answer->bytes() != size ||
          !std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size), in.begin())) {
        own.failure = "the answer is that of another request";
        return;
      }
    }
  }
}

// ---- The test -------------------------------------------------------------------------------

pid_t start(const char *program, int record) {
  const std::string fd = std::to_string(record);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  execl(program, program, "server", fd.c_str(), static_cast<char *>(nullptr));
  _exit(127);
}

void end(pid_t server) {
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
}

int failures;

void fail(const std::string &text) {
  if (failures++ < 10) std::printf("%s\n", text.c_str());
}

/// What a process holds: descriptors, and mappings of memory that it shares with others.
struct holdings {
  int descriptors = 0, mappings = 0;

  static holdings of(const std::string &process) {
    holdings found;
    if (DIR *folder = opendir(("/proc/" + process + "/fd").c_str())) {
      while (readdir(folder) != nullptr) found.descriptors++;
      closedir(folder);
    }
    std::ifstream maps("/proc/" + process + "/maps");
    for (std::string line; std::getline(maps, line);)
      if (line.find("/memfd:") != std::string::npos) found.mappings++;
    return found;
  }
  bool has_more_than(const holdings &other) const {
    return descriptors > other.descriptors || mappings > other.mappings;
  }
};

/// Of this process and of the daemon, in whose lock stands its number.
std::array<holdings, 2> both_holdings() {
  std::string daemon;
  std::ifstream(std::string(std::getenv("M3_RUNTIME_DIR")) + "/lock") >> daemon;
  return {holdings::of("self"), holdings::of(daemon)};
}

/// Waits until links and areas of the last clients and servers have ended too.
void check_holdings(m3ipc::endpoint &self, const std::array<holdings, 2> &before) {
  const char *const whose[] = {"this process", "the daemon"};
  std::array<holdings, 2> after;
  for (int tries = 0; tries < 3000; tries++) {
    (void)self.receive(m3ipc::any, 10ms); // reads the daemon's news
    after = both_holdings();
    if (!after[0].has_more_than(before[0]) && !after[1].has_more_than(before[1])) break;
  }
  for (std::size_t at = 0; at < 2; at++) {
    std::printf("%s: descriptors %d before and %d after, mappings %d and %d\n", whose[at],
                before[at].descriptors, after[at].descriptors, before[at].mappings,
                after[at].mappings);
    if (after[at].has_more_than(before[at])) fail(std::string("a leak of ") + whose[at]);
  }
}

/// The numbers in the record, in their order of numbers.
std::vector<number> taken_requests(int record) {
  std::vector<number> taken(static_cast<std::size_t>(lseek(record, 0, SEEK_END)) / sizeof(number));
  if (pread(record, taken.data(), taken.size() * sizeof(number), 0) < 0) taken.clear();
  std::sort(taken.begin(), taken.end());
  return taken;
}

void check(const std::vector<seen> &all, const std::vector<number> &taken) {
  if (std::adjacent_find(taken.begin(), taken.end()) != taken.end())
    fail("a request was taken twice");
  std::map<outcome, int> counts;
  std::map<int, int> codes;
  std::vector<number> ended_requests;
  for (const auto &own : all) {
    if (!own.failure.empty()) fail(own.failure);
    for (const auto &[code, count] : own.codes) codes[code] += count;
    for (const auto &[request, how] : own.requests) {
      counts[how]++;
      ended_requests.push_back(request);
      const bool was_taken = std::binary_search(taken.begin(), taken.end(), request);
      // A killed server may have taken a request before it wrote the number.
      if (how == outcome::answered && !was_taken)
        fail("an answer to request " + std::to_string(request) + ", which nobody took");
      if (how == outcome::not_taken && was_taken)
        fail("request " + std::to_string(request) + " was taken, and its error denies it");
    }
  }
  std::sort(ended_requests.begin(), ended_requests.end());
  if (ended_requests.size() != numbers - 1) fail("a request has no outcome");
  if (counts[outcome::answered] == 0) fail("no request was answered");
  std::printf("answered %d, not taken %d, taken %d, unknown %d; codes:", counts[outcome::answered],
              counts[outcome::not_taken], counts[outcome::taken], counts[outcome::unknown]);
  for (const auto &[code, count] : codes) std::printf(" %d x %d", code, count);
  std::printf("\n");
}

} // namespace

int main(int argc, char **argv) {
  if (argc > 2) return serve(std::atoi(argv[2]));
  const char *text = std::getenv("M3_SOAK_SECONDS");
  const std::chrono::seconds time(text != nullptr ? std::atoi(text) : 2);
  std::signal(SIGUSR1, [](int) {}); // a cancel: ends the call that waits

  FILE *file = std::tmpfile();
  const int record = fcntl(fileno(file), F_DUPFD, 100);
  fcntl(record, F_SETFL, O_APPEND | O_RDWR);
  m3ipc::start_node().value();
  m3ipc::vm_options options;
  options.number = 9;
  options.name = "random";
  auto vm = m3ipc::vm::create(options).value();
  auto self = m3ipc::endpoint::bind_any(vm).value();
  // The daemon maps its page after its next answer. A later answer comes after that.
  (void)self.locate("server");
  (void)self.locate("server");
  const auto before = both_holdings();

  pid_t server = start(argv[0], record);
  int kills = 0;
  std::vector<seen> all(THREADS);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < THREADS; i++)
    threads.emplace_back([&vm, &all, i] { work(vm, i + 1, all[i]); });
  std::minstd_rand random(99);
  const auto until = std::chrono::steady_clock::now() + time;
  // A busy machine may take long for the first answer: no kill comes before it.
  while (std::chrono::steady_clock::now() < until || answered == 0) {
    const auto pause = std::chrono::milliseconds(20 + random() % 180);
    for (const auto next = std::chrono::steady_clock::now() + pause;
         std::chrono::steady_clock::now() < next; std::this_thread::sleep_for(5ms))
      pthread_kill(threads[random() % THREADS].native_handle(), SIGUSR1);
    if (answered == 0) continue;
    end(server);
    kills++;
    server = start(argv[0], record);
  }
  is_over = true;
  for (auto &thread : threads) thread.join();
  end(server);
  check(all, taken_requests(record));
  std::printf("kills %d, endpoints %d\n", kills, bound.load());
  check_holdings(self, before);
  std::printf("%s\n", failures == 0 ? "passed" : "failed");
  return failures != 0;
}
