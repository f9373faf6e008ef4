/*
 * Conformance: the verbs. Part of conformance.c, which includes it.
 */
#ifndef M3IPC_TESTS_MESSAGES_H
#define M3IPC_TESTS_MESSAGES_H

#include "harness.h"

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
  o.len = (size_t)M3_LARGE_MAX + 1;
  is(call_order(&p, o).code, EMOLMSGSIZE, "more than any can have");
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

  static const size_t large[] = {M3_LONG_MAX + 1, 4096, 100001, 300000};
  for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
    o = order(SENDREC_LONG);
    o.ep = q.ep;
    o.len = large[i];
    tell_order(&p, o);
    o = order(RCVRQST_LONG);
    o.len = 300000;
    r = call_order(&q, o);
    is((int)r.len, (int)large[i], "a large request");
    unsigned int sum = r.sum;
    o = order(REPLY_LONG);
    o.ep = p.ep;
    o.len = large[i];
    is(call_order(&q, o).code, OK, "a large answer");
    r = hear(&p);
    ok(r.code == OK && r.len == large[i] && r.sum == sum, "with the same bytes");
  }

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

#endif
