/*
 * m3ipc: microkernel-style message passing on Linux, in user space.
 *
 * The C interface of M3-IPC (DRVS) with that of its later releases (MOL-IPC, DVK):
 * a program written for any of them compiles against this header and sees the
 * results that it expects. Link with -lm3ipc (pkg-config m3ipc).
 *
 * Every call returns 0 or a value when it was done, and a negative code of
 * m3ipc/codes.h when not. No call sets errno. A pointer that cannot be read or
 * written gives EMOLADDRNOTAVAIL; each page is tried at the first call of a thread that
 * names it, so one that is unmapped later is not noticed. A signal with a handler ends a blocked call with
 * EMOLINTR; a message is then surely withdrawn or surely delivered.
 *
 * Checks come in this order, and the first that fails is the result:
 *   EMOLDRVSINIT  the node is not initialised
 *   EMOLNOTBIND   the caller is not bound
 *   EMOLNOTREADY  another thread is inside a call on this endpoint
 *   EMOLBADVMID   VM id out of range
 *   EMOLVMNOTRUN  the VM is not running
 *   EMOLRANGE     slot out of range; ANY, NONE or SELF where a process is meant
 *   EMOLENDPOINT  the caller itself; an endpoint of another generation
 *   EMOLDSTDIED, EMOLSRCDIED or EMOLDEADSRCDST: the endpoint's holder has gone
 *
 * Forms that end in _T take a time limit in milliseconds: TIMEOUT_NOWAIT (0) does
 * not wait, TIMEOUT_FOREVER (-1) waits without limit as the plain form does, any
 * other negative number is EMOLINVAL. A limit of 0 gives EMOLAGAIN from calls that
 * pass messages and EMOLTIMEDOUT from the wait4 calls; any other limit, when over,
 * gives EMOLTIMEDOUT.
 */
#ifndef M3IPC_H
#define M3IPC_H

#include "m3ipc/codes.h"
#include "m3ipc/numbers.h"
#include "m3ipc/message.h"
#include "m3ipc/records.h"

/* The release that this header belongs to; m3_version() is that of the library. */
#define M3IPC_VERSION_MAJOR 0
#define M3IPC_VERSION_MINOR 1
#define M3IPC_VERSION_PATCH 0
#define DVS_VERSION         M3IPC_VERSION_MAJOR
#define DVS_SUBVER          M3IPC_VERSION_MINOR

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The node ---------------------------------------------------------- */

/*
 * Starts the node, and its daemon where none runs. A nodeid of LOCALNODE, and each
 * parameter that is 0, comes from the configuration file or from the environment;
 * params may be NULL. On success the values in force are written to params.
 * Returns the node id, EMOLDRVSBUSY (initialised already), EMOLBADNODEID,
 * EMOLBADRANGE (parameter out of range), EMOLBADVALUE, or EMOLVERSION.
 */
int mnx_drvs_init(int nodeid, drvs_usr_t *params);

/*
 * Ends every VM as vm_end does, then the node.
 * Returns 0, EMOLDRVSINIT, or EMOLPRIVILEGES (not the owner of the node).
 */
int mnx_drvs_end(void);

/*
 * Fills *info with the parameters of the node.
 * Returns the node id, or EMOLDRVSINIT.
 */
int mnx_getdrvsinfo(drvs_usr_t *info);

/* ---- VMs --------------------------------------------------------------- */

/*
 * Starts the VM that params describes; the caller's user owns it. A limit of 0 is
 * the node's. On success the values in force are written to params.
 * Returns the node id, EMOLDRVSINIT, EMOLBADVMID, EMOLRSCBUSY (id or name in use),
 * EMOLNAMESIZE (no zero within MAXVMNAME bytes), EMOLBADRANGE (limit above the
 * node's), EMOLNOVMNODE (vm_nodes without this node), or EMOLBADVALUE (another field).
 */
int mnx_vm_init(VM_usr_t *params);

/*
 * Ends a VM: SIGPIPE to each member, SIGKILL to those still bound after the grace
 * time of the VM; returns when the last has left and all is given back. A member
 * that calls it is unbound first and gets no SIGPIPE. Other calls in the VM give
 * EMOLVMNOTRUN meanwhile.
 * Returns 0, EMOLDRVSINIT, EMOLBADVMID, EMOLVMNOTRUN, or EMOLPRIVILEGES.
 */
int mnx_vm_end(int vmid);

/*
 * Fills *info with the parameters of a VM; PROC_NO_PID is the caller's own. Of a
 * VM that does not run, vm_flags is VM_FREE and the rest is zero.
 * Returns 0, EMOLDRVSINIT, EMOLBADVMID (also PROC_NO_PID when not bound), or
 * EMOLPRIVILEGES (vm_mode).
 */
int mnx_getvminfo(int vmid, VM_usr_t *info);

/* Prints the VMs of the node to standard error. Returns 0 or EMOLDRVSINIT. */
int mnx_vm_dump(void);

/* ---- Endpoints --------------------------------------------------------- */

/*
 * Binds the calling process to slot nr of a VM, and thereby its threads that have
 * no endpoint of their own. exit, exec and death unbind; a forked child is unbound.
 * Returns the endpoint, EMOLDRVSINIT, EMOLBADVMID, EMOLVMNOTRUN, EMOLRANGE (slot
 * out of range), EMOLSLOTUSED (the slot is taken, or the caller is bound already),
 * or EMOLPRIVILEGES. Failed if below EMOLERRCODE; EMOLRANGE, the one exception, is
 * told from task -34 by M3_BOUND.
 */
int mnx_bind(int vmid, int nr);

/*
 * As bind, for the calling thread alone; its process is bound already, to the same
 * VM. The endpoint ends with the thread.
 * Returns as bind, or EMOLGRPLEADER (its process is not bound to this VM).
 */
int mnx_tbind(int vmid, int nr);

/*
 * As bind, for another process of the same owner on this node; wakes it if it is
 * in wait4bind. That process uses the library, and meets its endpoint in its next
 * call.
 * Returns as bind, or EMOLBADPROC (no such process).
 */
int mnx_lclbind(int vmid, int pid, int nr);

/* Whether the answer of bind, tbind or lclbind for slot nr is its endpoint. */
#define M3_BOUND(answer, nr) \
  ((answer) >= -NR_TASKS && _ENDPOINT_P(answer) == (nr) && (answer) != ANY && \
   (answer) != NONE && (answer) != SELF)

/*
 * Ends a binding. One's own: as at death, others blocked on it learn. Another's, of
 * the same owner: it gets SIGPIPE, a blocked call of it gets EMOLSHUTDOWN, and the
 * caller, who need not be bound, waits until it has left.
 * Returns 0, EMOLDRVSINIT, EMOLBADVMID, EMOLVMNOTRUN, EMOLRANGE, EMOLNOTBIND (the
 * slot is free), EMOLENDPOINT (another generation), EMOLPRIVILEGES, EMOLTIMEDOUT.
 */
int mnx_unbind(int vmid, int ep);
int mnx_unbind_T(int vmid, int ep, long timeout_ms);

/*
 * The endpoint of a process (or thread) of the caller's VM.
 * Returns the endpoint, EMOLDRVSINIT, EMOLNOTBIND (the caller, or that process),
 * or EMOLBADPROC (no such process). Failed if below EMOLERRCODE.
 */
int mnx_getep(int pid);

/*
 * Waits until the caller is bound, by itself or by lclbind.
 * Returns its endpoint, EMOLDRVSINIT, EMOLINTR, or EMOLTIMEDOUT.
 */
int mnx_wait4bind(void);
int mnx_wait4bind_T(long timeout_ms);

/*
 * Waits until endpoint ep of the caller's VM is bound.
 * Returns ep, EMOLDRVSINIT, EMOLNOTBIND (the caller), EMOLRANGE, EMOLENDPOINT (one's
 * own, or a generation that has gone), EMOLINTR, or EMOLTIMEDOUT.
 */
int mnx_wait4bindep(int ep);
int mnx_wait4bindep_T(int ep, long timeout_ms);

/*
 * Waits until endpoint ep of the caller's VM is bound no longer.
 * Returns 0 (also if it has gone already), EMOLDRVSINIT, EMOLNOTBIND (the caller),
 * EMOLRANGE, EMOLENDPOINT (one's own), EMOLINTR, or EMOLTIMEDOUT.
 */
int mnx_wait4unbind(int ep);
int mnx_wait4unbind_T(int ep, long timeout_ms);

/*
 * Fills *info with slot nr (not an endpoint) of a VM; PROC_NO_PID is the caller's
 * VM. Of a free slot, p_rts_flags is SLOT_FREE.
 * Returns 0, EMOLDRVSINIT, EMOLBADVMID, EMOLVMNOTRUN, EMOLRANGE, EMOLPRIVILEGES.
 */
int mnx_getprocinfo(int vmid, int nr, proc_usr_t *info);

/*
 * Prints the bound slots of a VM to standard error.
 * Returns 0, EMOLDRVSINIT, EMOLBADVMID, EMOLVMNOTRUN, or EMOLPRIVILEGES.
 */
int mnx_proc_dump(int vmid);

/*
 * Set and read the privileges of an endpoint: its level, the calls it may make
 * (else EMOLTRAPDENIED), whom it may send to and receive from (else
 * EMOLCALLDENIED). setpriv is for the owner of the VM, and ignores s_id.
 * Return 0, EMOLDRVSINIT, EMOLBADVMID, EMOLVMNOTRUN, EMOLRANGE, EMOLENDPOINT,
 * EMOLDSTDIED (the slot is free), EMOLBADVALUE (setpriv), or EMOLPRIVILEGES.
 */
int mnx_setpriv(int vmid, int ep, priv_usr_t *priv);
int mnx_getpriv(int vmid, int ep, priv_usr_t *priv);

/* ---- Messages ---------------------------------------------------------- */

/*
 * Sends *m; returns when the receiver has taken it.
 * Returns 0, EMOLRANGE, EMOLENDPOINT (the caller itself, or another generation),
 * EMOLDSTDIED, EMOLLOCKED (a circle of waiting processes), EMOLCALLDENIED,
 * EMOLTRAPDENIED, EMOLSHUTDOWN, EMOLINTR, EMOLPEERBROKE, EMOLAGAIN, EMOLTIMEDOUT,
 * or a code of the checks above.
 */
int mnx_send(int dst, message *m);
int mnx_send_T(int dst, message *m, long timeout_ms);

/*
 * Receives into *m from src, an endpoint or ANY: first a remembered wakeup (ANY),
 * then notifications, lowest slot first, then messages in order of arrival.
 * Returns 0, EMOLSRCDIED (also while waiting), EMOLWOKENUP (ANY), EMOLMSGSIZE (a
 * long message was taken and its long part dropped), or as send.
 */
int mnx_receive(int src, message *m);
int mnx_receive_T(int src, message *m, long timeout_ms);

/*
 * Sends *m and waits for the answer of the same process in *m: any send or reply
 * of it. Notifications and messages of others stay queued. The limit of the _T form
 * covers both halves.
 * Returns 0, EMOLDEADSRCDST (nobody there at entry), EMOLDSTDIED (died before
 * taking it), EMOLSRCDIED (died after taking it), EMOLMSGSIZE as receive, or as
 * send.
 */
int mnx_sendrec(int dst, message *m);
int mnx_sendrec_T(int dst, message *m, long timeout_ms);

/*
 * As receive from ANY, of requests made with sendrec, and of notifications; plain
 * sends stay queued.
 * Returns as receive.
 */
int mnx_rcvrqst(message *m);
int mnx_rcvrqst_T(message *m, long timeout_ms);

/*
 * Answers a process that waits in sendrec or receive for exactly the caller. Never
 * blocks; the limit of the _T form has no effect.
 * Returns 0, EMOLPROCSTS (it does not wait for the caller), EMOLRANGE, EMOLENDPOINT,
 * EMOLDSTDIED, EMOLTRAPDENIED, EMOLCALLDENIED.
 */
int mnx_reply(int dst, message *m);
int mnx_reply_T(int dst, message *m, long timeout_ms);

/*
 * Hands the request that the caller took last, and has not answered, to dst as *m:
 * dst sees the first client as m_source and answers it directly. A long part of the
 * request goes on as it was. The caller does not wait: the client does so in its
 * stead, and learns what becomes of the request. With a limit of 0 it is handed on
 * only if dst is receiving.
 * Returns 0, EMOLPROCSTS (no request held, or its client waits no longer),
 * EMOLAGAIN, or a code of reply.
 */
int mnx_relay(int dst, message *m);
int mnx_relay_T(int dst, message *m, long timeout_ms);

/*
 * Notifies dst: one bit for each source, remembered until its next receive; more of
 * one source are one. Never blocks.
 * Returns 0, EMOLDSTDIED, EMOLENDPOINT, EMOLRANGE, EMOLCALLDENIED, EMOLTRAPDENIED.
 */
int mnx_notify(int dst);

/*
 * As notify, in the name of slot src_nr: the caller's own, or, for the owner of the
 * VM, a task (below 0), bound or not.
 * Returns as notify; EMOLPRIVILEGES for any other slot.
 */
int mnx_src_notify(int src_nr, int dst);

/*
 * Ends the receive from ANY, or the rcvrqst, of another endpoint of a VM with
 * EMOLWOKENUP. The caller need not be bound.
 * Returns 0; EMOLPROCRUN (it was running) or EMOLPROCSTS (it was blocked otherwise),
 * both remembered until its next receive from ANY; EMOLDRVSINIT, EMOLBADVMID,
 * EMOLVMNOTRUN, EMOLRANGE, EMOLENDPOINT, EMOLDSTDIED, or EMOLPRIVILEGES.
 */
int mnx_wakeup(int vmid, int ep);

/* ---- Long messages ----------------------------------------------------- */

/*
 * As the call without _long, with len bytes at buf besides the 48: at most M3_LARGE_MAX,
 * else EMOLMSGSIZE and nothing is sent. Up to M3_LONG_MAX lie in the link itself; more
 * travel as a block of an area that the two get by themselves. A len of 0 is the plain call.
 */
int m3_send_long(int dst, message *m, const void *buf, size_t len);
int m3_send_long_T(int dst, message *m, const void *buf, size_t len, long timeout_ms);
int m3_reply_long(int dst, message *m, const void *buf, size_t len);

/*
 * As the call without _long; the bytes besides the 48 go to buf. *len is how many
 * were sent, 0 with a plain message or a notification; len may be NULL. With more
 * than cap the message is taken, buf holds the first cap, and the result is
 * EMOLMSGSIZE. On any other code *len is 0.
 */
int m3_receive_long(int src, message *m, void *buf, size_t cap, size_t *len);
int m3_receive_long_T(int src, message *m, void *buf, size_t cap, size_t *len, long timeout_ms);
int m3_rcvrqst_long(message *m, void *buf, size_t cap, size_t *len);
int m3_rcvrqst_long_T(message *m, void *buf, size_t cap, size_t *len, long timeout_ms);

/*
 * As sendrec: out_len bytes at out go with the request, the bytes of the answer
 * come to in as those of m3_receive_long. out and in may be the same memory.
 */
int m3_sendrec_long(int dst, message *m, const void *out, size_t out_len,
                    void *in, size_t cap, size_t *len);
int m3_sendrec_long_T(int dst, message *m, const void *out, size_t out_len,
                      void *in, size_t cap, size_t *len, long timeout_ms);

/* ---- Copies ------------------------------------------------------------ */

/*
 * Copies bytes from saddr of src to daddr of dst. SELF, or the caller's endpoint, is
 * the caller; each party that is not the caller must be blocked in receive or sendrec.
 * Among members of one user all memory can be copied, unless the VM says otherwise
 * (vm_copy); among users, what was lent or granted. With _T the whole has a limit; a
 * party that makes no progress for a second ends a copy in any case.
 * Returns 0, EMOLDRVSINIT, EMOLNOTBIND, EMOLRANGE (bytes is negative, or no such slot),
 * EMOLENDPOINT (the same endpoint twice, ANY, NONE, another generation), EMOLSRCDIED,
 * EMOLDSTDIED, EMOLPROCSTS (a party is not blocked so), EMOLBUSY (it is in another
 * copy), EMOLADDRNOTAVAIL (no memory there), EMOLPERM (not lent or granted),
 * EMOLTIMEDOUT, EMOLINTR, or EMOLPEERBROKE. After an error m3_copied tells how much was copied.
 */
int mnx_vcopy(int src, void *saddr, int dst, void *daddr, long bytes);
int mnx_vcopy_T(int src, void *saddr, int dst, void *daddr, long bytes, long timeout_ms);

/*
 * Bytes that the last copy of the caller's endpoint has copied; what it has copied in all: its
 * copies, and long messages of more than M3_LONG_MAX both ways. Or a code.
 */
long m3_copied(void);
long m3_copied_total(void);

/*
 * As sendrec, and lends count pieces of memory, at most M3_LOANS_MAX, to whoever
 * answers: dst, and after a relay who it was relayed to. They can be copied with
 * vcopy, by the addresses that the message tells, as long as the call lasts.
 * Returns what sendrec returns; EMOLRANGE (count), EMOLINVAL (rights).
 */
int m3_sendrec_lent(int dst, message *m, const struct m3_loan *loans, int count);
int m3_sendrec_lent_T(int dst, message *m, const struct m3_loan *loans, int count, long timeout_ms);

/*
 * Grants memory to ep, or with ANY to every member of the VM, until it is revoked:
 * M3_READ, M3_WRITE or both. It is copied while the caller is blocked in receive or
 * sendrec, by its addresses or by *grant and an offset; once m3_revoke has returned
 * nobody copies it any more.
 * Return 0, EMOLDRVSINIT, EMOLNOTBIND, EMOLINVAL (rights), EMOLNOMEM (65,536 grants),
 * EMOLADDRNOTAVAIL (grant), or for revoke EMOLBADVALUE (no such grant any more).
 */
int m3_grant(int ep, void *base, size_t bytes, unsigned int rights, m3_grant_t *grant);
int m3_revoke(m3_grant_t grant);

/*
 * Copies out of what ep has granted to own (M3_READ), or from own into it (M3_WRITE).
 * Returns what vcopy returns; EMOLRANGE too where the grant ends before.
 */
int m3_copy_granted(int ep, m3_grant_t grant, uint64_t offset, void *own, size_t bytes,
                    unsigned int what);

/* ---- Areas and blocks -------------------------------------------------- */

/*
 * Make an area of at most limit bytes and attach it: for every member of the VM
 * (audience ANY), for the caller and one other endpoint, or for the caller and a set of
 * up to M3_AREA_SET_MAX. flags: M3_AREA_OWNER_WRITES (others only read), M3_AREA_HUGE (huge
 * pages of the system's pool), M3_AREA_TRANSPARENT (huge pages where the kernel makes them),
 * M3_AREA_PREFAULT, or 0. Return its number, above 0, by which others attach it;
 * EMOLDRVSINIT, EMOLNOTBIND, EMOLINVAL (flags, count), EMOLBADRANGE (limit), EMOLNOMEM,
 * EMOLNOSYS (no huge pages), EMOLRSCBUSY (its addresses are in use here).
 */
int m3_area_create(uint64_t limit, int audience, unsigned int flags);
int m3_area_create_set(uint64_t limit, const int *others, int count, unsigned int flags);

/*
 * Attach an area; a block that comes with a message attaches its area by itself. Leave
 * it: the caller's blocks in it are freed. Return 0, EMOLDRVSINIT, EMOLNOTBIND, EMOLNONODE (no such
 * area, or not attached), EMOLPRIVILEGES (not of its audience), EMOLNOTREADY (its daemon was killed), EMOLRSCBUSY.
 */
int m3_area_attach(int area);
int m3_area_detach(int area);

/*
 * For an area of a pair. Gives up writing in it, for ever; makes sure, by the kernel's word,
 * that nobody writes in it ever again, which needs both to have given up. Return 0,
 * EMOLNONODE, EMOLBUSY (a block is being written here; somebody can still write), EMOLPERM (no such area).
 */
int m3_area_renounce(int area);
int m3_area_seal(int area);

/*
 * Allocates bytes in an attached area, from its front or (M3_BLOCK_LONG) its back; *block is
 * their address, the same in every process. Frees a block that the caller has,
 * whoever allocated it. Return 0, EMOLDRVSINIT, EMOLNOTBIND, EMOLNONODE, EMOLINVAL (flags), EMOLALLOCMEM
 * (the area is full), EMOLPRIVILEGES (only its owner allocates), EMOLNOMEM, EMOLADDRNOTAVAIL (no block there).
 */
int m3_block_alloc(int area, size_t bytes, unsigned int flags, void **block);
int m3_block_free(void *block);

/*
 * The block that came with the message taken last, and the length of its content;
 * one that is not taken is freed with the next message. Returns 0, EMOLDRVSINIT, EMOLNOTBIND,
 * EMOLADDRNOTAVAIL, EMOLNOMSG (none came), EMOLPEERBROKE (it was not the sender's to give).
 */
int m3_block_take(void **block, size_t *bytes);

/*
 * As send, sendrec and reply, with a block, which is the receiver's from then on; the
 * time it takes does not depend on its size. Where the call fails and the receiver has
 * not got the block it is the caller's still. Return what the plain calls return; EMOLADDRNOTAVAIL (no
 * block of the caller's there), EMOLPRIVILEGES (the receiver is not of the area's audience).
 */
int m3_send_block(int dst, message *m, void *block);
int m3_send_block_T(int dst, message *m, void *block, long timeout_ms);
int m3_sendrec_block(int dst, message *m, void *block);
int m3_sendrec_block_T(int dst, message *m, void *block, long timeout_ms);
int m3_reply_block(int dst, message *m, void *block);

/*
 * As send, with a block to read: it stays the caller's, who must not write in it until
 * m3_block_reclaim says 0. That says EMOLBUSY while one of those to whom it was sent
 * lives and has not freed it.
 */
int m3_share_block(int dst, message *m, void *block);
int m3_share_block_T(int dst, message *m, void *block, long timeout_ms);
int m3_block_reclaim(void *block);

/* ---- Names ------------------------------------------------------------- */

/*
 * Gives the caller's endpoint a name of 1 to M3_NAME_MAX bytes, unique in its VM,
 * freed with the endpoint. An endpoint may have several.
 * Returns 0, EMOLDRVSINIT, EMOLNOTBIND, EMOLRSCBUSY (taken, also by the caller),
 * EMOLNAMESIZE (too long), or EMOLINVAL (empty).
 */
int m3_name_attach(const char *name);

/*
 * The endpoint that has a name in the caller's VM; wait4name waits for it.
 * Return the endpoint, EMOLDRVSINIT, EMOLNOTBIND, EMOLNONODE (locate: unknown),
 * EMOLNAMESIZE, EMOLINVAL, EMOLINTR, or EMOLTIMEDOUT.
 */
int m3_name_locate(const char *name);
int m3_wait4name(const char *name);
int m3_wait4name_T(const char *name, long timeout_ms);

/* ---- The calling endpoint ---------------------------------------------- */

/*
 * Fills *peer with who sent the message that the caller's endpoint took last.
 * Returns 0, EMOLDRVSINIT, EMOLNOTBIND, or EMOLNOMSG (none was taken yet).
 */
int m3_peer(struct m3_peer *peer);

/*
 * A descriptor that polls readable when receive from ANY may have something to
 * take. It belongs to the library and ends with the endpoint: only poll it. Readable
 * is a hint: call receive_T with TIMEOUT_NOWAIT until it gives EMOLAGAIN, then poll;
 * after any other call on the endpoint, receive_T again before the next poll.
 * Returns the descriptor, EMOLDRVSINIT, or EMOLNOTBIND.
 */
int m3_fd(void);

/* What a code means, in a few words: never NULL, static, safe in every thread. */
const char *m3_strerror(int code);

/* The release of the library, as "0.1.0". */
const char *m3_version(void);

/* ---- Not in this release: each returns EMOLNOSYS ----------------------- */

/* Notify a process of any VM as HARDWARE; notify with an argument. */
int mnx_hdw_notify(int vmid, int dst);
int mnx_ntfy_value(int src_nr, int dst, int value);

/* A VM spans one node more, or one less. */
int mnx_add_node(int vmid, int nodeid);
int mnx_del_node(int vmid, int nodeid);

/* Another node appears under a name, or goes. */
int mnx_node_up(const char *name, int nodeid, int proxy_nr);
int mnx_node_down(int nodeid);
int mnx_getnodeinfo(int nodeid, node_usr_t *info);

/* Binds a process of another node. */
int mnx_rmtbind(int vmid, const char *name, int ep, int nodeid);

/* Moves a process to another node: start, then commit or roll back. */
int mnx_migr_start(int vmid, int ep);
int mnx_migr_commit(int pid, int vmid, int ep, int nodeid);
int mnx_migr_rollback(int vmid, int ep);

#ifdef __cplusplus
}
#endif

#include "m3ipc/later.h"

#endif /* M3IPC_H */
