/* The calls of DVK, with addresses as loosely typed as there. */
#ifndef M3IPC_COMPAT_STUB_DVKCALL_H
#define M3IPC_COMPAT_STUB_DVKCALL_H

#include "stub_syscall.h"

#define dvk_send(d, m)                   (dvk_send)((d), M3_MSG(m))
#define dvk_send_T(d, m, ms)             (dvk_send_T)((d), M3_MSG(m), (ms))
#define dvk_receive(s, m)                (dvk_receive)((s), M3_MSG(m))
#define dvk_receive_T(s, m, ms)          (dvk_receive_T)((s), M3_MSG(m), (ms))
#define dvk_sendrec(d, m)                (dvk_sendrec)((d), M3_MSG(m))
#define dvk_sendrec_T(d, m, ms)          (dvk_sendrec_T)((d), M3_MSG(m), (ms))
#define dvk_rcvrqst(m)                   (dvk_rcvrqst)(M3_MSG(m))
#define dvk_rcvrqst_T(m, ms)             (dvk_rcvrqst_T)(M3_MSG(m), (ms))
#define dvk_reply(d, m)                  (dvk_reply)((d), M3_MSG(m))
#define dvk_reply_T(d, m, ms)            (dvk_reply_T)((d), M3_MSG(m), (ms))
#define dvk_relay(d, m)                  (dvk_relay)((d), M3_MSG(m))

/* m3ipc has no replicas, no proxies and no foreign kernels: see stub_syscall.h. */
#define dvk_umbind(dc, pid, ep)          ((void)(dc), (void)(pid), (void)(ep), EMOLBINDTYPE)
#define dvk_bkupbind(dc, pid, ep, node)  mnx_bkupbind(dc, pid, ep, node)
#define dvk_replbind(dc, pid, ep)        mnx_replbind(dc, pid, ep)
#define dvk_proxies_bind(n, px, s, r, b) mnx_proxies_bind(n, px, s, r, b)
#define dvk_proxies_unbind(px)           mnx_proxies_unbind(px)
#define dvk_proxy_conn(px, status)       mnx_proxy_conn(px, status)
#define dvk_getproxyinfo(px, s, r)       mnx_getproxyinfo(px, s, r)
#define dvk_put2lcl(header, payload)     mnx_put2lcl(header, payload)
#define dvk_get2rmt(header, payload)     mnx_get2rmt(header, payload)
#define dvk_get2rmt_T(header, payload, ms) mnx_get2rmt_T(header, payload, ms)
#define dvk_delnode(dc, node)            mnx_del_node((dc), (node))

/* The descriptor of the device. The library opens none, so it stays -1. */
#ifndef __cplusplus
int dvk_fd __attribute__((weak)) = -1;
#endif

/* The general forms of the calls of DVK: kind selects the call. */
static inline int dvk_bind_X(int kind, int dcid, int pid, int ep, int nodeid) {
  (void)nodeid;
  switch (kind) {
  case SELF_BIND: return pid == PROC_NO_PID ? mnx_bind(dcid, ep) : mnx_tbind(dcid, ep);
  case LCL_BIND: return mnx_lclbind(dcid, pid, ep);
  case RMT_BIND:
  case BKUP_BIND:
  case REPLICA_BIND: return EMOLNONODE;
  default: return EMOLBINDTYPE;
  }
}

static inline int dvk_wait4bindep_X(int kind, int ep, long timeout_ms) {
  if (kind == WAIT_UNBIND) return mnx_wait4unbind_T(ep, timeout_ms);
  if (kind != WAIT_BIND) return EMOLBADCALL;
  return ep == SELF ? mnx_wait4bind_T(timeout_ms) : mnx_wait4bindep_T(ep, timeout_ms);
}

static inline int dvk_notify_X(int nr, int ep, int value) {
  if (nr == SELF) return mnx_notify(ep);
  if (value == HARDWARE) return mnx_src_notify(nr, ep);
  return nr == HARDWARE ? mnx_hdw_notify(value, ep) : mnx_ntfy_value(nr, ep, value);
}

static inline int dvk_migrate_X(int kind, int pid, int dcid, int ep, int nodeid) {
  switch (kind) {
  case MIGR_START: return mnx_migr_start(dcid, ep);
  case MIGR_COMMIT: return mnx_migr_commit(pid, dcid, ep, nodeid);
  case MIGR_ROLLBACK: return mnx_migr_rollback(dcid, ep);
  default: return EMOLBADCALL;
  }
}

#endif /* M3IPC_COMPAT_STUB_DVKCALL_H */
