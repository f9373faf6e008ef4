/*
 * Conformance: vcopy, loans, grants. Part of conformance.c.
 */
#ifndef M3IPC_TESTS_COPIES_H
#define M3IPC_TESTS_COPIES_H

#include "harness.h"

/* Lets a peer make a copy. */
static struct result copied(struct peer *peer, int src, int dst, size_t bytes, long ms) {
  struct order o = order(VCOPY);
  o.ep = src;
  o.nr = dst;
  o.len = bytes;
  o.ms = ms;
  start_order(peer, o);
  return finish(peer);
}

static struct result with_len(struct peer *peer, enum op op, int ep, int nr, size_t len) {
  struct order o = order(op);
  o.ep = ep;
  o.nr = nr;
  o.len = len;
  start_order(peer, o);
  return finish(peer);
}

static void copies(void) {
  static const size_t sizes[] = {1, 63, 4096, 4097, 65536, 65537, 300000};
  struct result r;
  unsigned int sum = 0;
  proc_usr_t gone;

  group("vcopy");
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr), s = bound(VM, server_nr);
  start(&p, RECEIVE, s.ep, 0, LONG_MS);
  until_blocked(VM, &p);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    sum = with_len(&s, FILL, 0, 0, sizes[i]).sum;
    is(copied(&s, SELF, p.ep, sizes[i], i % 2 ? LONG_MS : TIMEOUT_FOREVER).code, OK,
       "copy to a receiver");
    is((int)with_len(&s, COPIED, 0, 0, 0).len, (int)sizes[i], "m3_copied returns all bytes");
  }
  is(call(&s, SEND, p.ep, 1, LONG_MS).code, OK, "a message ends the receive of the party");
  is(finish(&p).code, OK, "the party receives the message");
  is((int)with_len(&p, SUM, 0, 0, 300000).sum, (int)sum, "the party has the bytes");

  sum = with_len(&p, FILL, 0, 0, 5000).sum;
  start(&p, SENDREC, s.ep, 1, LONG_MS);
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).m.m_source, p.ep, "a request");
  r = copied(&s, p.ep, s.ep, 5000, LONG_MS);
  is(r.code, OK, "copy from a client to the caller's endpoint");
  is((int)r.sum, (int)sum, "the caller has the bytes");
  start(&q, RECEIVE, s.ep, 0, LONG_MS);
  until_blocked(VM, &q);
  is(copied(&s, p.ep, q.ep, 5000, LONG_MS).code, OK, "copy between two other processes");
  is(copied(&s, p.ep, q.ep, 0, LONG_MS).code, OK, "copy of 0 bytes");
  is(copied(&s, p.ep, p.ep, 8, LONG_MS).code, EMOLENDPOINT, "source and destination are the same");
  is(copied(&s, SELF, s.ep, 8, LONG_MS).code, EMOLENDPOINT, "the caller on both sides");
  is(copied(&s, ANY, SELF, 8, LONG_MS).code, EMOLENDPOINT, "ANY");
  is(copied(&s, SELF, NONE, 8, LONG_MS).code, EMOLENDPOINT, "NONE");
  is(copied(&s, SELF, p.ep, (size_t)-1, LONG_MS).code, EMOLRANGE, "a negative length");
  is(call(&s, SEND, q.ep, 1, LONG_MS).code + finish(&q).code, OK,
     "the destination receives a message");
  is((int)with_len(&q, SUM, 0, 0, 5000).sum, (int)sum, "the party has the bytes");
  is(call(&s, REPLY, p.ep, 1, LONG_MS).code + finish(&p).code, OK,
     "the client receives its answer");
  is(copied(&s, SELF, p.ep, 8, LONG_MS).code, EMOLPROCSTS, "copy to a running process");
  is(copied(&s, p.ep, SELF, 8, LONG_MS).code, EMOLPROCSTS, "copy from a running process");

  group("loans and grants");
  sum = with_len(&p, FILL, 0, 0, 70000).sum;
  struct order o = order(LENT);
  o.ep = s.ep;
  o.len = 70000;
  start_order(&p, o);
  is(call(&s, RECEIVE, ANY, 0, LONG_MS).m.m_source, p.ep, "a request with loans");
  r = copied(&s, p.ep, SELF, 70000, LONG_MS);
  is(r.code, OK, "copy of lent memory");
  is((int)r.sum, (int)sum, "the caller has the bytes");
  is(call(&s, REPLY, p.ep, 7, LONG_MS).code, OK, "the server answers the lender");
  is(finish(&p).m.m_type, 7, "the lender has the answer");
  is(with_len(&p, GRANT, s.ep, 4, 1000).code, EMOLINVAL, "a grant with unknown rights");
  r = with_len(&p, GRANT, s.ep, M3_READ, 1000);
  is(r.code, OK, "a grant");
  size_t grant = r.len;
  start(&p, RECEIVE, s.ep, 0, LONG_MS);
  until_blocked(VM, &p);
  is(with_len(&s, FROM_GRANT, p.ep, 900, grant).code, OK, "copy up to the end of the grant");
  is(with_len(&s, FROM_GRANT, p.ep, 901, grant).code, EMOLRANGE,
     "copy beyond the end of the grant");
  is(with_len(&q, FROM_GRANT, p.ep, 900, grant).code, EMOLPERM,
     "copy by a process without the grant");
  is(call(&s, SEND, p.ep, 1, LONG_MS).code + finish(&p).code, OK, "the granter receives a message");
  is(with_len(&p, REVOKE, 0, 0, grant).code, OK, "revoke");
  is(with_len(&p, REVOKE, 0, 0, grant).code, EMOLBADVALUE, "a second revoke");
  start(&p, RECEIVE, s.ep, 0, LONG_MS);
  until_blocked(VM, &p);
  is(with_len(&s, FROM_GRANT, p.ep, 8, grant).code, EMOLPERM, "copy of a revoked grant");
  end(&p, SIGKILL);
  while (mnx_getprocinfo(VM, user_nr, &gone) == OK && !(gone.p_rts_flags & SLOT_FREE))
    poll(NULL, 0, 1);
  is(copied(&s, SELF, p.ep, 8, LONG_MS).code, EMOLDSTDIED, "copy to a dead process");
  is(copied(&s, p.ep, SELF, 8, LONG_MS).code, EMOLSRCDIED, "copy from a dead process");
  end(&q, SIGKILL);
  end(&s, SIGKILL);
}

#endif
