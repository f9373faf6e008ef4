/*
 * Conformance: areas, blocks that change their owner, AnT's six calls. Part of conformance.c.
 */
#ifndef M3IPC_TESTS_AREAS_H
#define M3IPC_TESTS_AREAS_H

#include "harness.h"

/* Makes a call about an area or a block. len is a size or an address. */
static struct result area_call(struct peer *peer, enum op op, int ep, int nr, size_t len) {
  struct order o = order(op);
  o.vm = VM;
  o.ep = ep;
  o.nr = nr;
  o.len = len;
  return call_order(peer, o);
}

/* Sends a block from p to q and takes it there. Returns the take, or the call that failed. */
static struct result transfer(struct peer *p, struct peer *q, enum op op, size_t block) {
  struct order o = order(op);
  o.ep = q->ep;
  o.len = block;
  o.ms = op == SHARE_BLOCK ? TIMEOUT_FOREVER : LONG_MS;
  start_order(p, o);
  struct result r = call(q, RECEIVE, p->ep, 0, LONG_MS);
  if (op != SENDREC_BLOCK && r.code == OK) r = finish(p);
  return r.code == OK ? area_call(q, TAKE, 0, 0, 0) : r;
}

static void blocks(void) {
  struct result r;

  group("areas and blocks");
  struct peer p = bound(VM, user_nr), q = bound(VM, other_nr), s = bound(VM, server_nr);
  is(area_call(&p, AREA, ANY, 64, 1 << 20).code, EMOLINVAL, "unknown flags");
  is(area_call(&p, AREA, ANY, 0, 0).code, EMOLBADRANGE, "a limit of 0 bytes");
  is(area_call(&p, ATTACH, 0, 999, 0).code, EMOLNONODE, "attach of an area that does not exist");
  int area = area_call(&p, AREA, ANY, 0, 1 << 20).code;
  ok(area > 0, "an area has a number: %d", area);
  is(area_call(&p, ALLOC, area, 9, 100).code, EMOLINVAL, "alloc with unknown flags");
  is(area_call(&p, ALLOC, area, 0, 2 << 20).code, EMOLALLOCMEM, "alloc of more than the area has");
  is(area_call(&q, ALLOC, area, 0, 100).code, EMOLNONODE, "alloc in an area that is not attached");
  r = area_call(&p, ALLOC, area, 0, 5000);
  is(r.code, OK, "alloc of a block");
  size_t block = r.len;
  is(area_call(&p, WRITE, 0, 7, block).code, OK, "the owner writes the block");
  is(area_call(&p, FREE, 0, 0, block + 64).code, EMOLADDRNOTAVAIL,
     "free of an address without a block");
  is(area_call(&q, TAKE, 0, 0, 0).code, EMOLNOMSG, "take without a block");
  r = transfer(&p, &q, SEND_BLOCK, block);
  ok(r.code == OK && r.len == block && r.sum == 5000,
     "the receiver takes the block at the same address");
  is(area_call(&q, READ, 0, 0, block).code, 7, "the receiver reads what the sender wrote");
  is(area_call(&p, FREE, 0, 0, block).code, EMOLADDRNOTAVAIL, "the sender no longer has the block");
  r = transfer(&q, &s, SEND_BLOCK, block);
  ok(r.code == OK && r.len == block, "the block goes on to a third process");
  r = transfer(&s, &p, SENDREC_BLOCK, block);
  ok(r.code == OK && r.len == block, "the block comes back with a request");
  is(area_call(&p, WRITE, 0, 8, block).code, OK, "the server writes in the block");
  is(area_call(&p, REPLY_BLOCK, s.ep, 0, block).code, OK, "the server replies with the block");
  is(finish(&s).code, OK, "the client has the answer");
  is((int)area_call(&s, TAKE, 0, 0, 0).sum, 5000, "the client takes the block");
  is(area_call(&s, READ, 0, 0, block).code, 8, "the client reads what the server wrote");
  is(area_call(&s, FREE, 0, 0, block).code, OK, "the client frees the block");

  struct order o = order(SEND_BLOCK);
  o.ep = q.ep;
  o.len = area_call(&p, ALLOC, area, M3_BLOCK_LONG, 100).len;
  o.ms = TIMEOUT_NOWAIT;
  is(call_order(&p, o).code, EMOLAGAIN, "send to a process that does not receive");
  is(area_call(&p, WRITE, 0, 9, o.len).code, OK, "the caller still owns the block");
  is(transfer(&p, &q, SHARE_BLOCK, o.len).code, OK, "share a block");
  is(transfer(&p, &s, SHARE_BLOCK, o.len).code, OK, "share the block with a second reader");
  is(area_call(&q, READ, 0, 0, o.len).code + area_call(&s, READ, 0, 0, o.len).code, 18,
     "both readers read the block");
  is(area_call(&p, RECLAIM, 0, 0, o.len).code, EMOLBUSY, "reclaim with two readers");
  is(area_call(&q, FREE, 0, 0, o.len).code, OK, "the first reader frees the block");
  is(area_call(&p, RECLAIM, 0, 0, o.len).code, EMOLBUSY, "reclaim with one reader");
  is(area_call(&s, FREE, 0, 0, o.len).code, OK, "the second reader frees the block");
  is(area_call(&p, RECLAIM, 0, 0, o.len).code, OK, "reclaim without readers");
  is(area_call(&p, DETACH, 0, area, 0).code, OK, "detach");
  is(area_call(&p, ALLOC, area, 0, 100).code, EMOLNONODE, "alloc after detach");

  area = area_call(&p, AREA, q.ep, 0, 1 << 20).code;
  block = area_call(&p, ALLOC, area, 0, 100).len;
  is(area_call(&s, ATTACH, 0, area, 0).code, EMOLPRIVILEGES,
     "a third process attaches the area of a pair");
  is(area_call(&p, SEND_BLOCK, s.ep, 0, block).code, EMOLPRIVILEGES,
     "send of a block of a pair to a third process");
  is(area_call(&p, WRITE, 0, 5, block).code, OK, "the owner writes the block of the pair");
  is(area_call(&p, RENOUNCE, 0, area, 0).code, EMOLBUSY,
     "renounce while the caller writes a block");
  is(transfer(&p, &q, SEND_BLOCK, block).code, OK, "send of the block of the pair");
  is(area_call(&p, RENOUNCE, 0, area, 0).code, OK, "the sender renounces");
  is(area_call(&p, SEAL, 0, area, 0).code, EMOLBUSY, "seal while the other process can write");
  is(area_call(&q, FREE, 0, 0, block).code, OK, "the receiver frees the block of the pair");
  is(area_call(&q, RENOUNCE, 0, area, 0).code, OK, "the receiver renounces");
  is(area_call(&q, SEAL, 0, area, 0).code, OK, "seal");

  o = order(AREA_SET);
  o.vm = s.ep;
  o.ep = q.ep;
  o.nr = M3_AREA_OWNER_WRITES;
  o.len = 1 << 20;
  area = call_order(&p, o).code;
  ok(area > 0, "an area of a set in which only the owner writes");
  is(area_call(&q, ATTACH, 0, area, 0).code, OK, "a member of the set attaches the area");
  is(area_call(&q, ALLOC, area, 0, 100).code, EMOLPRIVILEGES,
     "a member of the set cannot allocate");
  block = area_call(&p, ALLOC, area, 0, 100).len;
  is(area_call(&p, WRITE, 0, 3, block).code, OK, "the owner of the area writes");
  is(area_call(&s, ATTACHICA, 0, ICA_WRITE, block).code, EMOLPERM, "attachica to write there");
  is(area_call(&s, ACCESS_OF, 0, 0, block).code, 0, "a refused attachica attaches nothing");
  is(area_call(&s, DETACHICA, 0, 0, block).code, EMOLNONODE, "so there is nothing to leave");
  is(transfer(&p, &q, SHARE_BLOCK, block).code, OK, "the owner shares the block");
  is(area_call(&q, READ, 0, 0, block).code, 3, "the member reads the block");

  group("AnT's calls");
  r = area_call(&p, CREATEICA, 0, ICA_SHORT, 3000);
  block = r.len;
  ok(block != 0, "createica");
  size_t far = area_call(&p, CREATEICA, 0, ICA_LONG, 3000).len;
  ok(far > block, "a long-lived block lies behind");
  ok(area_call(&p, CREATEICA, 0, 5, 3000).len == 0, "createica with an unknown flag");
  ok(area_call(&p, GETMEM, 1, ICA_SHORT, 100).len == 0, "getmem with an unknown op");
  size_t got = area_call(&p, GETMEM, 0, ICA_SHORT, 100).len;
  ok(got != 0, "getmem");
  is(area_call(&p, FREEMEM, 0, 0, got).code, OK, "freemem");
  is(area_call(&p, FREEMEM, 0, 0, got).code, EMOLADDRNOTAVAIL, "a second freemem");
  is(area_call(&p, WRITE, 0, 6, block).code, OK, "the owner of the ICA block writes");
  is(area_call(&q, ATTACHICA, 0, 4, block).code, EMOLINVAL, "attachica with an unknown prot");
  is(area_call(&q, ATTACHICA, 0, ICA_READ, 64).code, EMOLADDRNOTAVAIL,
     "attachica of an address without an area");
  is(area_call(&q, ATTACHICA, 0, ICA_READ | ICA_WRITE, block).code, OK,
     "attachica by another process");
  is(area_call(&q, READ, 0, 0, block).code, 6, "the other process reads at the same address");
  is(area_call(&q, ACCESS_OF, 0, 0, block).code, ICA_READ | ICA_WRITE, "and may write there");
  is(area_call(&q, DETACHICA, 0, 0, block).code, OK, "it leaves");
  is(area_call(&q, ATTACHICA, 0, ICA_READ, block).code, OK, "attachica to read alone");
  is(area_call(&q, ACCESS_OF, 0, 0, block).code, ICA_READ, "the kernel forbids to write");
  is(area_call(&q, ATTACHICA, 0, ICA_WRITE, block).code, EMOLPERM, "a reader does not write");
  is(area_call(&q, ACCESS_OF, 0, 0, block).code, ICA_READ, "and stays attached");
  is(area_call(&s, ACCESS_OF, 0, 0, block).code, 0, "a third process has nothing there");
  r = transfer(&p, &s, SEND_BLOCK, block);
  ok(r.code == OK && r.len == block, "a receiver needs no attachica");
  is(area_call(&s, READ, 0, 0, block).code, 6, "the receiver reads at the same address");
  is(area_call(&s, DELETEICA, 0, 0, block).code, OK, "deleteica by the receiver");
  is(area_call(&q, DETACHICA, 0, 0, block).code, OK, "detachica");
  is(area_call(&q, DETACHICA, 0, 0, block).code, EMOLNONODE, "a second detachica");
  is(area_call(&p, DELETEICA, 0, 0, far).code, OK, "deleteica by the creator");
  end(&p, SIGKILL);
  end(&q, SIGKILL);
  end(&s, SIGKILL);
}

#endif
