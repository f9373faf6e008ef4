/*
 * client: asks the server of server.c for the sum of two numbers.
 *
 *     ./client 20 22
 *     client: 20 + 22 = 42
 */
#include <m3ipc.h>
#include <stdio.h>
#include <stdlib.h>

#define VM_ID     7
#define SERVER_NR 10
#define CLIENT_NR (FIRST_USER_NR + 1)
#define ADD       1

static int fail(const char *what, int code) {
  fprintf(stderr, "client: %s: %s (%d)\n", what, m3_strerror(code), code);
  return 1;
}

int main(int argc, char **argv) {
  message m = {0};

  if (argc != 3) {
    fprintf(stderr, "usage: client NUMBER NUMBER\n");
    return 2;
  }
  int self = mnx_bind(VM_ID, CLIENT_NR);
  if (self < EMOLERRCODE) return fail("bind", self);

  /* The server may still be starting. */
  int server = mnx_wait4bindep_T(SERVER_NR, 5000);
  if (server != SERVER_NR) return fail("wait4bindep", server);

  m.m_type = ADD;
  m.m1_i1 = atoi(argv[1]);
  m.m1_i2 = atoi(argv[2]);
  int code = mnx_sendrec(server, &m);
  if (code != OK) return fail("sendrec", code);
  if (m.m_type != OK) return fail("answer", m.m_type);
  printf("client: %d + %d = %d\n", m.m1_i1, m.m1_i2, m.m1_i3);

  /* A notification ends with its source: wait until the server has taken it. */
  code = mnx_notify(server);
  if (code != OK) return fail("notify", code);
  code = mnx_receive(server, &m);
  if (code != OK) return fail("receive", code);
  code = mnx_unbind(VM_ID, self);
  return code == OK ? 0 : fail("unbind", code);
}
