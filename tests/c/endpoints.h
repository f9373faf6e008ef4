/*
 * Conformance: endpoints and names. Part of conformance.c, which includes it.
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

#endif
