/*
 * Copies between the memory of processes: vcopy, loans, grants. Part of m3ipc.h; see there for
 * results, threads and signals.
 */
#ifndef M3IPC_COPY_H
#define M3IPC_COPY_H

#include "records.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- vcopy ------------------------------------------------------------- */

/*
 * Copies bytes from one process to another.
 *
 * Each party other than the caller must be blocked in a receive or sendrec. Among members of one
 * user all memory can be copied, unless vm_copy of the VM says otherwise. Among users, only memory
 * that was lent or granted can be copied.
 *
 *   src, saddr  endpoint and address of the source; M3_SELF is the caller
 *   dst, daddr  endpoint and address of the destination; M3_SELF is the caller
 *   bytes       number of bytes; 0 copies nothing
 *   timeout_ms  milliseconds for the whole copy. Without a limit, a party that makes no progress
 *               for a second still ends the copy.
 *
 * Returns 0, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLNOTBIND       the caller is not bound
 *   EMOLNOTREADY      another thread is inside a call on this endpoint
 *   EMOLRANGE         bytes is negative, or the VM has no such slot
 *   EMOLENDPOINT      both sides are the same, M3_ANY or M3_NONE, or of another generation
 *   EMOLSRCDIED       the source has gone
 *   EMOLDSTDIED       the destination has gone
 *   EMOLPROCSTS       a party is not blocked in a receive or sendrec
 *   EMOLBUSY          a party is in another copy
 *   EMOLADDRNOTAVAIL  an address has no memory, or the memory may not be read or written
 *   EMOLPERM          the party has not lent or granted this memory to the caller
 *   EMOLTRAPDENIED    the privileges of the caller do not allow this call
 *   EMOLTIMEDOUT      the limit is over, or a party made no progress
 *   EMOLINTR          a signal ended the wait for a party
 *   EMOLPEERBROKE     a party broke the rules of the copy
 *   EMOLINVAL         the limit is negative and not M3_TIMEOUT_FOREVER
 * Blocks. After an error m3_copied returns the number of bytes copied.
 *
 *   code = mnx_vcopy(client, m.m3_m1_p1, M3_SELF, buffer, sizeof buffer);
 */
int mnx_vcopy(int src, void *saddr, int dst, void *daddr, long bytes);
int mnx_vcopy_T(int src, void *saddr, int dst, void *daddr, long bytes, long timeout_ms);

/*
 * Returns the number of bytes that the last copy of the caller's endpoint copied, or EMOLDRVSINIT,
 * EMOLNOTBIND or EMOLNOTREADY. Never blocks.
 */
long m3_copied(void);

/*
 * Returns the number of bytes that the caller's endpoint has copied in all: by copies, and by long
 * messages of more than M3_LONG_MAX bytes in both directions. A block that changes its owner adds
 * nothing. Returns EMOLDRVSINIT, EMOLNOTBIND or EMOLNOTREADY on failure. Never blocks.
 */
long m3_copied_total(void);

/* ---- Loans and grants -------------------------------------------------- */

/*
 * Sends a request and lends memory to the process that answers it.
 *
 * The borrower is dst, and after a relay the process that took the request. It copies the memory
 * with mnx_vcopy, by addresses that the message carries. The loans end with the call.
 *
 *   dst         endpoint of the server
 *   m           request; receives the answer
 *   loans       ranges of memory and rights
 *   count       number of loans, 0 to M3_LOANS_MAX
 *   timeout_ms  milliseconds for the whole call
 *
 * Returns as mnx_sendrec, or:
 *   EMOLRANGE         count is negative or above M3_LOANS_MAX
 *   EMOLINVAL         the rights of a loan are not M3_READ, M3_WRITE or both
 *   EMOLADDRNOTAVAIL  loans cannot be read
 * Blocks.
 *
 *   struct m3_loan loan = {buffer, sizeof buffer, M3_READ};
 *   code = m3_sendrec_lent(server, &m, &loan, 1);
 */
int m3_sendrec_lent(int dst, m3_message *m, const struct m3_loan *loans, int count);
int m3_sendrec_lent_T(int dst, m3_message *m, const struct m3_loan *loans, int count,
                      long timeout_ms);

/*
 * Grants memory to another endpoint until m3_revoke.
 *
 * The memory can be copied while the caller is blocked in a receive or sendrec, by its addresses
 * with mnx_vcopy or by the grant with m3_copy_granted.
 *
 *   ep      endpoint that may copy; M3_ANY is every member of the VM
 *   base    first byte of the memory
 *   bytes   number of bytes
 *   rights  M3_READ, M3_WRITE or both
 *   grant   receives the name of the grant, a number to pass in a message; never 0
 *
 * Returns 0, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLNOTBIND       the caller is not bound
 *   EMOLNOTREADY      another thread is inside a call on this endpoint
 *   EMOLINVAL         rights are not M3_READ, M3_WRITE or both
 *   EMOLNOMEM         the endpoint has 65,536 grants
 *   EMOLADDRNOTAVAIL  grant cannot be written
 */
int m3_grant(int ep, void *base, size_t bytes, unsigned int rights, m3_grant_t *grant);

/*
 * Ends a grant. After the call no process copies the memory by this grant.
 *
 *   grant  name that m3_grant gave
 *
 * Returns 0, or:
 *   EMOLDRVSINIT  the node is not initialised
 *   EMOLNOTBIND   the caller is not bound
 *   EMOLNOTREADY  another thread is inside a call on this endpoint
 *   EMOLBADVALUE  the caller has no such grant (any more)
 * Never blocks: a running copy holds the caller in its receive or sendrec until the copy ends.
 */
int m3_revoke(m3_grant_t grant);

/*
 * Copies between the caller's memory and memory that another endpoint has granted.
 *
 *   ep         endpoint that made the grant
 *   grant      name of the grant
 *   offset     first byte within the grant
 *   own        memory of the caller
 *   bytes      number of bytes
 *   direction  M3_READ copies from the grant to own, M3_WRITE from own into the grant
 *
 * Returns as mnx_vcopy, or:
 *   EMOLRANGE  offset and bytes go beyond the end of the grant
 *   EMOLPERM   the caller has no such grant (any more), or not with this right
 *   EMOLINVAL  direction is neither M3_READ nor M3_WRITE
 * Blocks.
 */
int m3_copy_granted(int ep, m3_grant_t grant, uint64_t offset, void *own, size_t bytes,
                    unsigned int direction);

/* ---- The memory of a waiting client by offset --------------------------- */

/*
 * Copies between the caller's memory and the memory that a client lent for the request which it
 * awaits the answer to (m3_sendrec_lent).
 *
 * An offset of m3_msg_read counts the bytes of the loans with M3_READ, one loan after the other;
 * an offset of m3_msg_write those with M3_WRITE. A copy lies within one loan. The request need not
 * carry an address.
 *
 *   client  endpoint of the client
 *   offset  first byte within the loans
 *   own     memory of the caller, which m3_msg_read writes and m3_msg_write reads
 *   bytes   number of bytes
 *
 * Return as mnx_vcopy, or:
 *   EMOLRANGE  offset and bytes do not lie within one loan
 *   EMOLPERM   the client has lent nothing to the caller
 * Block.
 *
 *   code = m3_msg_read(m.m_source, 0, &header, sizeof header);
 */
int m3_msg_read(int client, uint64_t offset, void *own, size_t bytes);
int m3_msg_write(int client, uint64_t offset, const void *own, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* M3IPC_COPY_H */
