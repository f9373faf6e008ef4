/*
 * Conformance: the longest long part that an endpoint takes. Part of conformance.c.
 */
#ifndef M3IPC_TESTS_LIMITS_H
#define M3IPC_TESTS_LIMITS_H

#include "harness.h"

static void limits(void) {
  struct result r;
  struct order o;

  group("receive limit");
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr);
  o = order(SET_LIMIT);
  o.len = 4096;
  is(call_order(&q, o).code, OK, "a receive limit");
  struct peer nobody = unbound();
  is(call_order(&nobody, o).code, EMOLNOTBIND, "by a caller that is not bound");
  end(&nobody, SIGKILL);
  o = order(SEND_LONG);
  o.ep = q.ep;
  o.len = 4097;
  is(call_order(&p, o).code, EMOLMSGSIZE, "more than the receiver takes");
  o.op = SENDREC_LONG;
  is(call_order(&p, o).code, EMOLMSGSIZE, "the same as a request");
  o.len = 4096;
  start_order(&p, o);
  o = order(RCVRQST_LONG);
  o.len = 300000;
  r = call_order(&q, o);
  is((int)r.len, 4096, "as much as it takes, and nothing before");
  o = order(REPLY_LONG);
  o.ep = p.ep;
  o.len = 300000;
  is(call_order(&q, o).code, OK, "the client takes more");
  is(finish(&p).code, OK, "the client returns");
  end(&p, SIGKILL);
  end(&q, SIGKILL);
}

#endif
