/*
 * Conformance: areas, blocks that change hands, AnT's six calls. Part of conformance.c, which includes it.
 */
#ifndef M3IPC_TESTS_AREAS_H
#define M3IPC_TESTS_AREAS_H

#include "harness.h"

/* A call about an area or a block; len is a size or the number of an address. */
static struct result area_call(struct peer *peer, enum op op, int ep, int nr, size_t len) {
  struct order o = order(op);
  o.vm = VM;
  o.ep = ep;
  o.nr = nr;
  o.len = len;
  return call_order(peer, o);
}

/* From p to q, who takes it: how both ended, and the block. */
static struct result given(struct peer *p, struct peer *q, enum op op, size_t block) {
  struct order o = order(op);
  o.ep = q->ep;
  o.len = block;
  o.ms = op == SHARE_BLOCK ? TIMEOUT_FOREVER : LONG_MS;
  tell_order(p, o);
  struct result r = call(q, RECEIVE, p->ep, 0, LONG_MS);
  if (op != SENDREC_BLOCK && r.code == OK) r = hear(p);
  return r.code == OK ? area_call(q, TAKE, 0, 0, 0) : r;
}

static void blocks(void) {
  struct result r;

  group("areas and blocks");
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr), s = bound(VM, server_nr);
  is(area_call(&p, AREA, ANY, 64, 1 << 20).code, EMOLINVAL, "flags that are none");
  is(area_call(&p, AREA, ANY, 0, 0).code, EMOLBADRANGE, "no bytes");
  is(area_call(&p, ATTACH, 0, 999, 0).code, EMOLNONODE, "an area that is not there");
  int area = area_call(&p, AREA, ANY, 0, 1 << 20).code;
  ok(area > 0, "an area has a number: %d", area);
  is(area_call(&p, ALLOC, area, 9, 100).code, EMOLINVAL, "a block of no known kind");
  is(area_call(&p, ALLOC, area, 0, 2 << 20).code, EMOLALLOCMEM, "more than the area holds");
  is(area_call(&q, ALLOC, area, 0, 100).code, EMOLNONODE, "in an area that is not attached");
  r = area_call(&p, ALLOC, area, 0, 5000);
  is(r.code, OK, "a block");
  size_t block = r.len;
  is(area_call(&p, WRITE, 0, 7, block).code, OK, "is written");
  is(area_call(&p, FREE, 0, 0, block + 64).code, EMOLADDRNOTAVAIL, "an address that is no block");
  is(area_call(&q, TAKE, 0, 0, 0).code, EMOLNOMSG, "no block came");
  r = given(&p, &q, SEND_BLOCK, block);
  ok(r.code == OK && r.len == block && r.sum == 5000, "it is the receiver's, at the same address");
  is(area_call(&q, READ, 0, 0, block).code, 7, "with what was written");
  is(area_call(&p, FREE, 0, 0, block).code, EMOLADDRNOTAVAIL, "the giver has it no longer");
  r = given(&q, &s, SEND_BLOCK, block);
  ok(r.code == OK && r.len == block, "it goes on to a third");
  r = given(&s, &p, SENDREC_BLOCK, block);
  ok(r.code == OK && r.len == block, "and home, with a request");
  is(area_call(&p, WRITE, 0, 8, block).code, OK, "whose server writes in it");
  is(area_call(&p, REPLY_BLOCK, s.ep, 0, block).code, OK, "and answers with it");
  is(hear(&s).code, OK, "to the client");
  is((int)area_call(&s, TAKE, 0, 0, 0).sum, 5000, "who takes it");
  is(area_call(&s, READ, 0, 0, block).code, 8, "with what the server wrote");
  is(area_call(&s, FREE, 0, 0, block).code, OK, "and frees it");

  struct order o = order(SEND_BLOCK);
  o.ep = q.ep;
  o.len = area_call(&p, ALLOC, area, M3_BLOCK_LONG, 100).len;
  o.ms = TIMEOUT_NOWAIT;
  is(call_order(&p, o).code, EMOLAGAIN, "to one that does not receive");
  is(area_call(&p, WRITE, 0, 9, o.len).code, OK, "it is the caller's still");
  is(given(&p, &q, SHARE_BLOCK, o.len).code, OK, "a block to read");
  is(given(&p, &s, SHARE_BLOCK, o.len).code, OK, "for two");
  is(area_call(&q, READ, 0, 0, o.len).code + area_call(&s, READ, 0, 0, o.len).code, 18, "both read it");
  is(area_call(&p, RECLAIM, 0, 0, o.len).code, EMOLBUSY, "it is not the caller's alone");
  is(area_call(&q, FREE, 0, 0, o.len).code, OK, "one is done");
  is(area_call(&p, RECLAIM, 0, 0, o.len).code, EMOLBUSY, "the other is not");
  is(area_call(&s, FREE, 0, 0, o.len).code, OK, "the other is done");
  is(area_call(&p, RECLAIM, 0, 0, o.len).code, OK, "it is the caller's alone");
  is(area_call(&p, DETACH, 0, area, 0).code, OK, "detach");
  is(area_call(&p, ALLOC, area, 0, 100).code, EMOLNONODE, "once");

  area = area_call(&p, AREA, q.ep, 0, 1 << 20).code;
  block = area_call(&p, ALLOC, area, 0, 100).len;
  is(area_call(&s, ATTACH, 0, area, 0).code, EMOLPRIVILEGES, "the area of a pair, by a third");
  is(area_call(&p, SEND_BLOCK, s.ep, 0, block).code, EMOLPRIVILEGES, "its block, to a third");
  is(area_call(&p, WRITE, 0, 5, block).code, OK, "the last writing");
  is(area_call(&p, RENOUNCE, 0, area, 0).code, EMOLBUSY, "no renouncing while a block is written");
  is(given(&p, &q, SEND_BLOCK, block).code, OK, "the block goes");
  is(area_call(&p, RENOUNCE, 0, area, 0).code, OK, "its giver renounces");
  is(area_call(&p, SEAL, 0, area, 0).code, EMOLBUSY, "no seal while the other can write");
  is(area_call(&q, FREE, 0, 0, block).code, OK, "the other frees it");
  is(area_call(&q, RENOUNCE, 0, area, 0).code, OK, "and renounces");
  is(area_call(&q, SEAL, 0, area, 0).code, OK, "sealed");

  o = order(AREA_SET);
  o.vm = s.ep;
  o.ep = q.ep;
  o.nr = M3_AREA_OWNER_WRITES;
  o.len = 1 << 20;
  area = call_order(&p, o).code;
  ok(area > 0, "an area of a set, in which its owner writes");
  is(area_call(&q, ATTACH, 0, area, 0).code, OK, "one of them attaches it");
  is(area_call(&q, ALLOC, area, 0, 100).code, EMOLPRIVILEGES, "and does not allocate");
  block = area_call(&p, ALLOC, area, 0, 100).len;
  is(area_call(&p, WRITE, 0, 3, block).code, OK, "the owner writes");
  is(given(&p, &q, SHARE_BLOCK, block).code, OK, "and shares");
  is(area_call(&q, READ, 0, 0, block).code, 3, "the other reads");

  group("AnT's calls");
  r = area_call(&p, CREATEICA, 0, ICA_SHORT, 3000);
  block = r.len;
  ok(block != 0, "createica");
  size_t far = area_call(&p, CREATEICA, 0, ICA_LONG, 3000).len;
  ok(far > block, "what lives long lies behind");
  ok(area_call(&p, CREATEICA, 0, 5, 3000).len == 0, "a flag that is none");
  ok(area_call(&p, GETMEM, 1, ICA_SHORT, 100).len == 0, "an operation that is none");
  size_t got = area_call(&p, GETMEM, 0, ICA_SHORT, 100).len;
  ok(got != 0, "getmem");
  is(area_call(&p, FREEMEM, 0, 0, got).code, OK, "freemem");
  is(area_call(&p, FREEMEM, 0, 0, got).code, EMOLADDRNOTAVAIL, "once");
  is(area_call(&p, WRITE, 0, 6, block).code, OK, "written");
  is(area_call(&q, ATTACHICA, 0, 4, block).code, EMOLINVAL, "a protection that is none");
  is(area_call(&q, ATTACHICA, 0, ICA_READ, 64).code, EMOLADDRNOTAVAIL, "where no area is");
  is(area_call(&q, ATTACHICA, 0, ICA_READ | ICA_WRITE, block).code, OK, "attachica by another");
  is(area_call(&q, READ, 0, 0, block).code, 6, "reads it there");
  r = given(&p, &s, SEND_BLOCK, block);
  ok(r.code == OK && r.len == block, "handed over it needs no attachica");
  is(area_call(&s, READ, 0, 0, block).code, 6, "and is read there");
  is(area_call(&s, DELETEICA, 0, 0, block).code, OK, "deleteica by who got it");
  is(area_call(&q, DETACHICA, 0, 0, block).code, OK, "detachica");
  is(area_call(&q, DETACHICA, 0, 0, block).code, EMOLNONODE, "once");
  is(area_call(&p, DELETEICA, 0, 0, far).code, OK, "deleteica by its maker");
  end(&p, SIGKILL);
  end(&q, SIGKILL);
  end(&s, SIGKILL);
}

#endif
