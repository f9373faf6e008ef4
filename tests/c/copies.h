/*
 * Conformance: vcopy, what is lent, grants. Part of conformance.c, which includes it.
 */
#ifndef M3IPC_TESTS_COPIES_H
#define M3IPC_TESTS_COPIES_H

#include "harness.h"

/* A copy that a peer is told to make. */
static struct result copied(struct peer *peer, int src, int dst, size_t bytes, long ms) {
  struct order o = order(VCOPY);
  o.ep = src;
  o.nr = dst;
  o.len = bytes;
  o.ms = ms;
  tell_order(peer, o);
  return hear(peer);
}

static struct result with_len(struct peer *peer, enum op op, int ep, int nr, size_t len) {
  struct order o = order(op);
  o.ep = ep;
  o.nr = nr;
  o.len = len;
  tell_order(peer, o);
  return hear(peer);
}

static void copies(void) {
  static const size_t sizes[] = {1, 63, 4096, 4097, 65536, 65537, 300000};
  struct result r;
  unsigned int sum = 0;
  proc_usr_t gone;

  group("vcopy");
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr), s = bound(VM, server_nr);
  tell(&p, RECEIVE, s.ep, 0, LONG_MS);
  until_blocked(VM, &p);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    sum = with_len(&s, FILL, 0, 0, sizes[i]).sum;
    is(copied(&s, SELF, p.ep, sizes[i], i % 2 ? LONG_MS : TIMEOUT_FOREVER).code, OK, "to one that receives");
    is((int)with_len(&s, COPIED, 0, 0, 0).len, (int)sizes[i], "all bytes, says m3_copied");
  }
  is(call(&s, SEND, p.ep, 1, LONG_MS).code, OK, "the party goes on");
  is(hear(&p).code, OK, "with its receive");
  is((int)with_len(&p, SUM, 0, 0, 300000).sum, (int)sum, "the bytes are there");

  sum = with_len(&p, FILL, 0, 0, 5000).sum;
  tell(&p, SENDREC, s.ep, 1, LONG_MS);
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).m.m_source, p.ep, "a request");
  r = copied(&s, p.ep, s.ep, 5000, LONG_MS);
  is(r.code, OK, "from the client, by one's own endpoint");
  is((int)r.sum, (int)sum, "its bytes");
  tell(&q, RECEIVE, s.ep, 0, LONG_MS);
  until_blocked(VM, &q);
  is(copied(&s, p.ep, q.ep, 5000, LONG_MS).code, OK, "between two others");
  is(copied(&s, p.ep, q.ep, 0, LONG_MS).code, OK, "nothing");
  is(copied(&s, p.ep, p.ep, 8, LONG_MS).code, EMOLENDPOINT, "twice the same");
  is(copied(&s, SELF, s.ep, 8, LONG_MS).code, EMOLENDPOINT, "oneself twice");
  is(copied(&s, ANY, SELF, 8, LONG_MS).code, EMOLENDPOINT, "ANY");
  is(copied(&s, SELF, NONE, 8, LONG_MS).code, EMOLENDPOINT, "NONE");
  is(copied(&s, SELF, p.ep, (size_t)-1, LONG_MS).code, EMOLRANGE, "a negative size");
  is(call(&s, SEND, q.ep, 1, LONG_MS).code + hear(&q).code, OK, "the destination goes on");
  is((int)with_len(&q, SUM, 0, 0, 5000).sum, (int)sum, "the bytes are there");
  is(call(&s, REPLY, p.ep, 1, LONG_MS).code + hear(&p).code, OK, "so does the client");
  is(copied(&s, SELF, p.ep, 8, LONG_MS).code, EMOLPROCSTS, "to one that runs");
  is(copied(&s, p.ep, SELF, 8, LONG_MS).code, EMOLPROCSTS, "from one that runs");

  group("loans and grants");
  sum = with_len(&p, FILL, 0, 0, 70000).sum;
  struct order o = order(LENT);
  o.ep = s.ep;
  o.len = 70000;
  tell_order(&p, o);
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).m.m_source, p.ep, "a request with loans");
  r = copied(&s, p.ep, SELF, 70000, LONG_MS);
  is(r.code, OK, "what was lent is copied");
  is((int)r.sum, (int)sum, "its bytes");
  is(call(&s, REPLY, p.ep, 7, LONG_MS).code, OK, "the answer");
  is(hear(&p).m.m_type, 7, "comes to the lender");
  is(with_len(&p, GRANT, s.ep, 4, 1000).code, EMOLINVAL, "a grant of no known right");
  r = with_len(&p, GRANT, s.ep, M3_READ, 1000);
  is(r.code, OK, "a grant");
  size_t grant = r.len;
  tell(&p, RECEIVE, s.ep, 0, LONG_MS);
  until_blocked(VM, &p);
  is(with_len(&s, FROM_GRANT, p.ep, 900, grant).code, OK, "is copied to its end");
  is(with_len(&s, FROM_GRANT, p.ep, 901, grant).code, EMOLRANGE, "not beyond");
  is(with_len(&q, FROM_GRANT, p.ep, 900, grant).code, EMOLPERM, "not by others");
  is(call(&s, SEND, p.ep, 1, LONG_MS).code + hear(&p).code, OK, "the granter goes on");
  is(with_len(&p, REVOKE, 0, 0, grant).code, OK, "revoke");
  is(with_len(&p, REVOKE, 0, 0, grant).code, EMOLBADVALUE, "once");
  tell(&p, RECEIVE, s.ep, 0, LONG_MS);
  until_blocked(VM, &p);
  is(with_len(&s, FROM_GRANT, p.ep, 8, grant).code, EMOLPERM, "what was revoked is not copied");
  end(&p, SIGKILL);
  while (mnx_getprocinfo(VM, user_nr, &gone) == OK && !(gone.p_rts_flags & SLOT_FREE)) poll(NULL, 0, 1);
  is(copied(&s, SELF, p.ep, 8, LONG_MS).code, EMOLDSTDIED, "to a dead one");
  is(copied(&s, p.ep, SELF, 8, LONG_MS).code, EMOLSRCDIED, "from a dead one");
  end(&q, SIGKILL);
  end(&s, SIGKILL);
}

#endif
