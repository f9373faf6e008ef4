/*
 * The fixture of the conformance program: TAP output, a watchdog, and peers.
 *
 * A peer is a forked process that makes calls, one at a time: start() starts a call, finish() waits
 * for its result, call() does both. Between start() and finish(), until_blocked() waits until the
 * node reports the peer as blocked. No test relies on a sleep. The program itself stays unbound.
 */
#ifndef M3IPC_TESTS_HARNESS_H
#define M3IPC_TESTS_HARNESS_H

#define _GNU_SOURCE
#include <m3ipc.h>
#include <m3ipc/ica.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WATCHDOG_S 60    /* seconds for one group of cases */
#define LONG_MS    20000 /* a limit that no passing case reaches */
#define SHORT_MS   30    /* a limit that the case reaches */

/* ---- TAP --------------------------------------------------------------- */

static int cases, failures;
static const char *group_name = "start";

static void watchdog_expired(int signo) {
  (void)signo;
  static const char text[] = "Bail out! a group of cases took longer than the watchdog allows\n";
  ssize_t ignored = write(STDOUT_FILENO, text, sizeof text - 1);
  (void)ignored;
  _exit(3);
}

static void group(const char *name) {
  group_name = name;
  printf("# %s\n", name);
  fflush(stdout);
  alarm(WATCHDOG_S);
}

__attribute__((format(printf, 2, 3)))
static int ok(int truth, const char *format, ...) {
  va_list args;

  cases++;
  if (!truth) failures++;
  printf("%s %d - %s: ", truth ? "ok" : "not ok", cases, group_name);
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  putchar('\n');
  fflush(stdout);
  return truth;
}

static int is(int have, int want, const char *name) {
  int truth = ok(have == want, "%s", name);
  if (!truth)
    printf("# have %d (%s)\n# want %d (%s)\n", have, m3_strerror(have), want, m3_strerror(want));
  fflush(stdout);
  return truth;
}

/* ---- Peers ------------------------------------------------------------- */

enum op {
  BIND, LCLBIND, UNBIND, GETEP, WAIT4BIND, WAIT4BINDEP, WAIT4UNBIND,
  SEND, RECEIVE, SENDREC, RCVRQST, REPLY, RELAY, NOTIFY, SRC_NOTIFY, NTFY_VALUE, WAKEUP,
  WATCH, UNWATCH, WATCH_ALL, KIND, REPLY_RECEIVE, REPLY_RECEIVE_BAD, SET_WAIT, SET_LIMIT,
  SET_PRIORITY, SET_INHERITANCE, PULSE, PENDING, TIMER, CANCEL, MSG_READ, MSG_WRITE,
  NAME_ATTACH, NAME_LOCATE, WAIT4NAME, SEND_LONG, RECEIVE_LONG, SENDREC_LONG, REPLY_LONG,
  RCVRQST_LONG, FILL, SUM, VCOPY, LENT, GRANT, REVOKE, FROM_GRANT, COPIED,
  AREA, AREA_SET, ATTACH, DETACH, RENOUNCE, SEAL, ALLOC, FREE, TAKE, WRITE, READ,
  SEND_BLOCK, SENDREC_BLOCK, REPLY_BLOCK, SHARE_BLOCK, RECLAIM,
  CREATEICA, DELETEICA, ATTACHICA, DETACHICA, GETMEM, FREEMEM, ACCESS_OF,
  PEER, POLL, SETPRIV, VM_END, GETVMINFO,
  SEND_BAD, RECEIVE_BAD, IGNORE_SIGPIPE, TBIND, TBIND_SEND, TWO_THREADS, FORKED, EXEC, EXIT
};

struct order {
  enum op op;
  int vm, ep, nr;
  long ms;
  message m;
  size_t len;
  char text[80];
  priv_usr_t priv;
};

struct result {
  int code;
  int answered;
  message m;
  size_t len;
  unsigned int sum;
  struct m3_peer peer;
};

struct peer {
  pid_t pid;
  int orders, results;
  int vm, ep;
};

/* Memory at the same address in every peer: copies read the front and write the back. */
#define REGION_BYTES 300000
#define REGION_FRONT (region)
#define REGION_BACK  (region + REGION_BYTES)
static unsigned char region[2 * REGION_BYTES];

static unsigned int sum_of(const unsigned char *bytes, size_t len) {
  unsigned int sum = 0;
  for (size_t i = 0; i < len; i++) sum = sum * 31 + bytes[i];
  return sum;
}

static void pattern(unsigned char *bytes, size_t len) {
  for (size_t i = 0; i < len; i++) bytes[i] = (unsigned char)(i * 7 + len);
}

static void ignore_signal(int signo) { (void)signo; }

static void *thread_bind(void *arg) {
  struct order *o = arg;
  o->nr = mnx_tbind(o->vm, o->nr);
  return NULL;
}

/* Binds the thread, then sends. o->nr is the code of the first call that fails. */
static void *thread_bind_send(void *arg) {
  struct order *o = arg;
  int ep = mnx_tbind(o->vm, o->nr);
  o->nr = ep < EMOLERRCODE ? ep : mnx_send_T(o->ep, &o->m, o->ms);
  return NULL;
}

static void *thread_receive(void *arg) {
  struct order *o = arg;
  o->nr = mnx_receive_T(ANY, &o->m, LONG_MS);
  return NULL;
}

static int run_in_thread(void *(*body)(void *), struct order *o) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, o) != 0) return EMOLNOMEM;
  pthread_join(thread, NULL);
  return o->nr;
}

/* Makes a call while another thread is in receive on the same endpoint; returns its code. */
static int call_during_receive(struct order *o) {
  pthread_t thread;
  proc_usr_t p;
  message m = o->m;

  if (pthread_create(&thread, NULL, thread_receive, o) != 0) return EMOLNOMEM;
  do {
    if (mnx_getprocinfo(o->vm, _ENDPOINT_P(o->ep), &p) != OK) break;
  } while (!(p.p_rts_flags & RECEIVING) && poll(NULL, 0, 1) == 0);
  int code = mnx_receive_T(ANY, &m, TIMEOUT_NOWAIT);
  struct timespec soon;
  do {
    pthread_kill(thread, SIGUSR1);
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 20000000;
    if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
  } while (pthread_timedjoin_np(thread, NULL, &soon) == ETIMEDOUT);
  return code;
}

#include "access.h"

/* Calls about areas and blocks. The address of a block travels in len. */
static void execute_area(struct order *o, struct result *r) {
  int plain = o->ms == TIMEOUT_FOREVER;
  int set[2] = {o->ep, o->vm};
  unsigned int flags = (unsigned int)o->nr;
  void *block = (void *)o->len;

  r->len = o->len;
  switch (o->op) {
  case AREA: r->code = m3_area_create((uint64_t)o->len, o->ep, flags); return;
  case AREA_SET: r->code = m3_area_create_set((uint64_t)o->len, set, 2, flags); return;
  case ATTACH: r->code = m3_area_attach(o->nr); return;
  case DETACH: r->code = m3_area_detach(o->nr); return;
  case RENOUNCE: r->code = m3_area_renounce(o->nr); return;
  case SEAL: r->code = m3_area_seal(o->nr); return;
  case ALLOC: r->code = m3_block_alloc(o->ep, o->len, flags, &block); break;
  case FREE: r->code = m3_block_free(block); return;
  case TAKE: {
    size_t bytes = 0;
    r->code = m3_block_take(&block, &bytes);
    r->sum = (unsigned int)bytes;
    break;
  }
  case WRITE: memset(block, o->nr, 100); return;
  case READ: r->code = ((unsigned char *)block)[99]; return;
  case SEND_BLOCK:
    r->code = plain ? m3_send_block(o->ep, &o->m, block)
                    : m3_send_block_T(o->ep, &o->m, block, o->ms);
    return;
  case SENDREC_BLOCK:
    r->code = plain ? m3_sendrec_block(o->ep, &o->m, block)
                    : m3_sendrec_block_T(o->ep, &o->m, block, o->ms);
    return;
  case REPLY_BLOCK: r->code = m3_reply_block(o->ep, &o->m, block); return;
  case SHARE_BLOCK:
    r->code = plain ? m3_share_block(o->ep, &o->m, block)
                    : m3_share_block_T(o->ep, &o->m, block, o->ms);
    return;
  case RECLAIM: r->code = m3_block_reclaim(block); return;
  case CREATEICA: block = createica(o->len, o->nr); break;
  case DELETEICA: r->code = deleteica(block); return;
  case ATTACHICA: r->code = attachica(o->vm, block, o->nr); return;
  case ACCESS_OF: r->code = access_of(block); return;
  case DETACHICA: r->code = detachica(o->vm, block); return;
  case GETMEM: block = getmem(o->ep, o->len, o->nr); break;
  case FREEMEM: r->code = freemem(block); return;
  default: r->code = EMOLBADCALL; return;
  }
  r->len = (size_t)block;
}

static void execute(struct order *o, struct result *r) {
  static unsigned char bytes[300000];
  struct pollfd readable = {-1, POLLIN, 0};
  message *bad = (message *)8;
  int plain = o->ms == TIMEOUT_FOREVER; /* use the form without a limit */

  switch (o->op) {
  case BIND: r->code = mnx_bind(o->vm, o->nr); break;
  case LCLBIND: r->code = mnx_lclbind(o->vm, o->ep, o->nr); break;
  case UNBIND: r->code = mnx_unbind_T(o->vm, o->ep, LONG_MS); break;
  case GETEP: r->code = mnx_getep(o->ep); break;
  case WAIT4BIND: r->code = plain ? mnx_wait4bind() : mnx_wait4bind_T(o->ms); break;
  case WAIT4BINDEP:
    r->code = plain ? mnx_wait4bindep(o->ep)
                    : mnx_wait4bindep_T(o->ep, o->ms);
    break;
  case WAIT4UNBIND:
    r->code = plain ? mnx_wait4unbind(o->ep)
                    : mnx_wait4unbind_T(o->ep, o->ms);
    break;
  case SEND: r->code = plain ? mnx_send(o->ep, &o->m) : mnx_send_T(o->ep, &o->m, o->ms); break;
  case RECEIVE:
    r->code = plain ? mnx_receive(o->ep, &o->m)
                    : mnx_receive_T(o->ep, &o->m, o->ms);
    break;
  case SENDREC:
    r->code = plain ? mnx_sendrec(o->ep, &o->m)
                    : mnx_sendrec_T(o->ep, &o->m, o->ms);
    break;
  case RCVRQST: r->code = plain ? mnx_rcvrqst(&o->m) : mnx_rcvrqst_T(&o->m, o->ms); break;
  case REPLY: r->code = plain ? mnx_reply(o->ep, &o->m) : mnx_reply_T(o->ep, &o->m, o->ms); break;
  case REPLY_RECEIVE:
    r->code = plain ? m3_reply_receive(o->ep, &o->m, &r->answered)
                    : m3_reply_receive_T(o->ep, &o->m, &r->answered, o->ms);
    break;
  case REPLY_RECEIVE_BAD: r->code = m3_reply_receive_T(o->ep, &o->m, (int *)8, o->ms); break;
  case SET_WAIT: r->code = m3_set_wait(o->ep); break;
  case SET_LIMIT: r->code = m3_set_receive_limit(o->len); break;
  case SET_PRIORITY: r->code = m3_set_priority(o->ep); break;
  case SET_INHERITANCE: r->code = m3_set_inheritance(o->ep); break;
  case RELAY: r->code = plain ? mnx_relay(o->ep, &o->m) : mnx_relay_T(o->ep, &o->m, o->ms); break;
  case NOTIFY: r->code = mnx_notify(o->ep); break;
  case SRC_NOTIFY: r->code = mnx_src_notify(o->nr, o->ep); break;
  case NTFY_VALUE: r->code = mnx_ntfy_value(o->nr, o->ep, (int)o->len); break;
  case WATCH: r->code = m3_watch(o->ep); break;
  case UNWATCH: r->code = m3_unwatch(o->ep); break;
  case WATCH_ALL: r->code = m3_watch_all(o->ep); break;
  case KIND: r->code = m3_kind(); break;
  case PULSE: r->code = m3_pulse_send(o->ep, o->nr, o->len); break;
  case PENDING: r->code = m3_pulse_pending(o->ep); break;
  case TIMER: r->code = m3_timer(o->nr, 9, o->len, 0); break;
  case CANCEL: r->code = m3_timer_cancel(o->nr); break;
  case WAKEUP: r->code = mnx_wakeup(o->vm, o->ep); break;
  case NAME_ATTACH: r->code = m3_name_attach(o->text); break;
  case NAME_LOCATE: r->code = m3_name_locate(o->text); break;
  case WAIT4NAME: r->code = plain ? m3_wait4name(o->text) : m3_wait4name_T(o->text, o->ms); break;
  case SEND_LONG:
  case REPLY_LONG:
  case SENDREC_LONG:
    if (o->len <= sizeof bytes) pattern(bytes, o->len);
    if (o->op == SEND_LONG)
      r->code = plain ? m3_send_long(o->ep, &o->m, bytes, o->len)
                      : m3_send_long_T(o->ep, &o->m, bytes, o->len, o->ms);
    if (o->op == REPLY_LONG) r->code = m3_reply_long(o->ep, &o->m, bytes, o->len);
    if (o->op == SENDREC_LONG) {
      r->code = plain ? m3_sendrec_long(o->ep, &o->m, bytes, o->len, bytes, sizeof bytes, &r->len)
                      : m3_sendrec_long_T(o->ep, &o->m, bytes, o->len, bytes, sizeof bytes,
                                          &r->len, o->ms);
      r->sum = sum_of(bytes, r->len);
    }
    break;
  case RECEIVE_LONG:
  case RCVRQST_LONG:
    if (o->op == RECEIVE_LONG)
      r->code = plain ? m3_receive_long(o->ep, &o->m, bytes, o->len, &r->len)
                      : m3_receive_long_T(o->ep, &o->m, bytes, o->len, &r->len, o->ms);
    else
      r->code = plain ? m3_rcvrqst_long(&o->m, bytes, o->len, &r->len)
                      : m3_rcvrqst_long_T(&o->m, bytes, o->len, &r->len, o->ms);
    r->sum = sum_of(bytes, r->len < o->len ? r->len : o->len);
    break;
  case FILL: pattern(region, o->len); r->sum = sum_of(region, o->len); break;
  case SUM: r->sum = sum_of(REGION_BACK, o->len); break;
  case VCOPY:
    r->code = plain ? mnx_vcopy(o->ep, REGION_FRONT, o->nr, REGION_BACK, (long)o->len)
                    : mnx_vcopy_T(o->ep, REGION_FRONT, o->nr, REGION_BACK, (long)o->len, o->ms);
    r->sum = sum_of(REGION_BACK, o->len < REGION_BYTES ? o->len : 0);
    break;
  case LENT: {
    struct m3_loan loans[2] = {{REGION_FRONT, o->len, M3_READ}, {REGION_BACK, o->len, M3_WRITE}};
    r->code = plain ? m3_sendrec_lent(o->ep, &o->m, loans, 2)
                    : m3_sendrec_lent_T(o->ep, &o->m, loans, 2, o->ms);
    break;
  }
  case GRANT: {
    m3_grant_t grant = 0;
    r->code = m3_grant(o->ep, REGION_FRONT, o->len, (unsigned int)o->nr, &grant);
    r->len = (size_t)grant;
    break;
  }
  case REVOKE: r->code = m3_revoke((m3_grant_t)o->len); break;
  case FROM_GRANT:
    r->code = m3_copy_granted(o->ep, (m3_grant_t)o->len, 100, REGION_BACK, (size_t)o->nr, M3_READ);
    r->sum = sum_of(REGION_BACK, (size_t)o->nr);
    break;
  case MSG_READ:
    r->code = m3_msg_read(o->ep, (uint64_t)o->nr, REGION_BACK, o->len);
    r->sum = sum_of(REGION_BACK, o->len);
    break;
  case MSG_WRITE: r->code = m3_msg_write(o->ep, (uint64_t)o->nr, REGION_FRONT, o->len); break;
  case COPIED: r->len = (size_t)m3_copied(); break;
  case PEER: r->code = m3_peer(&r->peer); break;
  case AREA: case AREA_SET: case ATTACH: case DETACH: case RENOUNCE: case SEAL: case ALLOC:
  case FREE: case TAKE: case WRITE: case READ: case SEND_BLOCK: case SENDREC_BLOCK:
  case REPLY_BLOCK: case SHARE_BLOCK: case RECLAIM: case CREATEICA: case DELETEICA:
  case ATTACHICA: case DETACHICA: case GETMEM: case FREEMEM: case ACCESS_OF:
    execute_area(o, r);
    break;
  case POLL:
    readable.fd = m3_fd();
    r->code = readable.fd < 0 ? readable.fd : poll(&readable, 1, (int)o->ms);
    break;
  case SETPRIV: r->code = mnx_setpriv(o->vm, o->ep, &o->priv); break;
  case VM_END: r->code = mnx_vm_end(o->vm); break;
  case GETVMINFO: {
    VM_usr_t vm;
    r->code = mnx_getvminfo(o->vm, &vm);
    r->len = (size_t)vm.vm_vmid;
    break;
  }
  case SEND_BAD: r->code = mnx_send_T(o->ep, bad, LONG_MS); break;
  case RECEIVE_BAD: r->code = mnx_receive_T(o->ep, NULL, LONG_MS); break;
  case IGNORE_SIGPIPE: r->code = signal(SIGPIPE, SIG_IGN) == SIG_ERR ? -1 : 0; break;
  case TBIND: r->code = run_in_thread(thread_bind, o); break;
  case TBIND_SEND: r->code = run_in_thread(thread_bind_send, o); break;
  case TWO_THREADS: r->code = call_during_receive(o); break;
  case FORKED: r->code = fork_is_unbound(); break;
  case EXEC: execl("/bin/sleep", "sleep", "1000", (char *)NULL); r->code = -1; break;
  case EXIT: _exit(0);
  }
  r->m = o->m;
}

static void serve_orders(int orders, int results) {
  struct order o;
  struct result r;
  struct sigaction handled;

  memset(&handled, 0, sizeof handled);
  handled.sa_handler = ignore_signal; /* without SA_RESTART */
  sigaction(SIGUSR1, &handled, NULL);
  signal(SIGALRM, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  while (read(orders, &o, sizeof o) == (ssize_t)sizeof o) {
    alarm(WATCHDOG_S);
    memset(&r, 0, sizeof r);
    execute(&o, &r);
    if (write(results, &r, sizeof r) != (ssize_t)sizeof r) break;
  }
  _exit(0);
}

/* Starts a peer that is not bound. */
static struct peer unbound(void) {
  int orders[2], results[2];
  struct peer peer;

  if (pipe2(orders, O_CLOEXEC) != 0 || pipe2(results, O_CLOEXEC) != 0) {
    perror("pipe");
    exit(3);
  }
  peer.pid = fork();
  if (peer.pid < 0) {
    perror("fork");
    exit(3);
  }
  if (peer.pid == 0) {
    close(orders[1]);
    close(results[0]);
    serve_orders(orders[0], results[1]);
  }
  close(orders[0]);
  close(results[1]);
  peer.orders = orders[1];
  peer.results = results[0];
  peer.vm = PROC_NO_PID;
  peer.ep = NONE;
  return peer;
}

static struct order order(enum op op) {
  struct order o;
  memset(&o, 0, sizeof o);
  o.op = op;
  o.ms = LONG_MS;
  return o;
}

static void start_order(struct peer *peer, struct order o) {
  ssize_t ignored = write(peer->orders, &o, sizeof o);
  (void)ignored;
}

/* Waits for the result of the started call; EMOLSRCH if the peer has ended instead. */
static struct result finish(struct peer *peer) {
  struct result r;
  if (read(peer->results, &r, sizeof r) != (ssize_t)sizeof r) {
    siginfo_t how;
    memset(&r, 0, sizeof r);
    r.code = EMOLSRCH;
    memset(&how, 0, sizeof how);
    if (waitid(P_PID, (id_t)peer->pid, &how, WEXITED | WNOWAIT) == 0)
      printf("# the peer has ended %s %d\n",
             how.si_code == CLD_EXITED ? "with exit code" : "by signal", how.si_status);
  }
  return r;
}

/*
 * Sends signals until the started call has ended. A signal that arrives before the peer sleeps is
 * handled and does not end the call.
 */
static struct result finish_interrupted(struct peer *peer, int signo) {
  struct pollfd result = {peer->results, POLLIN, 0};
  do kill(peer->pid, signo);
  while (poll(&result, 1, 20) == 0);
  return finish(peer);
}

static struct result call_order(struct peer *peer, struct order o) {
  start_order(peer, o);
  return finish(peer);
}

static void start(struct peer *peer, enum op op, int ep, int type, long ms) {
  struct order o = order(op);
  o.ep = ep;
  o.m.m_type = type;
  o.m.m1_i1 = type + 1000;
  o.ms = ms;
  start_order(peer, o);
}

static struct result call(struct peer *peer, enum op op, int ep, int type, long ms) {
  start(peer, op, ep, type, ms);
  return finish(peer);
}

/* Makes a call with a VM and an endpoint (or pid) or slot; returns its code. */
static int call_vm(struct peer *peer, enum op op, int vm, int ep, int nr) {
  struct order o = order(op);
  o.vm = vm;
  o.ep = ep;
  o.nr = nr;
  return call_order(peer, o).code;
}

static int call_name(struct peer *peer, enum op op, const char *name, long ms) {
  struct order o = order(op);
  strncpy(o.text, name, sizeof o.text - 1);
  o.ms = ms;
  return call_order(peer, o).code;
}

/* Starts a peer and binds it to a slot. */
static struct peer bound(int vm, int nr) {
  struct peer peer = unbound();
  peer.vm = vm;
  peer.ep = call_vm(&peer, BIND, vm, 0, nr);
  if (!M3_BOUND(peer.ep, nr))
    printf("# bind of slot %d: %d (%s)\n", nr, peer.ep, m3_strerror(peer.ep));
  return peer;
}

/* Ends a peer and waits until its slot is free. Returns the status of waitpid. */
static int end(struct peer *peer, int signo) {
  int status = -1;
  proc_usr_t p;

  if (peer->pid <= 0) return status;
  if (signo != 0) kill(peer->pid, signo);
  close(peer->orders);
  while (waitpid(peer->pid, &status, 0) < 0 && errno == EINTR) continue;
  close(peer->results);
  while (peer->vm != PROC_NO_PID && mnx_getprocinfo(peer->vm, _ENDPOINT_P(peer->ep), &p) == OK &&
         !(p.p_rts_flags & SLOT_FREE) && p.p_lpid == (int)peer->pid)
    poll(NULL, 0, 1);
  peer->pid = 0;
  return status;
}

static unsigned long state_of(int vm, int ep) {
  proc_usr_t p;
  memset(&p, 0, sizeof p);
  return mnx_getprocinfo(vm, _ENDPOINT_P(ep), &p) == OK ? p.p_rts_flags : SLOT_FREE;
}

/* Waits until a peer has one of these states, or until the watchdog expires. */
static void until_state(int vm, int ep, unsigned long state) {
  while (!(state_of(vm, ep) & state)) {
    if ((state_of(vm, ep) & SLOT_FREE) && state != SLOT_FREE) return;
    poll(NULL, 0, 1);
  }
}

/* True if a process sleeps: a process that waits for a CPU does not. */
static int sleeps(pid_t pid) {
  char path[64], stat[512] = "", *state;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 1;
  if (fgets(stat, sizeof stat, file) == NULL) stat[0] = '\0';
  fclose(file);
  state = strrchr(stat, ')');
  return state == NULL || state[1] == '\0' || state[2] == 'S';
}

/*
 * Waits until a peer sleeps in its call. The node reports a peer as blocked before the peer sleeps;
 * only a sleeping peer surely has its place in the order of arrival.
 */
static void until_blocked(int vm, const struct peer *peer) {
  do until_state(vm, peer->ep, SENDING | RECEIVING | WAITBIND | WAITUNBIND);
  while (!sleeps(peer->pid) && poll(NULL, 0, 1) == 0);
}

/* ---- VMs --------------------------------------------------------------- */

static VM_usr_t vm_params(int vmid, const char *name) {
  VM_usr_t vm;
  memset(&vm, 0, sizeof vm);
  vm.vm_vmid = vmid;
  vm.vm_warn2proc = NONE;
  vm.vm_grace_ms = 200;
  strncpy(vm.vm_name, name, sizeof vm.vm_name - 1);
  return vm;
}

static int vm_start(int vmid) {
  char name[MAXVMNAME];
  snprintf(name, sizeof name, "vm%d", vmid);
  VM_usr_t vm = vm_params(vmid, name);
  return mnx_vm_init(&vm);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk) {
  (void)st;
  (void)kind;
  (void)walk;
  return remove(path);
}

/* ---- The node, the VM and the slots of the peers ------------------------ */

#define NODE 3
#define VM   1
#define BIG  999999

static const int server_nr = 5, user_nr = FIRST_USER_NR, other_nr = FIRST_USER_NR + 1,
                 third_nr = FIRST_USER_NR + 2;

#endif
