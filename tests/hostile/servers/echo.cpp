// A server in C++ that keeps the rules: prints its address, and ends at its first error.
#include <m3ipc.hpp>

#include <cstddef>
#include <cstdio>
#include <vector>

int main(int, char **words) {
  const auto vm = m3ipc::vm::named(words[1]).value();
  auto self = m3ipc::endpoint::bind_any(vm).value();
  std::printf("%d\n", self.address());
  std::fflush(stdout);
  std::vector<std::byte> room(1 << 20);
  for (;;) {
    const auto got = self.receive(m3ipc::bytes_of(room)).value();
    self.reply(got.source(), m3ipc::message(8), {room.data(), got.bytes()}).value();
  }
}
