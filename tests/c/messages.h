/*
 * Conformance: send, receive, requests, notifications, long messages. Part of conformance.c.
 */
#ifndef M3IPC_TESTS_MESSAGES_H
#define M3IPC_TESTS_MESSAGES_H

#include "harness.h"

/* ---- Messages ---------------------------------------------------------- */

static void sends(void) {
  struct result r;

  group("send and receive");
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr), s = bound(VM, server_nr);
  start(&p, SEND, q.ep, 41, LONG_MS);
  until_blocked(VM, &p);
  ok((state_of(VM, p.ep) & SENDING) != 0, "the sender waits");
  r = call(&q, RECEIVE, ANY, 0, LONG_MS);
  is(r.code, OK, "receive from ANY");
  is(r.m.m_source, p.ep, "the source of the message");
  is(r.m.m_type, 41, "the type of the message");
  is(r.m.m1_i1, 1041, "the payload of the message");
  is(finish(&p).code, OK, "send returns when the message is taken");
  start(&q, RECEIVE, p.ep, 0, LONG_MS);
  until_blocked(VM, &q);
  is(call(&p, SEND, q.ep, 42, LONG_MS).code, OK, "send to a waiting receiver");
  is(finish(&q).m.m_type, 42, "receive from an endpoint");

  is(call(&p, SEND, ANY, 1, LONG_MS).code, EMOLRANGE, "send to ANY");
  is(call(&p, SEND, NONE, 1, LONG_MS).code, EMOLRANGE, "send to NONE");
  is(call(&p, SEND, SELF, 1, LONG_MS).code, EMOLRANGE, "send to SELF");
  is(call(&p, SEND, 28, 1, LONG_MS).code, EMOLDSTDIED,
     "send to a server slot that was never bound");
  is(call(&p, SEND, p.ep, 1, LONG_MS).code, EMOLENDPOINT, "send to the caller");
  is(call(&p, SEND, q.ep, 1, TIMEOUT_NOWAIT).code, EMOLAGAIN, "send with a limit of 0");
  is(call(&p, SEND, q.ep, 1, SHORT_MS).code, EMOLTIMEDOUT, "send: the limit is over");
  is(call(&p, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "receive with a limit of 0");
  is(call(&p, RECEIVE, q.ep, 0, SHORT_MS).code, EMOLTIMEDOUT, "receive: the limit is over");
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN,
     "send withdraws its message at the limit");
  is(call(&p, SEND_BAD, q.ep, 0, 0).code, EMOLADDRNOTAVAIL, "send from a bad address");
  is(call(&p, RECEIVE_BAD, ANY, 0, 0).code, EMOLADDRNOTAVAIL, "receive into NULL");

  start(&p, SEND, q.ep, 1, LONG_MS);
  until_blocked(VM, &p);
  start(&s, SEND, q.ep, 2, LONG_MS);
  until_blocked(VM, &s);
  is(call(&q, RECEIVE, s.ep, 0, LONG_MS).m.m_type, 2,
     "receive from an endpoint passes an earlier message");
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_type, 1, "the earlier message is still queued");
  is(finish(&p).code + finish(&s).code, OK, "both senders return");
  start(&p, SEND, q.ep, 1, LONG_MS);
  until_blocked(VM, &p);
  start(&s, SEND, q.ep, 2, LONG_MS);
  until_blocked(VM, &s);
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_type, 1, "order of arrival: the first");
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_type, 2, "order of arrival: the second");
  finish(&p);
  finish(&s);

  group("signals");
  start(&p, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &p);
  is(finish_interrupted(&p, SIGUSR1).code, EMOLINTR, "a signal ends receive");
  start(&p, SEND, q.ep, 5, LONG_MS);
  until_blocked(VM, &p);
  is(finish_interrupted(&p, SIGUSR1).code, EMOLINTR, "a signal ends send");
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN,
     "the message of the interrupted send is withdrawn");
  start(&p, SENDREC, q.ep, 5, LONG_MS);
  until_blocked(VM, &p);
  is(finish_interrupted(&p, SIGUSR1).code, EMOLINTR, "a signal ends sendrec");
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN,
     "the request of the interrupted sendrec is withdrawn");

  group("deadlock");
  start(&p, SEND, q.ep, 1, LONG_MS);
  until_blocked(VM, &p);
  is(call(&q, SEND, p.ep, 1, LONG_MS).code, EMOLLOCKED, "a circle of two senders");
  start(&q, SEND, s.ep, 1, LONG_MS);
  until_blocked(VM, &q);
  is(call(&s, SEND, p.ep, 1, LONG_MS).code, EMOLLOCKED, "a circle of three senders");
  is(call(&s, SENDREC, p.ep, 1, LONG_MS).code, EMOLLOCKED, "a circle of three, with sendrec");
  is(call(&s, RECEIVE, q.ep, 0, LONG_MS).code, OK, "a sender and a receiver are no circle");
  finish(&q);
  is(call(&q, RECEIVE, p.ep, 0, LONG_MS).code, OK, "a second sender and receiver are no circle");
  finish(&p);

  group("death");
  start(&p, SEND, q.ep, 1, LONG_MS);
  start(&s, RECEIVE, q.ep, 0, LONG_MS);
  until_blocked(VM, &p);
  until_blocked(VM, &s);
  end(&q, SIGKILL);
  is(finish(&p).code, EMOLDSTDIED, "a sender to the dead process");
  is(finish(&s).code, EMOLSRCDIED, "a receiver from the dead process");
  q = bound(VM, other_nr);
  start(&s, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &s);
  is(call(&q, NOTIFY, p.ep, 0, 0).code, OK, "a process notifies, then dies");
  end(&q, SIGKILL);
  until_state(VM, q.ep, SLOT_FREE);
  is(call(&p, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, OK, "the dead notifies once");
  is(call(&p, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "and no more");
  is(call(&p, SEND, s.ep, 9, LONG_MS).code, OK, "receive from ANY goes on after a death");
  is(finish(&s).m.m_type, 9, "receive from ANY takes the next message");
  end(&p, SIGKILL);
  end(&s, SIGKILL);
}

static void watches(void) {
  struct result r;

  group("watches");
  struct peer s = bound(VM, server_nr), c = bound(VM, user_nr), t = bound(VM, other_nr);
  is(call(&s, KIND, 0, 0, 0).code, EMOLNOMSG, "nothing was taken");
  is(call(&s, WATCH, c.ep, 0, 0).code, OK, "watch an endpoint");
  is(call(&s, WATCH, s.ep, 0, 0).code, EMOLENDPOINT, "watch the caller");
  is(call(&s, WATCH_ALL, 2, 0, 0).code, EMOLINVAL, "neither on nor off");
  start(&s, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &s);
  end(&c, SIGKILL);
  r = finish(&s);
  ok(r.code == OK && M3_IS_NOTIFY(&r.m) && r.m.m_source == SYSTEM, "its death is reported");
  is(r.m.M3_DEATH_ENDPOINT, c.ep, "with the endpoint");
  is(r.m.M3_DEATH_CODE, EMOLSRCDIED, "and the code");
  is(call(&s, KIND, 0, 0, 0).code, M3_KIND_DEATH, "and the kind");
  is(call(&s, WATCH, c.ep, 0, 0).code, EMOLDSTDIED, "the endpoint has gone");
  is(call(&s, WATCH_ALL, 1, 0, 0).code, OK, "watch all");
  start(&t, SEND, s.ep, M3_NOTIFY_FROM(M3_ENDPOINT_P(t.ep)), LONG_MS);
  r = call(&s, RECEIVE, ANY, 0, LONG_MS);
  ok(M3_IS_NOTIFY(&r.m), "a message with the type of a notification");
  is(call(&s, KIND, 0, 0, 0).code, M3_KIND_MESSAGE, "is a message by its kind");
  finish(&t);
  is(call(&t, NOTIFY, s.ep, 0, 0).code, OK, "notify");
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).code, OK, "receive it");
  is(call(&s, KIND, 0, 0, 0).code, M3_KIND_NOTIFY, "is a notification by its kind");
  end(&t, SIGKILL);
  r = call(&s, RECEIVE, ANY, 0, LONG_MS);
  is(r.m.M3_DEATH_ENDPOINT, t.ep, "a client that no one named");
  c = bound(VM, user_nr);
  is(call(&s, WATCH_ALL, 0, 0, 0).code, OK, "watch no longer");
  is(call(&s, WATCH, c.ep, 0, 0).code, OK, "watch the next one");
  is(call(&s, UNWATCH, c.ep, 0, 0).code, OK, "and no longer");
  end(&c, SIGKILL);
  is(call(&s, RECEIVE, ANY, 0, SHORT_MS).code, EMOLTIMEDOUT, "no report of its death");
  end(&s, SIGKILL);
}

static void requests(void) {
  struct result r;

  group("sendrec");
  struct peer c = bound(VM, user_nr), s = bound(VM, server_nr), t = bound(VM, other_nr);
  start(&c, SENDREC, s.ep, 10, LONG_MS);
  r = call(&s, RECEIVE, ANY, 0, LONG_MS);
  is(r.m.m_source, c.ep, "the server receives the request");
  until_state(VM, c.ep, RECEIVING);
  is(call(&t, NOTIFY, c.ep, 0, 0).code, OK, "a notification during the wait");
  is(call(&s, NOTIFY, c.ep, 0, 0).code, OK, "a notification of the server during the wait");
  start(&t, SEND, c.ep, 66, LONG_MS);
  until_blocked(VM, &t);
  is(call(&s, SEND, c.ep, 11, LONG_MS).code, OK, "a send is an answer");
  r = finish(&c);
  is(r.code, OK, "sendrec returns");
  is(r.m.m_type, 11, "sendrec has the answer");
  r = call(&c, RECEIVE, ANY, 0, LONG_MS);
  ok(M3_IS_NOTIFY(&r.m) && r.m.m_source == s.ep, "then the notifications, lowest slot first");
  r = call(&c, RECEIVE, ANY, 0, LONG_MS);
  ok(M3_IS_NOTIFY(&r.m) && r.m.m_source == t.ep, "one notification in each call");
  is(call(&c, RECEIVE, ANY, 0, LONG_MS).m.m_type, 66, "then the message of the third process");
  finish(&t);
  is(call(&c, SENDREC, 28, 1, LONG_MS).code, EMOLDEADSRCDST, "no process at the destination");
  is(call(&c, SENDREC, s.ep, 1, TIMEOUT_NOWAIT).code, EMOLAGAIN, "a limit of 0");
  is(call(&c, SENDREC, s.ep, 1, SHORT_MS).code, EMOLTIMEDOUT,
     "the limit is over before the server takes the request");
  start(&s, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &s);
  is(call(&c, SENDREC, s.ep, 1, SHORT_MS).code, EMOLTIMEDOUT,
     "the limit is over after the server took the request");
  finish(&s);
  is(call(&s, REPLY, c.ep, 1, 0).code, EMOLPROCSTS, "and a late answer has no taker");
  is(call(&c, SENDREC, c.ep, 1, LONG_MS).code, EMOLENDPOINT, "notify the caller");
  is(call(&c, SENDREC, ANY, 1, LONG_MS).code, EMOLRANGE, "notify ANY");
  start(&c, SENDREC, t.ep, 1, LONG_MS);
  until_blocked(VM, &c);
  end(&t, SIGKILL);
  is(finish(&c).code, EMOLDSTDIED, "it died before it took the request");
  t = bound(VM, other_nr);
  start(&c, SENDREC, t.ep, 1, LONG_MS);
  is(call(&t, RECEIVE, ANY, 0, LONG_MS).code, OK, "it takes the request");
  end(&t, SIGKILL);
  is(finish(&c).code, EMOLSRCDIED, "it died after it took the request");

  group("rcvrqst and reply");
  t = bound(VM, other_nr);
  start(&t, SEND, s.ep, 7, LONG_MS);
  until_blocked(VM, &t);
  is(call(&s, RCVRQST, 0, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "a plain send is no request");
  start(&c, SENDREC, s.ep, 20, LONG_MS);
  r = call(&s, RCVRQST, 0, 0, LONG_MS);
  ok(r.code == OK && r.m.m_source == c.ep && r.m.m_type == 20, "rcvrqst takes a request");
  until_state(VM, c.ep, RECEIVING);
  is(call(&s, REPLY, t.ep, 1, 0).code, EMOLPROCSTS,
     "reply to a process that does not wait for the caller");
  is(call(&s, REPLY, c.ep, 21, 0).code, OK, "reply");
  is(finish(&c).m.m_type, 21, "the client has the answer");
  is(call(&s, REPLY, c.ep, 21, 0).code, EMOLPROCSTS, "reply twice");
  is(call(&c, NOTIFY, s.ep, 0, 0).code, OK, "notify");
  r = call(&s, RCVRQST, 0, 0, LONG_MS);
  ok(r.code == OK && M3_IS_NOTIFY(&r.m), "rcvrqst takes notifications");
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).m.m_type, 7, "the message of send stays for receive");
  finish(&t);
  is(call(&s, RCVRQST, 0, 0, SHORT_MS).code, EMOLTIMEDOUT, "rcvrqst: the limit is over");
  start(&c, RECEIVE, s.ep, 0, LONG_MS);
  until_blocked(VM, &c);
  is(call(&s, REPLY, c.ep, 22, 0).code, OK, "reply to a process that receives from the caller");
  is(finish(&c).m.m_type, 22, "the message arrives");

  group("reply_receive");
  start(&c, SENDREC, s.ep, 50, LONG_MS);
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).code, OK, "a request");
  until_state(VM, c.ep, RECEIVING);
  start(&t, SENDREC, s.ep, 51, LONG_MS);
  until_blocked(VM, &t);
  r = call(&s, REPLY_RECEIVE, c.ep, 52, LONG_MS);
  ok(r.code == OK && r.answered == 1, "an answer and the next request");
  ok(r.m.m_source == t.ep && r.m.m_type == 51, "the request of another client");
  is(finish(&c).m.m_type, 52, "the client has the answer");
  start(&c, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &c);
  is(call(&s, RELAY, c.ep, 53, LONG_MS).code, OK, "relay of a request that reply_receive took");
  is(finish(&c).m.m_source, t.ep, "the second server sees the client");
  is(call(&c, REPLY, t.ep, 54, 0).code, OK, "and answers it");
  is(finish(&t).m.m_type, 54, "the answer of the second server");
  r = call(&s, REPLY_RECEIVE, c.ep, 55, LONG_MS);
  is(r.code, EMOLPROCSTS, "the client does not wait");
  ok(r.answered == 0 && r.m.m_type == 55, "nothing was answered or received");
  is(call(&s, REPLY_RECEIVE, ANY, 55, LONG_MS).code, EMOLRANGE, "an answer to ANY");
  is(call(&s, REPLY_RECEIVE, 28, 55, LONG_MS).code, EMOLDSTDIED, "an answer to a free slot");
  start(&c, SENDREC, s.ep, 56, LONG_MS);
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).code, OK, "a request");
  is(call(&s, REPLY_RECEIVE_BAD, c.ep, 57, LONG_MS).code, EMOLADDRNOTAVAIL, "a bad address");
  until_state(VM, c.ep, RECEIVING);
  r = call(&s, REPLY_RECEIVE, c.ep, 58, TIMEOUT_NOWAIT);
  ok(r.code == EMOLAGAIN && r.answered == 1, "an answer, and a limit of 0");
  is(finish(&c).m.m_type, 58, "the bad address answered nothing");
  start(&c, SENDREC, s.ep, 59, LONG_MS);
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).code, OK, "a request");
  r = call(&s, REPLY_RECEIVE, c.ep, 60, SHORT_MS);
  ok(r.code == EMOLTIMEDOUT && r.answered == 1, "an answer, then the limit is over");
  is(finish(&c).m.m_type, 60, "the client has the answer");
  is(call(&c, NOTIFY, t.ep, 0, 0).code, OK, "notify");
  is(call(&t, REPLY_RECEIVE, c.ep, 61, LONG_MS).answered, 0, "no answer, and no notification");
  r = call(&t, RECEIVE, ANY, 0, LONG_MS);
  ok(M3_IS_NOTIFY(&r.m), "which is still there");

  group("set_wait");
  int waits[] = {M3_WAIT_SPIN, M3_WAIT_BLOCK, M3_WAIT_ADAPTIVE};
  for (int i = 0; i < 3; i++) {
    is(call(&c, SET_WAIT, waits[i], 0, 0).code, OK, "a wait of the client");
    is(call(&s, SET_WAIT, waits[i], 0, 0).code, OK, "the same wait of the server");
    start(&c, SENDREC, s.ep, 70, LONG_MS);
    is(call(&s, RECEIVE, ANY, 0, LONG_MS).m.m_type, 70, "a request");
    is(call(&s, REPLY_RECEIVE, c.ep, 71, SHORT_MS).answered, 1, "an answer");
    is(finish(&c).m.m_type, 71, "the client has the answer");
  }
  is(call(&c, SET_WAIT, 3, 0, 0).code, EMOLINVAL, "no such wait");
  is(m3_set_wait(M3_WAIT_SPIN), EMOLNOTBIND, "by a caller that is not bound");

  group("priorities");
  is(call(&c, SET_PRIORITY, 1, 0, 0).code, OK, "a priority of the client");
  is(call(&t, SET_PRIORITY, M3_PRIORITY_MAX, 0, 0).code, OK, "the highest one");
  is(call(&t, SET_PRIORITY, M3_PRIORITY_MAX + 1, 0, 0).code, EMOLBADRANGE, "a higher one");
  start(&c, SEND, s.ep, 75, LONG_MS);
  until_blocked(VM, &c);
  start(&t, SEND, s.ep, 76, LONG_MS);
  until_blocked(VM, &t);
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).m.m_type, 76, "the urgent message is first");
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).m.m_type, 75, "then the earlier one");
  finish(&c);
  finish(&t);
  is(call(&s, SET_INHERITANCE, M3_INHERIT_ORDER, 0, 0).code, OK, "a server that inherits");
  start(&c, SENDREC, s.ep, 77, LONG_MS);
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).m.m_type, 77, "a request");
  is(call(&s, REPLY, c.ep, 78, 0).code, OK, "its answer");
  is(finish(&c).m.m_type, 78, "the client has it");
  is(call(&s, SET_INHERITANCE, M3_INHERIT_NONE, 0, 0).code, OK, "and no more");
  is(call(&t, SET_PRIORITY, 0, 0, 0).code, OK, "back to 0");

  group("relay");
  is(call(&s, RELAY, t.ep, 1, LONG_MS).code, EMOLPROCSTS, "relay without a request");
  start(&c, SENDREC, s.ep, 30, LONG_MS);
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).code, OK, "a request");
  until_state(VM, c.ep, RECEIVING);
  is(call(&s, RELAY, t.ep, 31, TIMEOUT_NOWAIT).code, EMOLAGAIN, "a limit of 0");
  start(&t, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &t);
  is(call(&s, RELAY, t.ep, 31, LONG_MS).code, OK, "relay to a waiting server");
  r = finish(&t);
  ok(r.m.m_source == c.ep && r.m.m_type == 31, "the second server sees the client");
  is(call(&t, REPLY, c.ep, 32, 0).code, OK, "the second server replies to the client");
  r = finish(&c);
  ok(r.code == OK && r.m.m_type == 32, "the client has the answer of the second server");
  is(call(&s, RELAY, t.ep, 31, LONG_MS).code, EMOLPROCSTS, "relay after the request was relayed");
  end(&c, SIGKILL);
  end(&s, SIGKILL);
  end(&t, SIGKILL);
}

static void notifications(void) {
  struct result r;
  struct order o;

  group("notify");
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr), s = bound(VM, server_nr);
  is(call(&p, NOTIFY, q.ep, 0, 0).code, OK, "notify a running process");
  is(call(&p, NOTIFY, q.ep, 0, 0).code, OK, "again");
  is(call(&s, NOTIFY, q.ep, 0, 0).code, OK, "notify from another source");
  r = call(&q, RECEIVE, p.ep, 0, LONG_MS);
  is(r.code, OK, "receive from an endpoint takes only its notification");
  is(r.m.m_type, NOTIFY_FROM(user_nr), "its type is 0x1000 or-ed with the slot");
  is(r.m.m_source, p.ep, "the source of the message");
  is(r.m.NOTIFY_ARG | r.m.NOTIFY_ARG_HIGH, 0, "the argument of the notification is 0");
  ok(r.m.NOTIFY_TIMESTAMP.tv_sec > 1000000000, "the time of the notification");
  is(call(&q, RECEIVE, p.ep, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN,
     "two notifications of one source count once");
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_type, NOTIFY_FROM(server_nr),
     "the notification of the other source is remembered");
  start(&q, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &q);
  is(call(&p, NOTIFY, q.ep, 0, 0).code, OK, "notify a waiting process");
  is(finish(&q).m.m_source, p.ep, "the message arrives");
  start(&s, SEND, q.ep, 3, LONG_MS);
  until_blocked(VM, &s);
  call(&p, NOTIFY, q.ep, 0, 0);
  r = call(&q, RECEIVE, ANY, 0, LONG_MS);
  ok(M3_IS_NOTIFY(&r.m), "a notification precedes an older message");
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_type, 3, "then the older message");
  finish(&s);
  is(call(&p, NOTIFY, ANY, 0, 0).code, EMOLRANGE, "notify ANY");
  is(call(&p, NOTIFY, p.ep, 0, 0).code, EMOLENDPOINT, "notify the caller");
  is(call(&p, NOTIFY, 28, 0, 0).code, EMOLDSTDIED, "notify a free slot");

  group("src_notify");
  is(call_vm(&p, SRC_NOTIFY, 0, q.ep, CLOCK), OK, "in the name of an unbound task");
  r = call(&q, RECEIVE, ANY, 0, LONG_MS);
  ok(r.m.m_source == CLOCK && r.m.m_type == SYN_ALARM, "the source is the task");
  is(call_vm(&p, SRC_NOTIFY, 0, q.ep, user_nr), OK, "in the name of the caller's slot");
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_source, p.ep, "the source is the caller");
  is(call_vm(&p, SRC_NOTIFY, 0, q.ep, server_nr), EMOLPRIVILEGES, "in the name of another slot");

  group("ntfy_value");
  o = order(NTFY_VALUE);
  o.ep = q.ep;
  o.nr = user_nr;
  o.len = 5;
  is(call_order(&p, o).code, OK, "in the name of the caller's slot");
  r = call(&q, RECEIVE, ANY, 0, LONG_MS);
  ok(r.m.m_source == p.ep && r.m.NOTIFY_ARG == 5 && r.m.NOTIFY_ARG_HIGH == 0, "its argument");
  o.nr = CLOCK;
  o.len = -2;
  is(call_order(&p, o).code, OK, "in the name of a task");
  r = call(&q, RECEIVE, ANY, 0, LONG_MS);
  ok(r.m.m_source == CLOCK && r.m.NOTIFY_ARG == -2, "its argument, below 0");
  o.nr = server_nr;
  is(call_order(&p, o).code, EMOLPRIVILEGES, "in the name of another slot");
  o.nr = user_nr;
  o.ep = p.ep;
  is(call_order(&p, o).code, EMOLENDPOINT, "to the caller");
  o.ep = 28;
  is(call_order(&p, o).code, EMOLDSTDIED, "to a free slot");
  is(mnx_ntfy_value(CLOCK, q.ep, 1), EMOLNOTBIND, "by a caller that is not bound");

  group("hdw_notify");
  is(mnx_hdw_notify(VM, q.ep), OK, "by a caller that is not bound");
  r = call(&q, RECEIVE, ANY, 0, LONG_MS);
  ok(r.m.m_source == HARDWARE && r.m.m_type == HARD_INT, "the source is the hardware");
  is(mnx_hdw_notify(BIG, q.ep), EMOLBADVMID, "VM id out of range");
  is(mnx_hdw_notify(VM + 1, q.ep), EMOLVMNOTRUN, "VM not running");
  is(mnx_hdw_notify(VM, ANY), EMOLRANGE, "notify ANY");
  is(mnx_hdw_notify(VM, 28), EMOLDSTDIED, "notify a free slot");

  group("wakeup");
  start(&q, RECEIVE, ANY, 0, LONG_MS);
  until_blocked(VM, &q);
  is(mnx_wakeup(VM, q.ep), OK, "a process in receive from ANY");
  is(finish(&q).code, EMOLWOKENUP, "the receive ends with EMOLWOKENUP");
  is(mnx_wakeup(VM, q.ep), EMOLPROCRUN, "a running process");
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).code, EMOLWOKENUP, "the wakeup is remembered");
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "only once");
  start(&q, RECEIVE, p.ep, 0, LONG_MS);
  until_blocked(VM, &q);
  is(mnx_wakeup(VM, q.ep), EMOLPROCSTS, "a process in receive from an endpoint");
  is(call(&p, SEND, q.ep, 4, LONG_MS).code, OK, "the receive goes on");
  is(finish(&q).m.m_type, 4, "the receive has its message");
  call(&p, NOTIFY, q.ep, 0, 0);
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).code, EMOLWOKENUP, "a remembered wakeup comes first");
  r = call(&q, RECEIVE, ANY, 0, LONG_MS);
  ok(M3_IS_NOTIFY(&r.m), "then the notification");
  is(mnx_wakeup(BIG, q.ep), EMOLBADVMID, "VM id out of range");
  is(mnx_wakeup(VM + 1, q.ep), EMOLVMNOTRUN, "VM not running");
  is(mnx_wakeup(VM, 28), EMOLDSTDIED, "a free slot");

  group("m3_fd");
  is(m3_fd(), EMOLNOTBIND, "not bound");
  is(call(&q, POLL, 0, 0, TIMEOUT_NOWAIT).code, 0, "no message");
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "receive finds no message");
  o = order(POLL);
  o.ms = -1;
  start_order(&q, o);
  start(&p, SEND, q.ep, 8, LONG_MS);
  is(finish(&q).code, 1, "readable when a message waits");
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).m.m_type, 8, "receive takes the message");
  finish(&p);

  group("m3_peer");
  r = call(&q, PEER, 0, 0, 0);
  is(r.code, OK, "after a message");
  is(r.peer.endpoint, p.ep, "endpoint");
  is(r.peer.vmid, VM, "VM");
  is(r.peer.nodeid, NODE, "node");
  is(r.peer.pid, (int)p.pid, "process");
  is((int)r.peer.uid, (int)geteuid(), "user");
  is((int)r.peer.gid, (int)getegid(), "group");
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
  is(call(&p, SEND, q.ep, 1, SHORT_MS).code, EMOLTRAPDENIED, "send is denied");
  is(call(&p, NOTIFY, q.ep, 0, 0).code, OK, "notify is still allowed");
  o.priv = all;
  M3_MAP_CLEAR(o.priv.s_ipc_to, server_nr);
  is(mnx_setpriv(VM, p.ep, &o.priv), OK, "setpriv: not to that server");
  is(call(&p, SEND, s.ep, 1, SHORT_MS).code, EMOLCALLDENIED, "send to the denied server");
  is(call(&p, NOTIFY, s.ep, 0, 0).code, EMOLCALLDENIED, "notify the denied server");
  is(call(&p, SEND, q.ep, 1, SHORT_MS).code, EMOLTIMEDOUT, "send to another partner is allowed");
  o.priv.s_warn = PM_PROC_NR + 1;
  is(mnx_setpriv(VM, p.ep, &o.priv), EMOLNOSYS, "setpriv: a process to warn");
  is(mnx_setpriv(VM, p.ep, &all), OK, "setpriv: everything again");
  is(mnx_getpriv(VM, 28, &o.priv), EMOLDSTDIED, "getpriv of a free slot");
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
  start_order(&p, o);
  o = order(RECEIVE_LONG);
  o.ep = ANY;
  o.len = M3_LONG_MAX;
  r = call_order(&q, o);
  pattern(want, sizeof want);
  is(r.code, OK, "M3_LONG_MAX bytes");
  is(r.m.m_type, 50, "the type of the message");
  is((int)r.len, M3_LONG_MAX, "the length of the long part");
  ok(r.sum == sum_of(want, sizeof want), "the bytes of the long part");
  is(finish(&p).code, OK, "the sender returns");
  o = order(SEND_LONG);
  o.ep = q.ep;
  o.len = (size_t)M3_LARGE_MAX + 1;
  is(call_order(&p, o).code, EMOLMSGSIZE, "more than M3_LARGE_MAX bytes");
  o.len = 100;
  start_order(&p, o);
  o = order(RECEIVE_LONG);
  o.ep = p.ep;
  o.len = 10;
  r = call_order(&q, o);
  is(r.code, EMOLMSGSIZE, "more bytes than the buffer has");
  is((int)r.len, 100, "*len is the whole length");
  is(finish(&p).code, OK, "the sender of a cut message returns");
  start(&p, SEND, q.ep, 51, LONG_MS);
  r = call_order(&q, o);
  ok(r.code == OK && r.len == 0 && r.m.m_type == 51, "a plain message has no bytes");
  is(finish(&p).code, OK, "the sender returns");
  o = order(SEND_LONG);
  o.ep = q.ep;
  o.len = 5;
  start_order(&p, o);
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).code, EMOLMSGSIZE, "a plain receive of a long message");
  finish(&p);

  static const size_t large[] = {M3_LONG_MAX + 1, 4096, 100001, 300000};
  for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
    o = order(SENDREC_LONG);
    o.ep = q.ep;
    o.len = large[i];
    start_order(&p, o);
    o = order(RCVRQST_LONG);
    o.len = 300000;
    r = call_order(&q, o);
    is((int)r.len, (int)large[i], "a large request");
    unsigned int sum = r.sum;
    o = order(REPLY_LONG);
    o.ep = p.ep;
    o.len = large[i];
    is(call_order(&q, o).code, OK, "reply with a large answer");
    r = finish(&p);
    ok(r.code == OK && r.len == large[i] && r.sum == sum, "the client has the same bytes");
  }

  o = order(SENDREC_LONG);
  o.ep = q.ep;
  o.len = 300;
  start_order(&p, o);
  o = order(RCVRQST_LONG);
  o.len = M3_LONG_MAX;
  r = call_order(&q, o);
  is((int)r.len, 300, "a long request");
  until_state(VM, p.ep, RECEIVING);
  o = order(REPLY_LONG);
  o.ep = p.ep;
  o.len = 200;
  is(call_order(&q, o).code, OK, "reply with a long answer");
  r = finish(&p);
  pattern(want, 200);
  ok(r.code == OK && r.len == 200 && r.sum == sum_of(want, 200), "the client has the long answer");
  end(&p, SIGKILL);
  end(&q, SIGKILL);
}

/* The forms without a time limit. */
static void plain_forms(void) {
  struct order o = order(WAIT4NAME);

  group("plain forms");
  o.ms = TIMEOUT_FOREVER;
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr), r = unbound();
  start(&p, SEND, q.ep, 1, TIMEOUT_FOREVER);
  is(call(&q, RECEIVE, p.ep, 0, TIMEOUT_FOREVER).code, OK, "receive");
  is(finish(&p).code, OK, "send");
  start(&p, SENDREC, q.ep, 2, TIMEOUT_FOREVER);
  is(call(&q, RCVRQST, 0, 0, TIMEOUT_FOREVER).code, OK, "rcvrqst");
  until_state(VM, p.ep, RECEIVING);
  is(call(&q, REPLY, p.ep, 3, TIMEOUT_FOREVER).code, OK, "reply");
  is(finish(&p).code, OK, "sendrec");
  start(&r, WAIT4BIND, 0, 0, TIMEOUT_FOREVER);
  start(&q, WAIT4BINDEP, server_nr, 0, TIMEOUT_FOREVER);
  is(mnx_lclbind(VM, (int)r.pid, server_nr), server_nr, "lclbind");
  is(finish(&r).code, server_nr, "wait4bind");
  is(finish(&q).code, server_nr, "wait4bindep");
  strcpy(o.text, "plain");
  start_order(&q, o);
  is(call_name(&p, NAME_ATTACH, "plain", 0), OK, "name_attach");
  is(finish(&q).code, p.ep, "wait4name");
  start(&p, SENDREC, q.ep, 4, TIMEOUT_FOREVER);
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_FOREVER).code, OK, "a request");
  until_state(VM, p.ep, RECEIVING);
  start(&q, RELAY, server_nr, 5, TIMEOUT_FOREVER);
  is(call(&r, RECEIVE, ANY, 0, TIMEOUT_FOREVER).m.m_source, p.ep, "relay: the first client");
  is(finish(&q).code, OK, "relay");
  is(call(&r, SEND, p.ep, 6, TIMEOUT_FOREVER).code, OK, "the answer");
  is(finish(&p).m.m_type, 6, "the message arrives");
  o = order(SEND_LONG);
  o.ep = q.ep;
  o.len = 64;
  o.ms = TIMEOUT_FOREVER;
  start_order(&p, o);
  o.op = RECEIVE_LONG;
  o.ep = ANY;
  is((int)call_order(&q, o).len, 64, "receive_long");
  is(finish(&p).code, OK, "send_long");
  o.op = SENDREC_LONG;
  o.ep = q.ep;
  start_order(&p, o);
  o.op = RCVRQST_LONG;
  is((int)call_order(&q, o).len, 64, "rcvrqst_long");
  until_state(VM, p.ep, RECEIVING);
  o.op = REPLY_LONG;
  o.ep = p.ep;
  is(call_order(&q, o).code, OK, "reply_long");
  is((int)finish(&p).len, 64, "sendrec_long");
  start(&q, WAIT4UNBIND, p.ep, 0, TIMEOUT_FOREVER);
  end(&p, SIGKILL);
  is(finish(&q).code, OK, "wait4unbind");
  is(mnx_unbind(VM, q.ep), OK, "unbind, by one that is not bound");
  int status = end(&q, 0);
  ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE, "it gets SIGPIPE");
  end(&r, SIGKILL);
}

#endif
