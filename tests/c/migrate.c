/*
 * migrate: moves an endpoint from its home to the node of its backup and back, and meets the errors
 * of m3_migrate. The two nodes and their proxies run already: `run.sh` starts them.
 *
 *     migrate HOME OTHER LONE     the runtime directories of the nodes; LONE has no proxy
 *
 * The last line is: N passed, N failed.
 */
#define _GNU_SOURCE
#include <m3ipc.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define VM         3
#define SLOT       10 /* a slot of the home; the other node is its backup */
#define NO_BACKUP  11
#define CLIENT     1  /* a slot of the other node */
#define ASK        7
#define MOVE       99
#define WATCHDOG_S 60
#define PAUSE_US   20000

static int cases, failures;

static void is(int found, int expected, const char *what) {
  cases++;
  if (found != expected) {
    failures++;
    printf("FAIL %s: %d, not %d\n", what, found, expected);
  }
}

/* A process of a node. Returns 0 in the child. */
static pid_t process_of(const char *directory) {
  fflush(stdout);
  pid_t pid = fork();

  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("M3_RUNTIME_DIR", directory, 1);
    alarm(WATCHDOG_S);
  }
  return pid;
}

static int code_of(pid_t pid) {
  int status = 0;

  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What m3_migrate gives to a process of a node, as a positive number: 0 if the bind fails. */
static int refusal_at(const char *directory, int slot) {
  pid_t pid = process_of(directory);

  if (pid == 0) {
    /* The proxy may not have told its slots yet. */
    while (mnx_bind(VM, slot) != slot) usleep(PAUSE_US);
    int code = m3_migrate();
    /* The endpoint is as before. */
    _exit(mnx_getep(getpid()) == slot ? -code % 256 : 0);
  }
  return code_of(pid);
}

/* Says its process id to each caller. Moves when it is asked to, and waits for the slot. */
static void serve(int endpoint) {
  message m;

  while (endpoint == SLOT) {
    if (mnx_receive(ANY, &m) != 0) _exit(1);
    int kind = m.m_type;
    m.m1_i1 = (int)getpid();
    mnx_reply(m.m_source, &m);
    if (kind != MOVE) continue;
    /* A slot moves once in a second. */
    while (m3_migrate_T(10000) != 0) usleep(PAUSE_US);
    if (mnx_getep(getpid()) != EMOLNOTBIND) _exit(2);
    endpoint = m3_bind_backup(VM, SLOT);
  }
  _exit(3);
}

/* Calls until this process answers. Returns 0, or a code that no caller of a move gets. */
static int until_answered_by(pid_t server, int kind) {
  for (;;) {
    message m = {.m_type = kind};
    int code = mnx_sendrec(SLOT, &m);

    if (code == 0 && m.m1_i1 == (int)server) return 0;
    if (code == EMOLMIGRATE) mnx_wait4bindep_T(SLOT, 1000);
    switch (code) {
    case OK: case EMOLMIGRATE: case EMOLENDPOINT: case EMOLDSTDIED: case EMOLNOTCONN:
    case EMOLRANGE: usleep(PAUSE_US); break;
    default: return code;
    }
  }
}

int main(int count, char **words) {
  if (count != 4) return 2;
  const char *home = words[1], *other = words[2], *lone = words[3];

  alarm(WATCHDOG_S);
  setenv("M3_RUNTIME_DIR", other, 1);
  is(m3_migrate(), EMOLNOTBIND, "a caller that is not bound");
  is(m3_migrate_T(0), EMOLNOTBIND, "the same without a wait");
  is(m3_migrate_T(-5), EMOLINVAL, "a limit that is none");
  is(refusal_at(lone, CLIENT), -EMOLNOPROXY % 256, "a node without a proxy");

  pid_t first = process_of(home);
  if (first == 0) {
    while (mnx_bind(VM, SLOT) != SLOT) usleep(PAUSE_US);
    serve(SLOT);
  }
  pid_t second = process_of(other);
  if (second == 0) serve(m3_bind_backup(VM, SLOT));
  while (mnx_bind(VM, CLIENT) != CLIENT) usleep(PAUSE_US);
  /* The first bind may not be known here yet; from now on a move alone keeps callers waiting. */
  while (mnx_wait4bindep_T(SLOT, 1000) != SLOT) usleep(PAUSE_US);
  is(until_answered_by(first, ASK), 0, "the home has the endpoint");
  is(until_answered_by(first, MOVE), 0, "the server answers first");
  is(until_answered_by(second, ASK), 0, "the other node has it");
  is(until_answered_by(second, MOVE), 0, "that one answers first");
  is(until_answered_by(first, ASK), 0, "the home has it again");
  is(refusal_at(home, NO_BACKUP), -EMOLNONODE % 256, "a slot without a backup");
  kill(first, SIGKILL);
  kill(second, SIGKILL);
  waitpid(first, NULL, 0);
  waitpid(second, NULL, 0);
  printf("%d passed, %d failed\n", cases - failures, failures);
  return failures == 0 ? 0 : 1;
}
