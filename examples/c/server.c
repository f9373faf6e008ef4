/*
 * server: adds two numbers for each client.
 *
 *     cc -o server server.c $(pkg-config --cflags --libs m3ipc)
 *     ./server &
 *     ./client 20 22
 *
 * A notification of a client ends the server. The server reports clients that die.
 */
#include <m3ipc.h>
#include <stdio.h>
#include <string.h>

#define VM_ID     7
#define SERVER_NR 10 /* a server slot: the endpoint is 10 too */
#define ADD       1

static int fail(const char *what, int code) {
  fprintf(stderr, "server: %s: %s (%d)\n", what, m3_strerror(code), code);
  return 1;
}

int main(void) {
  VM_usr_t vm;
  message m;

  /* The node: number and parameters come from the environment, or are defaults. */
  int code = mnx_drvs_init(LOCALNODE, NULL);
  if (code < 0 && code != EMOLDRVSBUSY) return fail("drvs_init", code);

  /* The VM: the first server makes it, and it ends with its last member. */
  memset(&vm, 0, sizeof vm);
  vm.vm_vmid = VM_ID;
  vm.vm_life = M3_VM_WITH_MEMBERS;
  strcpy(vm.vm_name, "adder");
  code = m3_vm_open_or_create(&vm);
  if (code < 0) return fail("vm_open_or_create", code);

  int self = mnx_bind(VM_ID, SERVER_NR);
  if (!M3_BOUND(self, SERVER_NR)) return fail("bind", self);
  printf("server: endpoint %d\n", self);
  m3_watch_all(1);

  for (;;) {
    code = mnx_receive(ANY, &m);
    if (code != OK) return fail("receive", code);
    if (m3_kind() == M3_KIND_DEATH) {
      printf("server: %d died\n", m.M3_DEATH_ENDPOINT);
      continue;
    }
    if (m3_kind() == M3_KIND_NOTIFY) {
      printf("server: %d is done\n", m.m_source);
      mnx_send(m.m_source, &m);
      mnx_wait4unbind_T(m.m_source, 5000);
      break;
    }
    int client = m.m_source;
    m.m_type = m.m_type == ADD ? OK : EMOLBADREQUEST;
    m.m1_i3 = m.m1_i1 + m.m1_i2;
    code = mnx_reply(client, &m);
    if (code != OK) fail("reply", code); /* the client has gone: serve the next one */
  }

  code = mnx_unbind(VM_ID, self);
  return code == OK ? 0 : fail("unbind", code);
}
