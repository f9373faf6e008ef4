/* A server in C that keeps the rules: prints its address, and ends at its first error. */
#include <m3ipc.h>
#include <stdio.h>

int main(int count, char **words) {
  static char room[1 << 20];
  m3_message m;
  size_t bytes;
  int self = count > 1 ? m3_bind_any(m3_vm_named(words[1])) : EMOLBADVALUE;

  if (self < EMOLERRCODE) return 1;
  printf("%d\n", self), fflush(stdout);
  while (m3_receive_long(M3_ANY, &m, room, sizeof room, &bytes) == 0)
    if (m3_reply_long(m.m_source, &m, room, bytes) != 0) return 3;
  return 2;
}
