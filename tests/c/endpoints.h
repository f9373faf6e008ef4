/*
 * Conformance: endpoints and names. Part of conformance.c.
 */
#ifndef M3IPC_TESTS_ENDPOINTS_H
#define M3IPC_TESTS_ENDPOINTS_H

#include "harness.h"

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
  ok(CLOCK >= EMOLERRCODE, "the endpoint of a task is above EMOLERRCODE");
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
  int own = dup(2), full = open("/dev/full", O_WRONLY);
  ok(own >= 0 && full >= 0 && dup2(full, 2) == 2, "standard error on a full disk");
  is(mnx_proc_dump(VM), OK, "proc_dump on a full disk");
  is(mnx_vm_dump(), OK, "vm_dump on a full disk");
  ok(dup2(own, 2) == 2 && close(own) == 0 && close(full) == 0, "standard error is back");
  end(&p, SIGKILL);
  until_state(VM, server_nr, SLOT_FREE);
  p = bound(VM, server_nr);
  is(p.ep, server_nr, "a server's endpoint does not change");
  end(&p, SIGKILL);
  end(&q, SIGKILL);

  group("generations");
  p = bound(VM, user_nr);
  int first = p.ep;
  ok(_ENDPOINT_G(first) >= 1, "the first generation of a user slot is 1");
  is(_ENDPOINT_P(first), user_nr, "its slot");
  end(&p, SIGKILL);
  until_state(VM, first, SLOT_FREE);
  q = bound(VM, other_nr);
  is(call(&q, SEND, first, 1, LONG_MS).code, EMOLDSTDIED, "send to the last holder of a free slot");
  is(call(&q, RECEIVE, first, 0, LONG_MS).code, EMOLSRCDIED,
     "receive from the last holder of a free slot");
  is(call(&q, SENDREC, first, 1, LONG_MS).code, EMOLDEADSRCDST,
     "sendrec to the last holder of a free slot");
  is(call(&q, NOTIFY, first, 0, 0).code, EMOLDSTDIED, "notify the last holder of a free slot");
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
  ok(state_of(VM, third_nr) == SLOT_FREE, "the endpoint ends with the thread");
  struct order o = order(TBIND_SEND);
  o.vm = VM;
  o.nr = third_nr;
  o.ep = q.ep;
  o.m.m_type = 77;
  start(&q, RECEIVE, ANY, 0, LONG_MS);
  is(call_order(&p, o).code, OK, "a thread sends from its endpoint");
  is(_ENDPOINT_P(finish(&q).m.m_source), third_nr, "the receiver sees the endpoint of the thread");
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
  start(&r, WAIT4BIND, 0, 0, LONG_MS);
  int ep = mnx_lclbind(VM, (int)r.pid, third_nr);
  is(_ENDPOINT_P(ep), third_nr, "binds another process");
  is(finish(&r).code, ep, "wakes it from wait4bind");
  is(mnx_lclbind(VM, 1 << 30, server_nr), EMOLBADPROC, "no such process");
  is(mnx_lclbind(VM, (int)r.pid, server_nr), EMOLSLOTUSED, "process bound already");
  end(&r, SIGKILL);

  group("unbind");
  until_state(VM, ep, SLOT_FREE);
  is(call_vm(&q, UNBIND, VM, ep, 0), EMOLNOTBIND, "slot free");
  is(call_vm(&q, UNBIND, VM, BIG, 0) < 0, 1, "an endpoint out of range");
  is(call_vm(&p, UNBIND, VM, p.ep, 0), OK, "the caller's own endpoint");
  is(call(&p, SEND, q.ep, 1, LONG_MS).code, EMOLNOTBIND, "send after unbind");
  is(call(&p, GETEP, (int)q.pid, 0, 0).code, EMOLNOTBIND, "getep after unbind");
  p.ep = call_vm(&p, BIND, VM, 0, user_nr);
  ok(p.ep > 0, "bind again");
  call(&p, IGNORE_SIGPIPE, 0, 0, 0);
  start(&p, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &p);
  is(call_vm(&q, UNBIND, VM, p.ep, 0), OK, "the endpoint of another process");
  is(finish(&p).code, EMOLSHUTDOWN, "the blocked call of the unbound process");
  end(&p, SIGKILL);
  p = bound(VM, user_nr);
  is(call_vm(&q, UNBIND, VM, p.ep, 0), OK,
     "the endpoint of a process that does not ignore SIGPIPE");
  int status = end(&p, 0);
  ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE, "the unbound process gets SIGPIPE");

  group("implicit unbind");
  p = bound(VM, user_nr);
  struct peer w = bound(VM, third_nr);
  start(&w, WAIT4UNBIND, p.ep, 0, LONG_MS);
  until_blocked(VM, &w);
  start(&p, EXIT, 0, 0, 0);
  is(finish(&w).code, OK, "exit");
  end(&p, 0);
  p = bound(VM, user_nr);
  start(&w, WAIT4UNBIND, p.ep, 0, LONG_MS);
  until_blocked(VM, &w);
  start(&p, EXEC, 0, 0, 0);
  is(finish(&w).code, OK, "exec");
  end(&p, SIGKILL);
  p = bound(VM, user_nr);
  start(&w, WAIT4UNBIND, p.ep, 0, LONG_MS);
  until_blocked(VM, &w);
  end(&p, SIGKILL);
  is(finish(&w).code, OK, "kill -9");
  is(call(&q, FORKED, 0, 0, 0).code, 0, "after fork the child is unbound");
  is(call(&q, WAIT4BIND, 0, 0, TIMEOUT_NOWAIT).code, q.ep, "after fork the parent is still bound");

  group("getep and wait4");
  is(call(&q, GETEP, (int)w.pid, 0, 0).code, w.ep, "getep of another process");
  is(call(&q, GETEP, (int)q.pid, 0, 0).code, q.ep, "getep of the caller");
  is(call(&q, GETEP, (int)getpid(), 0, 0).code, EMOLNOTBIND, "getep of an unbound process");
  is(call(&q, GETEP, 1 << 30, 0, 0).code, EMOLBADPROC, "getep of a process that does not exist");
  is(mnx_wait4bind_T(SHORT_MS), EMOLTIMEDOUT, "wait4bind: the limit is over");
  is(mnx_wait4bind_T(-7), EMOLINVAL, "a time limit of -7");
  is(m3_bind_backup_T(VM, user_nr, SHORT_MS), EMOLTIMEDOUT, "bind_backup: no proxy knows the slot");
  is(m3_bind_backup_T(VM, user_nr, TIMEOUT_NOWAIT), EMOLTIMEDOUT, "bind_backup, without waiting");
  is(m3_bind_backup_T(VM, user_nr, -7), EMOLINVAL, "bind_backup, a time limit of -7");
  is(m3_migrate(), EMOLNOTBIND, "migrate, caller unbound");
  is(mnx_wait4bindep_T(q.ep, SHORT_MS), EMOLNOTBIND, "wait4bindep, caller unbound");
  is(mnx_wait4unbind_T(q.ep, SHORT_MS), EMOLNOTBIND, "wait4unbind, caller unbound");
  is(call(&q, WAIT4BINDEP, w.ep, 0, LONG_MS).code, w.ep, "wait4bindep of a bound endpoint");
  is(call(&q, WAIT4BINDEP, q.ep, 0, LONG_MS).code, EMOLENDPOINT, "wait4bindep of the caller");
  is(call(&q, WAIT4UNBIND, q.ep, 0, LONG_MS).code, EMOLENDPOINT, "wait4unbind of the caller");
  int beyond = BIG - BIG % _ENDPOINT_GENERATION_SIZE + 35000;
  is(call(&q, WAIT4BINDEP, beyond, 0, LONG_MS).code, EMOLRANGE,
     "wait4bindep, slot out of range");
  is(call(&q, WAIT4BINDEP, server_nr, 0, SHORT_MS).code, EMOLTIMEDOUT,
     "wait4bindep: the limit is over");
  is(call(&q, WAIT4UNBIND, w.ep, 0, SHORT_MS).code, EMOLTIMEDOUT, "wait4unbind: the limit is over");
  start(&q, WAIT4BINDEP, server_nr, 0, LONG_MS);
  until_blocked(VM, &q);
  p = bound(VM, server_nr);
  is(finish(&q).code, server_nr, "wait4bindep: bound during the wait");
  is(call(&q, WAIT4UNBIND, first, 0, LONG_MS).code, OK, "wait4unbind of an endpoint that has gone");
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
  is(call_name(&q, WAIT4NAME, "clock", SHORT_MS), EMOLTIMEDOUT, "wait4name: the limit is over");
  is(call_name(&p, NAME_ATTACH, "clock", 0), OK, "attach");
  is(call_name(&p, NAME_ATTACH, "watch", 0), OK, "attach a second name");
  is(call_name(&q, NAME_ATTACH, "clock", 0), EMOLRSCBUSY, "attach, taken");
  is(call_name(&q, NAME_LOCATE, "clock", 0), p.ep, "locate");
  is(call_name(&q, NAME_LOCATE, "watch", 0), p.ep, "locate by the second name");
  is(call_name(&q, NAME_ATTACH, "", 0), EMOLINVAL, "attach, empty");
  memset(longest, 'n', sizeof longest);
  longest[M3_NAME_MAX + 1] = '\0';
  is(call_name(&q, NAME_ATTACH, longest, 0), EMOLNAMESIZE, "attach, 64 bytes");
  longest[M3_NAME_MAX] = '\0';
  is(call_name(&q, NAME_ATTACH, longest, 0), OK, "attach, 63 bytes");
  struct order o = order(WAIT4NAME);
  strcpy(o.text, "bell");
  start_order(&q, o);
  is(call_name(&p, NAME_ATTACH, "bell", 0), OK, "attach while another process waits");
  is(finish(&q).code, p.ep, "wait4name");
  end(&p, SIGKILL);
  until_state(VM, p.ep, SLOT_FREE);
  is(call_name(&q, NAME_LOCATE, "clock", 0), EMOLNONODE, "locate after the death of the endpoint");
  is(call_name(&q, NAME_ATTACH, "clock", 0), OK, "attach the name of a dead endpoint");
  end(&q, SIGKILL);
}

#endif
