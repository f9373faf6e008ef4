/*
 * A program in the words of M3-IPC: drvs, vm, mnx_.
 *
 * The parent is the server, the child is the client. The parent binds both. The client waits until
 * it is bound, makes three requests, and ends the server with a notification.
 */
#include <m3ipc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define VM_ID     8
#define SERVER_NR 1
#define CLIENT_NR FIRST_USER_NR
#define REQUESTS  3

static void check(const char *who, const char *what, int code) {
  if (code >= 0) return;
  fprintf(stderr, "%s: %s: %s (%d)\n", who, what, m3_strerror(code), code);
  exit(EXIT_FAILURE);
}

static int client(void) {
  message m;

  int self = mnx_wait4bind_T(5000);
  check("client", "wait4bind_T", self);
  int server = mnx_getep(getppid());
  check("client", "getep", server);
  printf("client: endpoint %d, server %d\n", self, server);

  for (int i = 1; i <= REQUESTS; i++) {
    memset(&m, 0, sizeof m);
    m.m_type = i;
    m.m1_i1 = i;
    check("client", "sendrec", mnx_sendrec(server, &m));
    printf("client: " MSG1_FORMAT, MSG1_FIELDS(&m));
  }
  /* A notification ends with its source: wait until the server has taken it. */
  check("client", "notify", mnx_notify(server));
  check("client", "receive", mnx_receive(server, &m));
  check("client", "unbind", mnx_unbind(VM_ID, self));
  return EXIT_SUCCESS;
}

static void serve(void) {
  message m;

  for (;;) {
    check("server", "receive", mnx_receive(ANY, &m));
    if (m.m_type == NOTIFY_FROM(CLIENT_NR)) break;
    printf("server: " MSG1_FORMAT, MSG1_FIELDS(&m));
    m.m1_i2 = m.m1_i1 * m.m1_i1;
    check("server", "send", mnx_send(m.m_source, &m));
  }
  printf("server: notified by %d\n", m.m_source);
  check("server", "send", mnx_send(m.m_source, &m));
}

int main(void) {
  VM_usr_t vm;
  int status = 0;

  setvbuf(stdout, NULL, _IOLBF, 0);
  int code = mnx_drvs_init(LOCALNODE, NULL);
  if (code != EMOLDRVSBUSY) check("server", "drvs_init", code);

  memset(&vm, 0, sizeof vm);
  vm.vm_vmid = VM_ID;
  vm.vm_warn2proc = NONE;
  vm.vm_life = M3_VM_WITH_CREATOR; /* no call of the paper: a kill of this process ends the VM */
  strcpy(vm.vm_name, "paper");
  check("server", "vm_init", mnx_vm_init(&vm));

  pid_t pid = fork();
  if (pid < 0) {
    perror("fork");
    return EXIT_FAILURE;
  }
  if (pid == 0) return client();

  int self = mnx_bind(VM_ID, SERVER_NR);
  check("server", "bind", self);
  int peer = mnx_lclbind(VM_ID, pid, CLIENT_NR);
  check("server", "lclbind", peer);
  printf("server: endpoint %d, client %d\n", self, peer);

  serve();
  code = mnx_wait4unbind_T(peer, 5000);
  check("server", "wait4unbind_T", code);
  check("server", "unbind", mnx_unbind(VM_ID, self));
  check("server", "vm_end", mnx_vm_end(VM_ID));
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}
