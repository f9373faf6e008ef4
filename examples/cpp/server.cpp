// A server in C++ and its two clients in C: requests, priorities, pulses with values, a timer, and
// the death of a client. `make -C examples/cpp run` builds and runs it.
#include <m3ipc.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

struct job { // what client.c sends
  char client;
  int a, b;
};
enum : std::uint8_t { PROGRESS = 1, TICK = 2 }; // codes of pulses

static pid_t start(const char *program, const char *name) {
  pid_t pid;
  const char *const args[] = {program, name, nullptr};
  if (posix_spawn(&pid, program, nullptr, nullptr, const_cast<char **>(args), environ) != 0)
    std::exit(1);
  return pid;
}

int main(int, char **args) try {
  m3ipc::start_node().value();
  m3ipc::vm_options options;
  options.number = 9;
  options.name = "jobs";
  options.life = M3_VM_WITH_CREATOR; // a kill of the server ends the VM and the clients
  auto vm = m3ipc::vm::create(options).value();
  auto self = m3ipc::endpoint::bind(vm, 1).value();
  self.watch_all().value();
  self.set_inheritance(M3_INHERIT_ORDER).value(); // the priority of the client that it works for
  self.attach_name("jobs").value();
  auto tick = m3ipc::timer::every(std::chrono::milliseconds(1), {TICK, 0}).value();
  std::map<char, pid_t> pids;
  for (const char *name : {"A", "B"}) pids[*name] = start(args[1], name);

  std::map<int, char> clients; // by endpoint
  std::map<char, std::uint64_t> progress;
  int ticks = 0, highest = 0;
  for (int gone = 0; gone < 2;) {
    auto got = self.receive().value(); // pulses come before the messages of their sender
    switch (got.kind()) {
    case m3ipc::kind::request: {
      const auto asked = got.as<job>();
      clients[got.source()] = asked.client;
      highest = std::max(highest, self.priority().value());
      (void)self.reply(got.source(), m3ipc::message(0, asked.a + asked.b)); // it may have died
      break;
    }
    case m3ipc::kind::pulse:
      if (got.pulse().code == TICK) ticks += got.count();
      else progress[clients[got.source()]] += got.pulse().value;
      break;
    case m3ipc::kind::death: {
      const auto client = clients.find(got.died());
      if (client == clients.end()) break;
      int status = 0;
      waitpid(pids[client->second], &status, 0);
      std::printf("client %c %s after progress %d\n", client->second,
                  WIFSIGNALED(status) ? "was killed" : "left",
                  static_cast<int>(progress[client->second]));
      gone++;
      break;
    }
    default: break;
    }
  }
  std::printf("the timer %s; the highest priority was %d\n", ticks > 0 ? "ran" : "stood", highest);
} catch (const m3ipc::bad_result &error) {
  std::fprintf(stderr, "%s (%d)\n", error.what(), error.code());
  return 1;
}
