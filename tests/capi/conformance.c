/*
 * conformance: each row of the contract of m3ipc, seen from C.
 *
 *     cc -o conformance conformance.c $(pkg-config --cflags --libs m3ipc) && ./conformance
 *
 * Starts its own node in a folder of its own (M3_RUNTIME_DIR, made if not set) and
 * ends it. TAP on standard output; ends with 0 when every case passed.
 */
#include "harness.h"

#include <stddef.h>

#define NODE 3
#define VM   1
#define BIG  999999

static const int server_nr = 5, user_nr = FIRST_USER_NR, other_nr = FIRST_USER_NR + 1,
                 third_nr = FIRST_USER_NR + 2;

/* ---- Numbers and layouts ----------------------------------------------- */

static void numbers(void) {
  message m;
  char text[256];

  group("numbers");
  is(sizeof(message), 48, "a message has 48 bytes");
  is(offsetof(message, m_u), 8, "its payload begins at 8");
  is(sizeof m.m_u, 40, "its payload has 40 bytes");
  is(_ENDPOINT_GENERATION_SIZE, 35570, "G is NR_TASKS + 35535");
  is(_ENDPOINT(2, 30), 2 * 35570 + 30, "endpoint = generation * G + slot");
  is(_ENDPOINT_P(_ENDPOINT(7, -35)), -35, "the slot of an endpoint, of a task");
  is(_ENDPOINT_P(_ENDPOINT(7, 220)), 220, "the slot of an endpoint, of a user");
  is(_ENDPOINT_G(_ENDPOINT(7, -35)), 7, "the generation of an endpoint");
  ok(ANY == 31438 && NONE == 27342 && SELF == 35534, "ANY, NONE, SELF");
  ok(HARDWARE == -1 && SYSTEM == -2 && CLOCK == -35, "HARDWARE, SYSTEM, CLOCK");
  ok(PM_PROC_NR == 0 && FS_PROC_NR == 1 && RS_PROC_NR == 2 && INIT_PROC_NR == 14, "PM, FS, RS, INIT");
  ok(EMOLDCNOTRUN == EMOLVMNOTRUN && EDVSDVSINIT == EMOLDRVSINIT, "codes in the later words");

  memset(&m, 0, sizeof m);
  m.m_source = 4;
  m.m_type = 9;
  m.m1_i3 = 11;
  snprintf(text, sizeof text, MSG1_FORMAT, MSG1_FIELDS(&m));
  ok(strstr(text, "m1_i3=11") != NULL, "MSG1_FORMAT prints with MSG1_FIELDS");
  ok(m3_strerror(EMOLDSTDIED) != NULL && m3_strerror(12345) != NULL, "m3_strerror is never NULL");
  ok(strcmp(m3_strerror(EMOLDSTDIED), m3_strerror(EMOLSRCDIED)) != 0, "m3_strerror tells codes apart");
  ok(m3_version()[0] != '\0', "m3_version says %s", m3_version());
}

/* ---- The node ---------------------------------------------------------- */

static void node(void) {
  drvs_usr_t d;
  dvs_usr_t later;
  message m;

  group("drvs_init");
  memset(&m, 0, sizeof m);
  is(mnx_getdrvsinfo(&d), EMOLDRVSINIT, "before it, getdrvsinfo");
  is(mnx_drvs_end(), EMOLDRVSINIT, "before it, drvs_end");
  is(mnx_bind(VM, user_nr), EMOLDRVSINIT, "before it, bind");
  is(mnx_send(server_nr, &m), EMOLDRVSINIT, "before it, send");
  is(mnx_receive(ANY, &m), EMOLDRVSINIT, "before it, receive");
  is(mnx_notify(server_nr), EMOLDRVSINIT, "before it, notify");
  is(mnx_wait4bind_T(TIMEOUT_NOWAIT), EMOLDRVSINIT, "before it, wait4bind");
  is(vm_start(VM), EMOLDRVSINIT, "before it, vm_init");
  is(mnx_drvs_init(BIG, NULL), EMOLBADNODEID, "node id out of range");
  memset(&d, 0, sizeof d);
  d.d_nr_vms = -1;
  is(mnx_drvs_init(NODE, &d), EMOLBADRANGE, "negative count");
  d.d_nr_vms = M3_VMS_MAX + 1;
  is(mnx_drvs_init(NODE, &d), EMOLBADRANGE, "count too large");
  memset(&d, 0, sizeof d);
  d.d_max_copybuf = 4096;
  d.d_max_copylen = 1024;
  is(mnx_drvs_init(NODE, &d), EMOLBADVALUE, "copy piece longer than the whole");
  memset(&d, 0, sizeof d);
  d.d_nr_vms = 16;
  is(mnx_drvs_init(NODE, &d), NODE, "the node id");
  is(mnx_drvs_init(NODE, &d), EMOLDRVSBUSY, "again");
  memset(&d, 0, sizeof d);
  is(mnx_getdrvsinfo(&d), NODE, "getdrvsinfo: the node id");
  is(d.d_nr_vms, 16, "getdrvsinfo: a parameter that was set");
  is(d.d_nr_procs, NR_PROCS, "getdrvsinfo: a parameter by default");
  is(mnx_getdvsinfo(&later), NODE, "getdvsinfo, in the later words");
  is(later.d_nr_dcs, 16, "getdvsinfo: the same field");
  is(mnx_getdrvsinfo(NULL), EMOLADDRNOTAVAIL, "getdrvsinfo of no memory");
}

/* ---- VMs --------------------------------------------------------------- */

static void vms(void) {
  VM_usr_t vm, info;
  dc_usr_t dc;

  group("vm_init");
  vm = vm_params(BIG, "big");
  is(mnx_vm_init(&vm), EMOLBADVMID, "id out of range");
  vm = vm_params(VM, "");
  memset(vm.vm_name, 'x', sizeof vm.vm_name);
  is(mnx_vm_init(&vm), EMOLNAMESIZE, "name of 16 bytes");
  vm = vm_params(VM, "one");
  vm.vm_nr_procs = NR_PROCS + 1;
  is(mnx_vm_init(&vm), EMOLBADRANGE, "limit above the node's");
  vm = vm_params(VM, "one");
  vm.vm_nr_tasks = -1;
  is(mnx_vm_init(&vm), EMOLBADRANGE, "negative limit");
  is(mnx_bind(VM, user_nr), EMOLVMNOTRUN, "before it, bind");
  vm = vm_params(VM, "one");
  vm.vm_nr_procs = 64;
  is(mnx_vm_init(&vm), NODE, "the node id");
  is(mnx_vm_init(&vm), EMOLRSCBUSY, "id in use");
  vm = vm_params(VM + 1, "one");
  is(mnx_vm_init(&vm), EMOLRSCBUSY, "name in use");
  is(mnx_getvminfo(VM, &info), OK, "getvminfo");
  ok(strcmp(info.vm_name, "one") == 0, "getvminfo: the name");
  is(info.vm_nr_procs, 64, "getvminfo: a limit that was set");
  is(info.vm_nr_tasks, NR_TASKS, "getvminfo: a limit of the node");
  is((int)info.vm_uid, (int)geteuid(), "getvminfo: the owner");
  is(mnx_getvminfo(BIG, &info), EMOLBADVMID, "getvminfo: id out of range");
  is(mnx_getvminfo(VM + 1, &info), OK, "getvminfo of one that does not run");
  is(info.vm_flags, VM_FREE, "getvminfo of one that does not run: VM_FREE");
  is(mnx_getdcinfo(VM, &dc), OK, "getdcinfo, in the later words");
  ok(strcmp(dc.dc_name, "one") == 0, "getdcinfo: the name");

  struct peer p = bound(VM, user_nr);
  struct order o = order(GETVMINFO);
  o.vm = PROC_NO_PID;
  struct result r = call_order(&p, o);
  is(r.code, OK, "getvminfo of the caller's own");
  is((int)r.len, VM, "getvminfo of the caller's own: its id");
  end(&p, SIGKILL);

  group("vm_end");
  is(mnx_vm_end(BIG), EMOLBADVMID, "id out of range");
  is(mnx_vm_end(VM + 1), EMOLVMNOTRUN, "not running");
  struct peer plain = bound(VM, user_nr), stubborn = bound(VM, other_nr);
  call(&stubborn, IGNORE_SIGPIPE, 0, 0, 0);
  is(mnx_vm_end(VM), OK, "ends with members");
  int status = end(&plain, 0);
  ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE, "a member gets SIGPIPE");
  status = end(&stubborn, 0);
  ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "one that stays gets SIGKILL");
  is(mnx_bind(VM, user_nr), EMOLVMNOTRUN, "after it, bind");
  is(mnx_vm_end(VM), EMOLVMNOTRUN, "again");
  is(vm_start(VM), NODE, "the id can be used again");
  p = bound(VM, user_nr);
  is(call_vm(&p, VM_END, VM, 0, 0), OK, "by a member");
  end(&p, SIGKILL);
  is(vm_start(VM), NODE, "and again");
}

/* ---- Endpoints --------------------------------------------------------- */

static void binds(void) {
  proc_usr_t info;

  group("bind");
  struct peer p = unbound(), q = unbound();
  is(call_vm(&p, BIND, BIG, 0, user_nr), EMOLBADVMID, "VM id out of range");
  is(call_vm(&p, BIND, VM + 1, 0, user_nr), EMOLVMNOTRUN, "VM not running");
  is(call_vm(&p, BIND, VM, 0, BIG), EMOLRANGE, "slot too high");
  is(call_vm(&p, BIND, VM, 0, -NR_TASKS - 1), EMOLRANGE, "slot too low");
  is(call_vm(&p, BIND, VM, 0, server_nr), server_nr, "a server's endpoint is its slot");
  is(call_vm(&q, BIND, VM, 0, server_nr), EMOLSLOTUSED, "slot taken");
  is(call_vm(&p, BIND, VM, 0, other_nr), EMOLSLOTUSED, "caller bound already");
  is(call_vm(&q, BIND, VM, 0, CLOCK), CLOCK, "a task's endpoint is its slot, negative");
  ok(CLOCK >= EMOLERRCODE, "and no code: codes are below EMOLERRCODE");
  is(mnx_getprocinfo(VM, server_nr, &info), OK, "getprocinfo");
  is(info.p_endpoint, server_nr, "getprocinfo: the endpoint");
  is(info.p_lpid, (int)p.pid, "getprocinfo: the process");
  is(info.p_vmid, VM, "getprocinfo: the VM");
  is((int)info.p_rts_flags, PROC_RUNNING, "getprocinfo: running");
  is(mnx_getprocinfo(VM, BIG, &info), EMOLRANGE, "getprocinfo: slot out of range");
  is(mnx_getprocinfo(VM, third_nr, &info), OK, "getprocinfo of a free slot");
  is((int)info.p_rts_flags, SLOT_FREE, "getprocinfo of a free slot: SLOT_FREE");
  is(mnx_proc_dump(VM), OK, "proc_dump");
  is(mnx_vm_dump(), OK, "vm_dump");
  end(&p, SIGKILL);
  until_state(VM, server_nr, SLOT_FREE);
  p = bound(VM, server_nr);
  is(p.ep, server_nr, "a server's endpoint does not change");
  end(&p, SIGKILL);
  end(&q, SIGKILL);

  group("generations");
  p = bound(VM, user_nr);
  int first = p.ep;
  ok(_ENDPOINT_G(first) >= 1, "a user's generation begins at 1");
  is(_ENDPOINT_P(first), user_nr, "its slot is the slot");
  end(&p, SIGKILL);
  until_state(VM, first, SLOT_FREE);
  q = bound(VM, other_nr);
  is(call(&q, SEND, first, 1, LONG_MS).code, EMOLDSTDIED, "send to the last holder of a free slot");
  is(call(&q, RECEIVE, first, 0, LONG_MS).code, EMOLSRCDIED, "receive from it");
  is(call(&q, SENDREC, first, 1, LONG_MS).code, EMOLDEADSRCDST, "sendrec to it");
  is(call(&q, NOTIFY, first, 0, 0).code, EMOLDSTDIED, "notify it");
  is(call(&q, SEND, first + _ENDPOINT_GENERATION_SIZE, 1, LONG_MS).code, EMOLENDPOINT,
     "send to another generation of a free slot");
  p = bound(VM, user_nr);
  is(_ENDPOINT_G(p.ep), _ENDPOINT_G(first) + 1, "the generation rises at each bind");
  is(call(&q, SEND, first, 1, LONG_MS).code, EMOLENDPOINT, "send to a stale endpoint");
  is(call(&q, NOTIFY, first, 0, 0).code, EMOLENDPOINT, "notify a stale endpoint");
  is(call_vm(&q, UNBIND, VM, first, 0), EMOLENDPOINT, "unbind a stale endpoint");
  is(call_vm(&q, WAKEUP, VM, first, 0), EMOLENDPOINT, "wakeup of a stale endpoint");

  group("tbind");
  is(call_vm(&p, TBIND, VM, 0, third_nr) > 0, 1, "a thread gets an endpoint");
  until_state(VM, third_nr, SLOT_FREE);
  ok(state_of(VM, third_nr) == SLOT_FREE, "it ends with the thread");
  struct order o = order(TBIND_SEND);
  o.vm = VM;
  o.nr = third_nr;
  o.ep = q.ep;
  o.m.m_type = 77;
  tell(&q, RECEIVE, ANY, 0, LONG_MS);
  is(call_order(&p, o).code, OK, "a thread sends from its endpoint");
  is(_ENDPOINT_P(hear(&q).m.m_source), third_nr, "and is seen as that");
  struct peer r = unbound();
  is(call_vm(&r, TBIND, VM, 0, third_nr), EMOLGRPLEADER, "process not bound");
  end(&r, SIGKILL);
  o = order(TWO_THREADS);
  o.vm = VM;
  o.ep = p.ep;
  is(call_order(&p, o).code, EMOLNOTREADY, "two threads on one endpoint");

  group("lclbind");
  until_state(VM, third_nr, SLOT_FREE);
  r = unbound();
  tell(&r, WAIT4BIND, 0, 0, LONG_MS);
  int ep = mnx_lclbind(VM, (int)r.pid, third_nr);
  is(_ENDPOINT_P(ep), third_nr, "binds another process");
  is(hear(&r).code, ep, "wakes it from wait4bind");
  is(mnx_lclbind(VM, 1 << 30, server_nr), EMOLBADPROC, "no such process");
  is(mnx_lclbind(VM, (int)r.pid, server_nr), EMOLSLOTUSED, "process bound already");
  end(&r, SIGKILL);

  group("unbind");
  until_state(VM, ep, SLOT_FREE);
  is(call_vm(&q, UNBIND, VM, ep, 0), EMOLNOTBIND, "slot free");
  is(call_vm(&q, UNBIND, VM, BIG, 0) < 0, 1, "an endpoint that cannot be");
  is(call_vm(&p, UNBIND, VM, p.ep, 0), OK, "one's own");
  is(call(&p, SEND, q.ep, 1, LONG_MS).code, EMOLNOTBIND, "after it, send");
  is(call(&p, GETEP, (int)q.pid, 0, 0).code, EMOLNOTBIND, "after it, getep");
  p.ep = call_vm(&p, BIND, VM, 0, user_nr);
  ok(p.ep > 0, "bind again");
  call(&p, IGNORE_SIGPIPE, 0, 0, 0);
  tell(&p, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &p);
  is(call_vm(&q, UNBIND, VM, p.ep, 0), OK, "another's");
  is(hear(&p).code, EMOLSHUTDOWN, "its blocked call");
  end(&p, SIGKILL);
  p = bound(VM, user_nr);
  is(call_vm(&q, UNBIND, VM, p.ep, 0), OK, "another's that does not ignore SIGPIPE");
  int status = end(&p, 0);
  ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE, "it gets SIGPIPE");

  group("implicit unbind");
  p = bound(VM, user_nr);
  struct peer w = bound(VM, third_nr);
  tell(&w, WAIT4UNBIND, p.ep, 0, LONG_MS);
  until_blocked(VM, &w);
  tell(&p, EXIT, 0, 0, 0);
  is(hear(&w).code, OK, "exit");
  end(&p, 0);
  p = bound(VM, user_nr);
  tell(&w, WAIT4UNBIND, p.ep, 0, LONG_MS);
  until_blocked(VM, &w);
  tell(&p, EXEC, 0, 0, 0);
  is(hear(&w).code, OK, "exec");
  end(&p, SIGKILL);
  p = bound(VM, user_nr);
  tell(&w, WAIT4UNBIND, p.ep, 0, LONG_MS);
  until_blocked(VM, &w);
  end(&p, SIGKILL);
  is(hear(&w).code, OK, "kill -9");
  is(call(&q, FORKED, 0, 0, 0).code, 0, "after fork the child is unbound");
  is(call(&q, WAIT4BIND, 0, 0, TIMEOUT_NOWAIT).code, q.ep, "and the parent still bound");

  group("getep and wait4");
  is(call(&q, GETEP, (int)w.pid, 0, 0).code, w.ep, "getep of another");
  is(call(&q, GETEP, (int)q.pid, 0, 0).code, q.ep, "getep of oneself");
  is(call(&q, GETEP, (int)getpid(), 0, 0).code, EMOLNOTBIND, "getep of one that is not bound");
  is(call(&q, GETEP, 1 << 30, 0, 0).code, EMOLBADPROC, "getep of nobody");
  is(mnx_wait4bind_T(SHORT_MS), EMOLTIMEDOUT, "wait4bind, time over");
  is(mnx_wait4bind_T(-7), EMOLINVAL, "a time limit of -7");
  is(mnx_wait4bindep_T(q.ep, SHORT_MS), EMOLNOTBIND, "wait4bindep, caller unbound");
  is(mnx_wait4unbind_T(q.ep, SHORT_MS), EMOLNOTBIND, "wait4unbind, caller unbound");
  is(call(&q, WAIT4BINDEP, w.ep, 0, LONG_MS).code, w.ep, "wait4bindep of one that is there");
  is(call(&q, WAIT4BINDEP, q.ep, 0, LONG_MS).code, EMOLENDPOINT, "wait4bindep of oneself");
  is(call(&q, WAIT4UNBIND, q.ep, 0, LONG_MS).code, EMOLENDPOINT, "wait4unbind of oneself");
  is(call(&q, WAIT4BINDEP, BIG - BIG % _ENDPOINT_GENERATION_SIZE + 35000, 0, SHORT_MS).code, EMOLRANGE,
     "wait4bindep, slot out of range");
  is(call(&q, WAIT4BINDEP, server_nr, 0, SHORT_MS).code, EMOLTIMEDOUT, "wait4bindep, time over");
  is(call(&q, WAIT4UNBIND, w.ep, 0, SHORT_MS).code, EMOLTIMEDOUT, "wait4unbind, time over");
  tell(&q, WAIT4BINDEP, server_nr, 0, LONG_MS);
  until_blocked(VM, &q);
  p = bound(VM, server_nr);
  is(hear(&q).code, server_nr, "wait4bindep, bound meanwhile");
  is(call(&q, WAIT4UNBIND, first, 0, LONG_MS).code, OK, "wait4unbind of one that has gone");
  end(&p, SIGKILL);
  end(&q, SIGKILL);
  end(&w, SIGKILL);
}

static void names(void) {
  char longest[M3_NAME_MAX + 2];

  group("names");
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr);
  is(m3_name_attach("x"), EMOLNOTBIND, "attach, not bound");
  is(call_name(&q, NAME_LOCATE, "clock", 0), EMOLNONODE, "locate, unknown");
  is(call_name(&q, WAIT4NAME, "clock", SHORT_MS), EMOLTIMEDOUT, "wait4name, time over");
  is(call_name(&p, NAME_ATTACH, "clock", 0), OK, "attach");
  is(call_name(&p, NAME_ATTACH, "watch", 0), OK, "attach a second");
  is(call_name(&q, NAME_ATTACH, "clock", 0), EMOLRSCBUSY, "attach, taken");
  is(call_name(&q, NAME_LOCATE, "clock", 0), p.ep, "locate");
  is(call_name(&q, NAME_LOCATE, "watch", 0), p.ep, "locate the second");
  is(call_name(&q, NAME_ATTACH, "", 0), EMOLINVAL, "attach, empty");
  memset(longest, 'n', sizeof longest);
  longest[M3_NAME_MAX + 1] = '\0';
  is(call_name(&q, NAME_ATTACH, longest, 0), EMOLNAMESIZE, "attach, 64 bytes");
  longest[M3_NAME_MAX] = '\0';
  is(call_name(&q, NAME_ATTACH, longest, 0), OK, "attach, 63 bytes");
  struct order o = order(WAIT4NAME);
  strcpy(o.text, "bell");
  tell_order(&q, o);
  is(call_name(&p, NAME_ATTACH, "bell", 0), OK, "attach while another waits");
  is(hear(&q).code, p.ep, "wait4name");
  end(&p, SIGKILL);
  until_state(VM, p.ep, SLOT_FREE);
  is(call_name(&q, NAME_LOCATE, "clock", 0), EMOLNONODE, "freed with the endpoint");
  is(call_name(&q, NAME_ATTACH, "clock", 0), OK, "and free for another");
  end(&q, SIGKILL);
}

/* ---- Messages ---------------------------------------------------------- */

static void sends(void) {
  struct result r;

  group("send and receive");
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr), s = bound(VM, server_nr);
  tell(&p, SEND, q.ep, 41, LONG_MS);
  until_blocked(VM, &p);
  ok((state_of(VM, p.ep) & SENDING) != 0, "the sender waits");
  r = call(&q, RECEIVE, ANY, 0, LONG_MS);
  is(r.code, OK, "receive from ANY");
  is(r.m.m_source, p.ep, "its source");
  is(r.m.m_type, 41, "its type");
  is(r.m.m1_i1, 1041, "its payload");
  is(hear(&p).code, OK, "send returns once it is taken");
  tell(&q, RECEIVE, p.ep, 0, LONG_MS);
  until_blocked(VM, &q);
  is(call(&p, SEND, q.ep, 42, LONG_MS).code, OK, "send to one that waits");
  is(hear(&q).m.m_type, 42, "receive from an endpoint");

  is(call(&p, SEND, ANY, 1, LONG_MS).code, EMOLRANGE, "send to ANY");
  is(call(&p, SEND, NONE, 1, LONG_MS).code, EMOLRANGE, "send to NONE");
  is(call(&p, SEND, SELF, 1, LONG_MS).code, EMOLRANGE, "send to SELF");
  is(call(&p, SEND, 28, 1, LONG_MS).code, EMOLDSTDIED, "send to a server that never was");
  is(call(&p, SEND, p.ep, 1, LONG_MS).code, EMOLENDPOINT, "send to oneself");
  is(call(&p, SEND, q.ep, 1, TIMEOUT_NOWAIT).code, EMOLAGAIN, "send, would block");
  is(call(&p, SEND, q.ep, 1, SHORT_MS).code, EMOLTIMEDOUT, "send, time over");
  is(call(&p, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "receive, would block");
  is(call(&p, RECEIVE, q.ep, 0, SHORT_MS).code, EMOLTIMEDOUT, "receive, time over");
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "a message whose time was over is withdrawn");
  is(call(&p, SEND_BAD, q.ep, 0, 0).code, EMOLADDRNOTAVAIL, "send of bad memory");
  is(call(&p, RECEIVE_BAD, ANY, 0, 0).code, EMOLADDRNOTAVAIL, "receive into no memory");

  tell(&p, SEND, q.ep, 1, LONG_MS);
  until_blocked(VM, &p);
  tell(&s, SEND, q.ep, 2, LONG_MS);
  until_blocked(VM, &s);
  is(call(&q, RECEIVE, s.ep, 0, LONG_MS).m.m_type, 2, "from an endpoint, past an earlier one");
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_type, 1, "the earlier one is still there");
  is(hear(&p).code + hear(&s).code, OK, "both senders return");
  tell(&p, SEND, q.ep, 1, LONG_MS);
  until_blocked(VM, &p);
  tell(&s, SEND, q.ep, 2, LONG_MS);
  until_blocked(VM, &s);
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_type, 1, "order of arrival: the first");
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_type, 2, "order of arrival: the second");
  hear(&p);
  hear(&s);

  group("signals");
  tell(&p, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &p);
  is(hear_interrupted(&p, SIGUSR1).code, EMOLINTR, "a signal ends receive");
  tell(&p, SEND, q.ep, 5, LONG_MS);
  until_blocked(VM, &p);
  is(hear_interrupted(&p, SIGUSR1).code, EMOLINTR, "a signal ends send");
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "and its message is withdrawn");
  tell(&p, SENDREC, q.ep, 5, LONG_MS);
  until_blocked(VM, &p);
  is(hear_interrupted(&p, SIGUSR1).code, EMOLINTR, "a signal ends sendrec");
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "and its request is withdrawn");

  group("deadlock");
  tell(&p, SEND, q.ep, 1, LONG_MS);
  until_blocked(VM, &p);
  is(call(&q, SEND, p.ep, 1, LONG_MS).code, EMOLLOCKED, "a circle of two");
  tell(&q, SEND, s.ep, 1, LONG_MS);
  until_blocked(VM, &q);
  is(call(&s, SEND, p.ep, 1, LONG_MS).code, EMOLLOCKED, "a circle of three");
  is(call(&s, SENDREC, p.ep, 1, LONG_MS).code, EMOLLOCKED, "a circle of three, with sendrec");
  is(call(&s, RECEIVE, q.ep, 0, LONG_MS).code, OK, "one sends and the other receives: no circle");
  hear(&q);
  is(call(&q, RECEIVE, p.ep, 0, LONG_MS).code, OK, "nor here");
  hear(&p);

  group("death");
  tell(&p, SEND, q.ep, 1, LONG_MS);
  tell(&s, RECEIVE, q.ep, 0, LONG_MS);
  until_blocked(VM, &p);
  until_blocked(VM, &s);
  end(&q, SIGKILL);
  is(hear(&p).code, EMOLDSTDIED, "those queued to it");
  is(hear(&s).code, EMOLSRCDIED, "those who receive from it");
  q = bound(VM, other_nr);
  tell(&s, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &s);
  is(call(&q, NOTIFY, p.ep, 0, 0).code, OK, "it notifies");
  end(&q, SIGKILL);
  until_state(VM, q.ep, SLOT_FREE);
  is(call(&p, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "its notifications are erased");
  is(call(&p, SEND, s.ep, 9, LONG_MS).code, OK, "receive from ANY is not disturbed");
  is(hear(&s).m.m_type, 9, "and takes what comes");
  end(&p, SIGKILL);
  end(&s, SIGKILL);
}

static void requests(void) {
  struct result r;

  group("sendrec");
  struct peer c = bound(VM, user_nr), s = bound(VM, server_nr), t = bound(VM, other_nr);
  tell(&c, SENDREC, s.ep, 10, LONG_MS);
  r = call(&s, RECEIVE, ANY, 0, LONG_MS);
  is(r.m.m_source, c.ep, "the request comes");
  until_state(VM, c.ep, RECEIVING);
  is(call(&t, NOTIFY, c.ep, 0, 0).code, OK, "a notification meanwhile");
  is(call(&s, NOTIFY, c.ep, 0, 0).code, OK, "also of the server");
  tell(&t, SEND, c.ep, 66, LONG_MS);
  until_blocked(VM, &t);
  is(call(&s, SEND, c.ep, 11, LONG_MS).code, OK, "a send is an answer");
  r = hear(&c);
  is(r.code, OK, "and ends it");
  is(r.m.m_type, 11, "with the answer");
  r = call(&c, RECEIVE, ANY, 0, LONG_MS);
  ok(M3_IS_NOTIFY(&r.m) && r.m.m_source == s.ep, "then the notifications, lowest slot first");
  r = call(&c, RECEIVE, ANY, 0, LONG_MS);
  ok(M3_IS_NOTIFY(&r.m) && r.m.m_source == t.ep, "one in each call");
  is(call(&c, RECEIVE, ANY, 0, LONG_MS).m.m_type, 66, "then the message of a third");
  hear(&t);
  is(call(&c, SENDREC, 28, 1, LONG_MS).code, EMOLDEADSRCDST, "nobody there");
  is(call(&c, SENDREC, s.ep, 1, TIMEOUT_NOWAIT).code, EMOLAGAIN, "would block");
  is(call(&c, SENDREC, s.ep, 1, SHORT_MS).code, EMOLTIMEDOUT, "time over before it is taken");
  tell(&s, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &s);
  is(call(&c, SENDREC, s.ep, 1, SHORT_MS).code, EMOLTIMEDOUT, "time over after it is taken");
  hear(&s);
  is(call(&s, REPLY, c.ep, 1, 0).code, EMOLPROCSTS, "and a late answer has no taker");
  is(call(&c, SENDREC, c.ep, 1, LONG_MS).code, EMOLENDPOINT, "to oneself");
  is(call(&c, SENDREC, ANY, 1, LONG_MS).code, EMOLRANGE, "to ANY");
  tell(&c, SENDREC, t.ep, 1, LONG_MS);
  until_blocked(VM, &c);
  end(&t, SIGKILL);
  is(hear(&c).code, EMOLDSTDIED, "it died before it took the request");
  t = bound(VM, other_nr);
  tell(&c, SENDREC, t.ep, 1, LONG_MS);
  is(call(&t, RECEIVE, ANY, 0, LONG_MS).code, OK, "it takes the request");
  end(&t, SIGKILL);
  is(hear(&c).code, EMOLSRCDIED, "it died after it took the request");

  group("rcvrqst and reply");
  t = bound(VM, other_nr);
  tell(&t, SEND, s.ep, 7, LONG_MS);
  until_blocked(VM, &t);
  is(call(&s, RCVRQST, 0, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "a plain send is no request");
  tell(&c, SENDREC, s.ep, 20, LONG_MS);
  r = call(&s, RCVRQST, 0, 0, LONG_MS);
  ok(r.code == OK && r.m.m_source == c.ep && r.m.m_type == 20, "a sendrec is");
  until_state(VM, c.ep, RECEIVING);
  is(call(&s, REPLY, t.ep, 1, 0).code, EMOLPROCSTS, "reply to one that does not wait for it");
  is(call(&s, REPLY, c.ep, 21, 0).code, OK, "reply");
  is(hear(&c).m.m_type, 21, "is the answer");
  is(call(&s, REPLY, c.ep, 21, 0).code, EMOLPROCSTS, "reply twice");
  is(call(&c, NOTIFY, s.ep, 0, 0).code, OK, "notify");
  r = call(&s, RCVRQST, 0, 0, LONG_MS);
  ok(r.code == OK && M3_IS_NOTIFY(&r.m), "rcvrqst takes notifications");
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).m.m_type, 7, "the plain send was kept for receive");
  hear(&t);
  is(call(&s, RCVRQST, 0, 0, SHORT_MS).code, EMOLTIMEDOUT, "rcvrqst, time over");
  tell(&c, RECEIVE, s.ep, 0, LONG_MS);
  until_blocked(VM, &c);
  is(call(&s, REPLY, c.ep, 22, 0).code, OK, "reply to one that receives from the caller");
  is(hear(&c).m.m_type, 22, "it comes");

  group("relay");
  is(call(&s, RELAY, t.ep, 1, LONG_MS).code, EMOLPROCSTS, "no request held");
  tell(&c, SENDREC, s.ep, 30, LONG_MS);
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).code, OK, "a request");
  until_state(VM, c.ep, RECEIVING);
  is(call(&s, RELAY, t.ep, 31, TIMEOUT_NOWAIT).code, EMOLAGAIN, "would block");
  tell(&t, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &t);
  is(call(&s, RELAY, t.ep, 31, LONG_MS).code, OK, "handed on");
  r = hear(&t);
  ok(r.m.m_source == c.ep && r.m.m_type == 31, "the other sees the first client");
  is(call(&t, REPLY, c.ep, 32, 0).code, OK, "and answers it");
  r = hear(&c);
  ok(r.code == OK && r.m.m_type == 32, "which is the client's answer");
  is(call(&s, RELAY, t.ep, 31, LONG_MS).code, EMOLPROCSTS, "the request is held no longer");
  end(&c, SIGKILL);
  end(&s, SIGKILL);
  end(&t, SIGKILL);
}

static void notifications(void) {
  struct result r;
  struct order o;

  group("notify");
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr), s = bound(VM, server_nr);
  is(call(&p, NOTIFY, q.ep, 0, 0).code, OK, "to one that does not wait");
  is(call(&p, NOTIFY, q.ep, 0, 0).code, OK, "again");
  is(call(&s, NOTIFY, q.ep, 0, 0).code, OK, "of another");
  r = call(&q, RECEIVE, p.ep, 0, LONG_MS);
  is(r.code, OK, "receive from an endpoint takes its own alone");
  is(r.m.m_type, NOTIFY_FROM(user_nr), "its type is 0x1000 or-ed with the slot");
  is(r.m.m_source, p.ep, "its source");
  is(r.m.NOTIFY_ARG | r.m.NOTIFY_ARG_HIGH, 0, "its argument is 0");
  ok(r.m.NOTIFY_TIMESTAMP.tv_sec > 1000000000, "its time");
  is(call(&q, RECEIVE, p.ep, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "two of one source are one");
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_type, NOTIFY_FROM(server_nr), "the other's was remembered");
  tell(&q, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &q);
  is(call(&p, NOTIFY, q.ep, 0, 0).code, OK, "to one that waits");
  is(hear(&q).m.m_source, p.ep, "it comes");
  tell(&s, SEND, q.ep, 3, LONG_MS);
  until_blocked(VM, &s);
  call(&p, NOTIFY, q.ep, 0, 0);
  r = call(&q, RECEIVE, ANY, 0, LONG_MS);
  ok(M3_IS_NOTIFY(&r.m), "before messages that wait longer");
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_type, 3, "then those");
  hear(&s);
  is(call(&p, NOTIFY, ANY, 0, 0).code, EMOLRANGE, "to ANY");
  is(call(&p, NOTIFY, p.ep, 0, 0).code, EMOLENDPOINT, "to oneself");
  is(call(&p, NOTIFY, 28, 0, 0).code, EMOLDSTDIED, "to nobody");

  group("src_notify");
  is(call_vm(&p, SRC_NOTIFY, 0, q.ep, CLOCK), OK, "as a task that nobody holds");
  r = call(&q, RECEIVE, ANY, 0, LONG_MS);
  ok(r.m.m_source == CLOCK && r.m.m_type == SYN_ALARM, "it comes as of that task");
  is(call_vm(&p, SRC_NOTIFY, 0, q.ep, user_nr), OK, "as oneself");
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_source, p.ep, "it comes as of oneself");
  is(call_vm(&p, SRC_NOTIFY, 0, q.ep, server_nr), EMOLPRIVILEGES, "as another");

  group("wakeup");
  tell(&q, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &q);
  is(mnx_wakeup(VM, q.ep), OK, "one that receives from ANY");
  is(hear(&q).code, EMOLWOKENUP, "its receive");
  is(mnx_wakeup(VM, q.ep), EMOLPROCRUN, "one that runs");
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).code, EMOLWOKENUP, "it is remembered");
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "once");
  tell(&q, RECEIVE, p.ep, 0, LONG_MS);
  until_blocked(VM, &q);
  is(mnx_wakeup(VM, q.ep), EMOLPROCSTS, "one that receives from an endpoint");
  is(call(&p, SEND, q.ep, 4, LONG_MS).code, OK, "it is not disturbed");
  is(hear(&q).m.m_type, 4, "and gets its message");
  call(&p, NOTIFY, q.ep, 0, 0);
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).code, EMOLWOKENUP, "a remembered wakeup comes first");
  r = call(&q, RECEIVE, ANY, 0, LONG_MS);
  ok(M3_IS_NOTIFY(&r.m), "then the notification");
  is(mnx_wakeup(BIG, q.ep), EMOLBADVMID, "VM id out of range");
  is(mnx_wakeup(VM + 1, q.ep), EMOLVMNOTRUN, "VM not running");
  is(mnx_wakeup(VM, 28), EMOLDSTDIED, "nobody");

  group("m3_fd");
  is(m3_fd(), EMOLNOTBIND, "not bound");
  is(call(&q, POLL, 0, 0, TIMEOUT_NOWAIT).code, 0, "nothing to take");
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "nor by receive, after which one polls");
  o = order(POLL);
  o.ms = -1;
  tell_order(&q, o);
  tell(&p, SEND, q.ep, 8, LONG_MS);
  is(hear(&q).code, 1, "readable when a message waits");
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).m.m_type, 8, "it is there");
  hear(&p);

  group("m3_peer");
  r = call(&q, PEER, 0, 0, 0);
  is(r.code, OK, "after a message");
  is(r.who.endpoint, p.ep, "endpoint");
  is(r.who.vmid, VM, "VM");
  is(r.who.nodeid, NODE, "node");
  is(r.who.pid, (int)p.pid, "process");
  is((int)r.who.uid, (int)geteuid(), "user");
  is((int)r.who.gid, (int)getegid(), "group");
  struct peer fresh = bound(VM, third_nr);
  is(call(&fresh, PEER, 0, 0, 0).code, EMOLNOMSG, "before any message");
  end(&fresh, SIGKILL);

  group("privileges");
  memset(&o, 0, sizeof o);
  o = order(SETPRIV);
  is(mnx_getpriv(VM, p.ep, &o.priv), OK, "getpriv");
  priv_usr_t all = o.priv;
  o.priv.s_trap_mask = (short)(o.priv.s_trap_mask & ~M3_TRAP_SEND);
  is(mnx_setpriv(VM, p.ep, &o.priv), OK, "setpriv: no send");
  is(call(&p, SEND, q.ep, 1, SHORT_MS).code, EMOLTRAPDENIED, "send");
  is(call(&p, NOTIFY, q.ep, 0, 0).code, OK, "notify is still allowed");
  o.priv = all;
  M3_MAP_CLEAR(o.priv.s_ipc_to, server_nr);
  is(mnx_setpriv(VM, p.ep, &o.priv), OK, "setpriv: not to that server");
  is(call(&p, SEND, s.ep, 1, SHORT_MS).code, EMOLCALLDENIED, "send to it");
  is(call(&p, NOTIFY, s.ep, 0, 0).code, EMOLCALLDENIED, "notify it");
  is(call(&p, SEND, q.ep, 1, SHORT_MS).code, EMOLTIMEDOUT, "send to another is allowed");
  is(mnx_setpriv(VM, p.ep, &all), OK, "setpriv: everything again");
  is(mnx_getpriv(VM, 28, &o.priv), EMOLDSTDIED, "getpriv of nobody");
  end(&p, SIGKILL);
  end(&q, SIGKILL);
  end(&s, SIGKILL);
}

static void longs(void) {
  static unsigned char want[M3_LONG_MAX];
  struct result r;
  struct order o;

  group("long messages");
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr);
  o = order(SEND_LONG);
  o.ep = q.ep;
  o.m.m_type = 50;
  o.len = M3_LONG_MAX;
  tell_order(&p, o);
  o = order(RECEIVE_LONG);
  o.ep = ANY;
  o.len = M3_LONG_MAX;
  r = call_order(&q, o);
  pattern(want, sizeof want);
  is(r.code, OK, "the longest");
  is(r.m.m_type, 50, "its type");
  is((int)r.len, M3_LONG_MAX, "its length");
  ok(r.sum == sum_of(want, sizeof want), "its bytes");
  is(hear(&p).code, OK, "its sender");
  o = order(SEND_LONG);
  o.ep = q.ep;
  o.len = M3_LONG_MAX + 1;
  is(call_order(&p, o).code, EMOLMSGSIZE, "one byte more");
  o.len = 100;
  tell_order(&p, o);
  o = order(RECEIVE_LONG);
  o.ep = p.ep;
  o.len = 10;
  r = call_order(&q, o);
  is(r.code, EMOLMSGSIZE, "more than the buffer");
  is((int)r.len, 100, "the whole length is told");
  is(hear(&p).code, OK, "it was taken");
  tell(&p, SEND, q.ep, 51, LONG_MS);
  r = call_order(&q, o);
  ok(r.code == OK && r.len == 0 && r.m.m_type == 51, "a plain message has no bytes");
  is(hear(&p).code, OK, "its sender");
  o = order(SEND_LONG);
  o.ep = q.ep;
  o.len = 5;
  tell_order(&p, o);
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).code, EMOLMSGSIZE, "a plain receive of a long message");
  hear(&p);

  o = order(SENDREC_LONG);
  o.ep = q.ep;
  o.len = 300;
  tell_order(&p, o);
  o = order(RCVRQST_LONG);
  o.len = M3_LONG_MAX;
  r = call_order(&q, o);
  is((int)r.len, 300, "a long request");
  until_state(VM, p.ep, RECEIVING);
  o = order(REPLY_LONG);
  o.ep = p.ep;
  o.len = 200;
  is(call_order(&q, o).code, OK, "a long answer");
  r = hear(&p);
  pattern(want, 200);
  ok(r.code == OK && r.len == 200 && r.sum == sum_of(want, 200), "comes back");
  end(&p, SIGKILL);
  end(&q, SIGKILL);
}

/* The forms without a time limit, which wait for ever. */
static void plain_forms(void) {
  struct order o = order(WAIT4NAME);

  group("plain forms");
  o.ms = TIMEOUT_FOREVER;
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr), r = unbound();
  tell(&p, SEND, q.ep, 1, TIMEOUT_FOREVER);
  is(call(&q, RECEIVE, p.ep, 0, TIMEOUT_FOREVER).code, OK, "receive");
  is(hear(&p).code, OK, "send");
  tell(&p, SENDREC, q.ep, 2, TIMEOUT_FOREVER);
  is(call(&q, RCVRQST, 0, 0, TIMEOUT_FOREVER).code, OK, "rcvrqst");
  until_state(VM, p.ep, RECEIVING);
  is(call(&q, REPLY, p.ep, 3, TIMEOUT_FOREVER).code, OK, "reply");
  is(hear(&p).code, OK, "sendrec");
  tell(&r, WAIT4BIND, 0, 0, TIMEOUT_FOREVER);
  tell(&q, WAIT4BINDEP, server_nr, 0, TIMEOUT_FOREVER);
  is(mnx_lclbind(VM, (int)r.pid, server_nr), server_nr, "lclbind");
  is(hear(&r).code, server_nr, "wait4bind");
  is(hear(&q).code, server_nr, "wait4bindep");
  strcpy(o.text, "plain");
  tell_order(&q, o);
  is(call_name(&p, NAME_ATTACH, "plain", 0), OK, "name_attach");
  is(hear(&q).code, p.ep, "wait4name");
  tell(&p, SENDREC, q.ep, 4, TIMEOUT_FOREVER);
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_FOREVER).code, OK, "a request");
  until_state(VM, p.ep, RECEIVING);
  tell(&q, RELAY, server_nr, 5, TIMEOUT_FOREVER);
  is(call(&r, RECEIVE, ANY, 0, TIMEOUT_FOREVER).m.m_source, p.ep, "relay: the first client");
  is(hear(&q).code, OK, "relay");
  is(call(&r, SEND, p.ep, 6, TIMEOUT_FOREVER).code, OK, "the answer");
  is(hear(&p).m.m_type, 6, "it comes");
  o = order(SEND_LONG);
  o.ep = q.ep;
  o.len = 64;
  o.ms = TIMEOUT_FOREVER;
  tell_order(&p, o);
  o.op = RECEIVE_LONG;
  o.ep = ANY;
  is((int)call_order(&q, o).len, 64, "receive_long");
  is(hear(&p).code, OK, "send_long");
  o.op = SENDREC_LONG;
  o.ep = q.ep;
  tell_order(&p, o);
  o.op = RCVRQST_LONG;
  is((int)call_order(&q, o).len, 64, "rcvrqst_long");
  until_state(VM, p.ep, RECEIVING);
  o.op = REPLY_LONG;
  o.ep = p.ep;
  is(call_order(&q, o).code, OK, "reply_long");
  is((int)hear(&p).len, 64, "sendrec_long");
  tell(&q, WAIT4UNBIND, p.ep, 0, TIMEOUT_FOREVER);
  end(&p, SIGKILL);
  is(hear(&q).code, OK, "wait4unbind");
  is(mnx_unbind(VM, q.ep), OK, "unbind, by one that is not bound");
  int status = end(&q, 0);
  ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE, "it gets SIGPIPE");
  end(&r, SIGKILL);
}

/* Each pair: what fails first and what would fail too. */
static void order_of_checks(void) {
  message m;

  group("order of checks");
  memset(&m, 0, sizeof m);
  is(mnx_send(ANY, &m), EMOLNOTBIND, "not bound before slot range");
  is(mnx_send(server_nr, NULL) < 0, 1, "not bound, and no memory");
  is(mnx_bind(BIG, BIG), EMOLBADVMID, "VM id before slot range");
  is(mnx_bind(VM + 1, BIG), EMOLVMNOTRUN, "VM not running before slot range");
  is(mnx_unbind(BIG, ANY), EMOLBADVMID, "VM id before the endpoint");
  struct peer p = bound(VM, user_nr);
  is(call(&p, SEND, _ENDPOINT(9, 35000), 1, LONG_MS).code, EMOLRANGE, "slot range before generation");
  end(&p, SIGKILL);
}

static void not_yet(void) {
  node_usr_t info;
  char byte = 0;

  group("not in this release");
  is(mnx_vcopy(SELF, &byte, server_nr, &byte, 1), EMOLNOSYS, "vcopy");
  is(mnx_add_node(VM, 1), EMOLNOSYS, "add_node");
  is(mnx_del_node(VM, 1), EMOLNOSYS, "del_node");
  is(mnx_node_up("n", 1, 1), EMOLNOSYS, "node_up");
  is(mnx_node_down(1), EMOLNOSYS, "node_down");
  is(mnx_getnodeinfo(1, &info), EMOLNOSYS, "getnodeinfo");
  is(mnx_rmtbind(VM, "p", 40, 1), EMOLNOSYS, "rmtbind");
  is(mnx_migr_start(VM, 40), EMOLNOSYS, "migr_start");
  is(mnx_migr_commit(1, VM, 40, 1), EMOLNOSYS, "migr_commit");
  is(mnx_migr_rollback(VM, 40), EMOLNOSYS, "migr_rollback");
  is(mnx_hdw_notify(VM, server_nr), EMOLNOSYS, "hdw_notify");
  is(mnx_ntfy_value(CLOCK, server_nr, 1), EMOLNOSYS, "ntfy_value");
}

static void end_of_node(void) {
  drvs_usr_t d;

  group("drvs_end");
  struct peer p = bound(VM, user_nr);
  is(mnx_drvs_end(), OK, "ends the VMs and the node");
  int status = end(&p, 0);
  ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE, "a member gets SIGPIPE");
  is(mnx_getdrvsinfo(&d), EMOLDRVSINIT, "after it, getdrvsinfo");
  is(mnx_drvs_end(), EMOLDRVSINIT, "again");
}

int main(void) {
  char folder[] = "/tmp/m3-conformance-XXXXXX";
  int ours = getenv("M3_RUNTIME_DIR") == NULL;

  if (ours) {
    if (mkdtemp(folder) == NULL || setenv("M3_RUNTIME_DIR", folder, 1) != 0) {
      perror(folder);
      return 3;
    }
  }
  signal(SIGALRM, bark);
  signal(SIGPIPE, SIG_IGN);
  alarm(WATCHDOG_S);

  numbers();
  node();
  vms();
  binds();
  names();
  sends();
  requests();
  notifications();
  longs();
  plain_forms();
  order_of_checks();
  not_yet();
  end_of_node();

  alarm(0);
  if (ours) nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  printf("1..%d\n", cases);
  printf("%d passed, %d failed\n", cases - failures, failures);
  return failures == 0 ? 0 : 1;
}
