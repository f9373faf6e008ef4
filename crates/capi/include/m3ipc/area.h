/*
 * Areas, and blocks that change their owner without a copy. Part of m3ipc.h; see there for
 * results, threads and signals.
 *
 * An area lies at the same address in every process that attaches it, so pointers in it are valid
 * everywhere. Every call of this file may return EMOLDRVSINIT (the node is not initialised),
 * EMOLNOTBIND (the caller is not bound) or EMOLNOTREADY (another thread is inside a call on this
 * endpoint). Calls about areas block until the daemon answers.
 */
#ifndef M3IPC_AREA_H
#define M3IPC_AREA_H

#include "records.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Areas ------------------------------------------------------------- */

/*
 * Makes an area and attaches it. The memory is taken as blocks need it, up to the limit.
 *
 *   limit     most bytes of the area, up to 256 GiB
 *   audience  M3_ANY for every member of the VM, or the one other endpoint of a pair
 *   flags     0, or any of:
 *             M3_AREA_OWNER_WRITES  only the caller writes and allocates
 *             M3_AREA_HUGE          huge pages of the pool of the system
 *             M3_AREA_TRANSPARENT   huge pages where the kernel makes them
 *             M3_AREA_PREFAULT      map the pages when memory is taken
 *
 * Returns the number of the area, above 0, or:
 *   EMOLINVAL     flags has an unknown bit
 *   EMOLBADRANGE  limit is 0 or too large
 *   EMOLNOMEM     the system has no memory, or the VM no addresses left
 *   EMOLNOSYS     the system has no pool of huge pages
 *   EMOLRSCBUSY   another mapping of this process lies at the addresses of the area
 *   EMOLDSTDIED   the other endpoint of the audience is not bound
 *
 *   int area = m3_area_create(1 << 30, M3_ANY, 0);
 */
int m3_area_create(uint64_t limit, int audience, unsigned int flags);

/*
 * Makes an area for the caller and a set of other endpoints, and attaches it.
 *
 *   limit   most bytes of the area, up to 256 GiB
 *   others  endpoints of the set
 *   count   number of endpoints, 1 to M3_AREA_SET_MAX
 *   flags   as for m3_area_create
 *
 * Returns as m3_area_create, or:
 *   EMOLINVAL         count is out of range
 *   EMOLADDRNOTAVAIL  others cannot be read
 */
int m3_area_create_set(uint64_t limit, const int *others, int count, unsigned int flags);

/*
 * Attaches an area. A block that comes with a message attaches its area by itself.
 *
 *   area  number of the area
 *
 * Returns 0, or:
 *   EMOLNONODE      no such area
 *   EMOLPRIVILEGES  the caller is not in the audience of the area
 *   EMOLORPHANED    the daemon that made the area was killed; members go on, none can join
 *   EMOLRSCBUSY     another mapping of this process lies at the addresses of the area
 */
int m3_area_attach(int area);

/*
 * Leaves an area and frees the caller's blocks in it. The area ends with its last member.
 *
 *   area  number of the area
 *
 * Returns 0, or EMOLNONODE if the caller has not attached the area.
 */
int m3_area_detach(int area);

/*
 * Gives up writing in the area of a pair, for ever.
 *
 *   area  number of the area
 *
 * Returns 0, or:
 *   EMOLNONODE  the caller has not attached the area
 *   EMOLBUSY    the caller still writes a block of the area
 *   EMOLPERM    the area is not the area of a pair whose blocks change their owner
 */
int m3_area_renounce(int area);

/*
 * Makes sure that no process ever writes in the area again. Both of the pair must have given up
 * writing. The kernel enforces this seal.
 *
 *   area  number of the area
 *
 * Returns 0, or:
 *   EMOLNONODE  the caller has not attached the area
 *   EMOLBUSY    a process can still write in the area
 *   EMOLPERM    the area is not the area of a pair whose blocks change their owner
 */
int m3_area_seal(int area);

/* ---- Blocks ------------------------------------------------------------ */

/*
 * Allocates a block in an attached area.
 *
 *   area   number of the area
 *   bytes  size of the block
 *   flags  0 for the front of the area (short-lived), M3_BLOCK_LONG for its back (long-lived)
 *   block  receives the address, which is the same in every process
 *
 * Returns 0, or:
 *   EMOLNONODE        the caller has not attached the area
 *   EMOLINVAL         flags has an unknown bit
 *   EMOLALLOCMEM      the area is full
 *   EMOLPRIVILEGES    only the owner of the area allocates in it
 *   EMOLNOMEM         the system has no memory
 *   EMOLADDRNOTAVAIL  block cannot be written
 * Blocks only if the daemon must give more of the area.
 *
 *   void *image;
 *   code = m3_block_alloc(area, bytes, M3_BLOCK_LONG, &image);
 */
int m3_block_alloc(int area, size_t bytes, unsigned int flags, void **block);

/*
 * Frees a block that the caller owns or reads, whichever process allocated it.
 *
 *   block  address of the block
 *
 * Returns 0, or EMOLADDRNOTAVAIL if the caller has no block at this address. Never blocks.
 */
int m3_block_free(void *block);

/*
 * Takes the block that came with the message taken last. The library frees a block that is not
 * taken before the next message.
 *
 *   block  receives the address
 *   bytes  receives the length of the content
 *
 * Returns 0, or:
 *   EMOLNOMSG         no block came with the message
 *   EMOLPEERBROKE     the sender did not own the block, or gave it to another process too
 *   EMOLADDRNOTAVAIL  block or bytes cannot be written
 */
int m3_block_take(void **block, size_t *bytes);

/*
 * Send, sendrec and reply with a block, which the receiver then owns.
 *
 * The time does not depend on the size of the block. If the call fails before the receiver has the
 * block, the caller still owns it: see m3_last_block_kept. A receiver on another node gets a copy,
 * as a block of its own.
 *
 *   dst         endpoint of the receiver
 *   m           message; m3_sendrec_block writes the answer here
 *   block       address of a block of the caller
 *   timeout_ms  milliseconds to wait
 *
 * Return as mnx_send, mnx_sendrec and mnx_reply, or:
 *   EMOLADDRNOTAVAIL  the caller has no block at this address, or m cannot be used
 *   EMOLPRIVILEGES    the receiver is not in the audience of the area
 *   EMOLBUSY          the block is shared and still read
 *   EMOLPERM          the caller only reads the block
 *   EMOLMSGSIZE       the block has more than 256 MiB, and the receiver is on another node
 *   EMOLNOPAYLOAD     the block could not be copied to another node
 *   EMOLAGAIN         the other node has no room for the copy now
 * m3_send_block and m3_sendrec_block block; m3_reply_block never waits for its receiver.
 */
int m3_send_block(int dst, m3_message *m, void *block);
int m3_send_block_T(int dst, m3_message *m, void *block, long timeout_ms);
int m3_sendrec_block(int dst, m3_message *m, void *block);
int m3_sendrec_block_T(int dst, m3_message *m, void *block, long timeout_ms);
int m3_reply_block(int dst, m3_message *m, void *block);

/*
 * Sends a block to read. The caller still owns it, and may share it with several receivers, one
 * after the other. No process may write in the block until m3_block_reclaim returns 0.
 *
 *   dst         endpoint of the receiver
 *   m           message
 *   block       address of a block of the caller
 *   timeout_ms  milliseconds to wait
 *
 * Returns as m3_send_block. Blocks.
 */
int m3_share_block(int dst, m3_message *m, void *block);
int m3_share_block_T(int dst, m3_message *m, void *block, long timeout_ms);

/*
 * Ends the sharing of a block, once all its receivers have freed it or died.
 *
 *   block  address of a block of the caller
 *
 * Returns 0, or:
 *   EMOLBUSY          a receiver still reads the block
 *   EMOLADDRNOTAVAIL  the caller has no block at this address
 * Never blocks.
 */
int m3_block_reclaim(void *block);

#ifdef __cplusplus
}
#endif

#endif /* M3IPC_AREA_H */
