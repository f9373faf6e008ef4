/* A client of server.cpp. Client A works to its end; client B is killed in the middle. */
#include <m3ipc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job { char client; int a, b; };
enum { PROGRESS = 1 };

static int check(const char *call, int code) {
  if (code < 0) {
    fprintf(stderr, "%s: %s (%d)\n", call, m3_strerror(code), code);
    exit(1);
  }
  return code;
}

int main(int argc, char **argv) {
  struct job job = {argc > 1 ? argv[1][0] : 'A', 0, 0};
  m3_message m;

  int vm = check("vm_named", m3_vm_named("jobs"));
  check("bind_any", m3_bind_any(vm));
  int server = check("wait4name", m3_wait4name_T("jobs", 5000));
  check("set_priority", m3_set_priority(job.client == 'A' ? 7 : 0)); /* A goes first */
  for (job.a = 1; job.a <= 100; job.a++) {
    memset(&m, 0, sizeof m);
    job.b = job.a;
    memcpy(&m.m_u, &job, sizeof job);
    check("sendrec", mnx_sendrec_T(server, &m, 5000));
    if (m.m3_m1_i1 != 2 * job.a) return 1;
    if (job.client == 'B' && job.a == 50) raise(SIGKILL);
    int code; /* a full queue takes nothing: try again */
    while ((code = m3_pulse_send(server, PROGRESS, 1)) == EMOLAGAIN) sched_yield();
    check("pulse_send", code);
  }
  while (check("pulse_pending", m3_pulse_pending(server)) > 0) sched_yield();
  return 0;
}
