/* The calls of M3-IPC and MOL-IPC, with addresses as loosely typed as there. */
#ifndef M3IPC_COMPAT_STUB_SYSCALL_H
#define M3IPC_COMPAT_STUB_SYSCALL_H

#include "../../m3ipc.h"
#include "minix/com.h"
#include "minix/proxy_usr.h"

#include <stdint.h>

/* Programs of MOL-IPC may pass the address of a message or record as a long. */
#define M3_MSG(m) ((message *)(intptr_t)(m))

#define mnx_send(d, m)                   (mnx_send)((d), M3_MSG(m))
#define mnx_send_T(d, m, ms)             (mnx_send_T)((d), M3_MSG(m), (ms))
#define mnx_receive(s, m)                (mnx_receive)((s), M3_MSG(m))
#define mnx_receive_T(s, m, ms)          (mnx_receive_T)((s), M3_MSG(m), (ms))
#define mnx_sendrec(d, m)                (mnx_sendrec)((d), M3_MSG(m))
#define mnx_sendrec_T(d, m, ms)          (mnx_sendrec_T)((d), M3_MSG(m), (ms))
#define mnx_rcvrqst(m)                   (mnx_rcvrqst)(M3_MSG(m))
#define mnx_rcvrqst_T(m, ms)             (mnx_rcvrqst_T)(M3_MSG(m), (ms))
#define mnx_reply(d, m)                  (mnx_reply)((d), M3_MSG(m))
#define mnx_reply_T(d, m, ms)            (mnx_reply_T)((d), M3_MSG(m), (ms))
#define mnx_relay(d, m)                  (mnx_relay)((d), M3_MSG(m))
#define mnx_vcopy(s, sa, d, da, n) \
  (mnx_vcopy)((s), (void *)(intptr_t)(sa), (d), (void *)(intptr_t)(da), (n))
#define mnx_vcopy_T(s, sa, d, da, n, ms) \
  (mnx_vcopy_T)((s), (void *)(intptr_t)(sa), (d), (void *)(intptr_t)(da), (n), (ms))
#define mnx_drvs_init(node, p)           (mnx_drvs_init)((node), (drvs_usr_t *)(intptr_t)(p))
#define mnx_dvs_init(node, p)            (mnx_dvs_init)((node), (dvs_usr_t *)(intptr_t)(p))
#define mnx_getdrvsinfo(p)               (mnx_getdrvsinfo)((drvs_usr_t *)(intptr_t)(p))
#define mnx_getdvsinfo(p)                (mnx_getdvsinfo)((dvs_usr_t *)(intptr_t)(p))
#define mnx_vm_init(p)                   (mnx_vm_init)((VM_usr_t *)(intptr_t)(p))
#define mnx_dc_init(p)                   (mnx_dc_init)((dc_usr_t *)(intptr_t)(p))
#define mnx_getvminfo(vm, p)             (mnx_getvminfo)((vm), (VM_usr_t *)(intptr_t)(p))
#define mnx_getdcinfo(dc, p)             (mnx_getdcinfo)((dc), (dc_usr_t *)(intptr_t)(p))
#define mnx_getprocinfo(dc, nr, p)       (mnx_getprocinfo)((dc), (nr), (proc_usr_t *)(intptr_t)(p))
#define mnx_setpriv(dc, ep, p)           (mnx_setpriv)((dc), (ep), (priv_usr_t *)(intptr_t)(p))
#define mnx_getpriv(dc, ep, p)           (mnx_getpriv)((dc), (ep), (priv_usr_t *)(intptr_t)(p))
#define mnx_getnodeinfo(node, p)         (mnx_getnodeinfo)((node), (node_usr_t *)(intptr_t)(p))

/*
 * Replicas and proxies of programs serve remote nodes. Here m3-proxy does. So mnx_getproxyinfo
 * informs, and the other calls have no meaning: a call that returns an endpoint gives EMOLNONODE,
 * the others give EMOLNOSYS.
 */
#define mnx_bkupbind(dc, pid, ep, node) \
  ((void)(dc), (void)(pid), (void)(ep), (void)(node), EMOLNONODE)
#define mnx_replbind(dc, pid, ep)        ((void)(dc), (void)(pid), (void)(ep), EMOLNONODE)
#define mnx_proxies_bind(n, px, s, r, b) \
  ((void)(n), (void)(px), (void)(s), (void)(r), (void)(b), EMOLNOSYS)
#define mnx_proxies_unbind(px)           ((void)(px), EMOLNOSYS)
#define mnx_proxy_conn(px, status)       ((void)(px), (void)(status), EMOLNOSYS)
#define mnx_getproxyinfo(px, s, r) \
  (mnx_getproxyinfo)((px), (proc_usr_t *)(intptr_t)(s), (proc_usr_t *)(intptr_t)(r))
#define mnx_put2lcl(header, payload)     ((void)(header), (void)(payload), EMOLNOSYS)
#define mnx_get2rmt_T(header, payload, ms) \
  ((void)(header), (void)(payload), (void)(ms), EMOLNOSYS)
#define mnx_get2rmt(header, payload)     mnx_get2rmt_T((header), (payload), HELLO_PERIOD)

/*
 * The number of the node, which programs of the later releases declare or define, and fill from
 * mnx_getdvsinfo. In C++ a program defines it itself.
 */
#ifndef __cplusplus
int local_nodeid __attribute__((weak));
#endif

#endif /* M3IPC_COMPAT_STUB_SYSCALL_H */
