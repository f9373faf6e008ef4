/*
 * The program of paper_style.c in the words of the later releases: dvs, dc, dvk_.
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

#define DC_ID     9
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

  int self = dvk_wait4bind_T(5000);
  check("client", "wait4bind_T", self);
  int server = dvk_getep(getppid());
  check("client", "getep", server);
  printf("client: endpoint %d, server %d\n", self, server);

  for (int i = 1; i <= REQUESTS; i++) {
    memset(&m, 0, sizeof m);
    m.m_type = i;
    m.m1_i1 = i;
    check("client", "sendrec", dvk_sendrec(server, &m));
    printf("client: " MSG1_FORMAT, MSG1_FIELDS(&m));
  }
  /* A notification ends with its source: wait until the server has taken it. */
  check("client", "notify", dvk_notify(server));
  check("client", "receive", dvk_receive(server, &m));
  check("client", "unbind", dvk_unbind(DC_ID, self));
  return EXIT_SUCCESS;
}

static void serve(void) {
  message m;

  for (;;) {
    check("server", "receive", dvk_receive(ANY, &m));
    if (m.m_type == NOTIFY_FROM(CLIENT_NR)) break;
    printf("server: " MSG1_FORMAT, MSG1_FIELDS(&m));
    m.m1_i2 = m.m1_i1 * m.m1_i1;
    check("server", "send", dvk_send(m.m_source, &m));
  }
  printf("server: notified by %d\n", m.m_source);
  check("server", "send", dvk_send(m.m_source, &m));
}

int main(void) {
  dc_usr_t vm;
  int status = 0;

  setvbuf(stdout, NULL, _IOLBF, 0);
  check("server", "open", dvk_open());
  int code = dvk_dvs_init(LOCALNODE, NULL);
  if (code != EDVSDVSBUSY) check("server", "dvs_init", code);

  memset(&vm, 0, sizeof vm);
  vm.dc_dcid = DC_ID;
  vm.dc_warn2proc = NONE;
  vm.dc_life = M3_VM_WITH_CREATOR; /* m3ipc: a kill of this process ends the DC */
  strcpy(vm.dc_name, "later");
  check("server", "dc_init", dvk_dc_init(&vm));

  pid_t pid = fork();
  if (pid < 0) {
    perror("fork");
    return EXIT_FAILURE;
  }
  if (pid == 0) return client();

  int self = dvk_bind(DC_ID, SERVER_NR);
  check("server", "bind", self);
  int peer = dvk_lclbind(DC_ID, pid, CLIENT_NR);
  check("server", "lclbind", peer);
  printf("server: endpoint %d, client %d\n", self, peer);

  serve();
  code = dvk_wait4unbind_T(peer, 5000);
  check("server", "wait4unbind_T", code);
  check("server", "unbind", dvk_unbind(DC_ID, self));
  check("server", "dc_end", dvk_dc_end(DC_ID));
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}
