/*
 * Conformance: pulses, timers, and copies by an offset into loans. Part of conformance.c.
 */
#ifndef M3IPC_TESTS_PULSES_H
#define M3IPC_TESTS_PULSES_H

#include "harness.h"

static void pulses(void) {
  struct result r;

  group("pulses");
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr);
  for (int i = 0; i < M3_PULSES_MAX; i++)
    is(with_len(&p, PULSE, q.ep, 255 - i, (size_t)i << 40).code, OK, "a pulse");
  is(with_len(&p, PULSE, q.ep, 1, 1).code, EMOLAGAIN, "a pulse to a full queue");
  is(call(&p, PENDING, q.ep, 0, 0).code, M3_PULSES_MAX, "all of them wait");
  call(&p, NOTIFY, q.ep, 0, 0);
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_type, NOTIFY_FROM(user_nr), "a notification is first");
  for (int i = 0; i < M3_PULSES_MAX; i++) {
    r = call(&q, RECEIVE, i % 2 ? ANY : p.ep, 0, LONG_MS);
    is(r.m.m_type, M3_PULSE, "the type of a pulse");
    is(r.m.m_source, p.ep, "its source");
    is(r.m.M3_PULSE_CODE, 255 - i, "its code");
    ok(r.m.M3_PULSE_VALUE == (uint64_t)i << 40 && r.m.M3_PULSE_COUNT == 1, "its value");
    is(call(&q, KIND, 0, 0, 0).code, M3_KIND_PULSE, "its kind");
  }
  is(call(&q, RECEIVE, ANY, 0, TIMEOUT_NOWAIT).code, EMOLAGAIN, "the refused pulse never comes");
  is(call(&p, PENDING, q.ep, 0, 0).code, 0, "no pulse waits");
  start(&q, RCVRQST, 0, 0, LONG_MS);
  until_blocked(VM, &q);
  is(with_len(&p, PULSE, q.ep, 0, 7).code, OK, "a pulse to a waiting process");
  is((int)finish(&q).m.M3_PULSE_VALUE, 7, "rcvrqst takes it");
  is(with_len(&p, PULSE, q.ep, 256, 0).code, EMOLINVAL, "a code out of range");
  is(with_len(&p, PULSE, q.ep, -1, 0).code, EMOLINVAL, "a negative code");
  is(with_len(&p, PULSE, p.ep, 1, 0).code, EMOLENDPOINT, "a pulse to the caller");
  is(with_len(&p, PULSE, ANY, 1, 0).code, EMOLRANGE, "a pulse to ANY");

  group("timers");
  int timer = with_len(&q, TIMER, 0, 3, 1000000).code;
  ok(timer > 0, "a timer of a millisecond");
  r = call(&q, RECEIVE, ANY, 0, LONG_MS);
  is(r.m.m_source, q.ep, "its pulse comes from the caller");
  is(r.m.M3_PULSE_CODE + (int)r.m.M3_PULSE_VALUE, 3 + 9, "code and value");
  is(with_len(&q, CANCEL, 0, timer, 0).code, EMOLBADVALUE, "it has ended");
  timer = with_len(&q, TIMER, 0, 3, (size_t)1 << 60).code;
  is(call(&q, RECEIVE, ANY, 0, SHORT_MS).code, EMOLTIMEDOUT, "a timer of years");
  is(with_len(&q, CANCEL, 0, timer, 0).code, OK, "it ends");
  is(with_len(&q, TIMER, 0, 256, 1).code, EMOLINVAL, "a code out of range");

  group("offsets into loans");
  unsigned int sum = with_len(&p, FILL, 0, 0, 5000).sum;
  struct order o = order(LENT);
  o.ep = q.ep;
  o.len = 5000;
  o.ms = LONG_MS;
  start_order(&p, o);
  is(call(&q, RECEIVE, ANY, 0, LONG_MS).m.m_source, p.ep, "a request with loans");
  r = with_len(&q, MSG_READ, p.ep, 0, 5000);
  is(r.code, OK, "read all that was lent");
  is((int)r.sum, (int)sum, "the caller has the bytes");
  is(with_len(&q, MSG_READ, p.ep, 4999, 2).code, EMOLRANGE, "read beyond the loan");
  is(with_len(&q, FILL, 0, 0, 100).code, OK, "bytes to write");
  is(with_len(&q, MSG_WRITE, p.ep, 4900, 100).code, OK, "write the end of the other loan");
  is(with_len(&q, MSG_WRITE, p.ep, 4901, 100).code, EMOLRANGE, "write beyond it");
  is(call(&q, REPLY, p.ep, 7, LONG_MS).code + finish(&p).code, OK, "the client has its answer");
  is(with_len(&q, MSG_READ, p.ep, 0, 1).code, EMOLPROCSTS, "the client runs");
  end(&p, SIGKILL);
  end(&q, SIGKILL);
}

#endif
