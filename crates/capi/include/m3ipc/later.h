/*
 * The words of the later releases: DVS for DRVS, DC for VM, the prefix dvk_ for
 * mnx_, and EDVS for EMOL. Nothing here is a symbol of the library: each name is
 * the call of m3ipc.h behind it, inline.
 */
#ifndef M3IPC_LATER_H
#define M3IPC_LATER_H


/* ---- MOL-IPC: mnx_dvs_, mnx_dc_ ---------------------------------------- */

static inline int mnx_dvs_init(int nodeid, dvs_usr_t *params) {
  return mnx_drvs_init(nodeid, (drvs_usr_t *)(void *)params);
}
static inline int mnx_dvs_end(void) { return mnx_drvs_end(); }
static inline int mnx_getdvsinfo(dvs_usr_t *info) {
  return mnx_getdrvsinfo((drvs_usr_t *)(void *)info);
}
static inline int mnx_dc_init(dc_usr_t *params) {
  return mnx_vm_init((VM_usr_t *)(void *)params);
}
static inline int mnx_dc_end(int dcid) { return mnx_vm_end(dcid); }
static inline int mnx_getdcinfo(int dcid, dc_usr_t *info) {
  return mnx_getvminfo(dcid, (VM_usr_t *)(void *)info);
}
static inline int mnx_dc_dump(void) { return mnx_vm_dump(); }

/* ---- DVK: dvk_ --------------------------------------------------------- */

#define DVK_IPC         (1 << 0)
#define DVK_IOCTL       (1 << 1)
#define DVK_USERMODE    M3_DRVS_USERMODE
#define DVK_INITIALIZED M3_DRVS_INITIALIZED

/* The library needs no device to be opened. Returns 0. */
static inline int dvk_open(void) { return OK; }

static inline int dvk_dvs_init(int nodeid, dvs_usr_t *params) {
  return mnx_dvs_init(nodeid, params);
}
static inline int dvk_dvs_end(void) { return mnx_dvs_end(); }
static inline int dvk_getdvsinfo(dvs_usr_t *info) { return mnx_getdvsinfo(info); }
static inline int dvk_dc_init(dc_usr_t *params) { return mnx_dc_init(params); }
static inline int dvk_dc_end(int dcid) { return mnx_dc_end(dcid); }
static inline int dvk_getdcinfo(int dcid, dc_usr_t *info) { return mnx_getdcinfo(dcid, info); }
static inline int dvk_dc_dump(void) { return mnx_dc_dump(); }

static inline int dvk_bind(int dcid, int nr) { return mnx_bind(dcid, nr); }
static inline int dvk_tbind(int dcid, int nr) { return mnx_tbind(dcid, nr); }
static inline int dvk_lclbind(int dcid, int pid, int nr) { return mnx_lclbind(dcid, pid, nr); }
static inline int dvk_unbind(int dcid, int ep) { return mnx_unbind(dcid, ep); }
static inline int dvk_unbind_T(int dcid, int ep, long timeout_ms) {
  return mnx_unbind_T(dcid, ep, timeout_ms);
}
static inline int dvk_getep(int pid) { return mnx_getep(pid); }
static inline int dvk_wait4bind(void) { return mnx_wait4bind(); }
static inline int dvk_wait4bind_T(long timeout_ms) { return mnx_wait4bind_T(timeout_ms); }
static inline int dvk_wait4bindep(int ep) { return mnx_wait4bindep(ep); }
static inline int dvk_wait4bindep_T(int ep, long timeout_ms) {
  return mnx_wait4bindep_T(ep, timeout_ms);
}
static inline int dvk_wait4unbind(int ep) { return mnx_wait4unbind(ep); }
static inline int dvk_wait4unbind_T(int ep, long timeout_ms) {
  return mnx_wait4unbind_T(ep, timeout_ms);
}
static inline int dvk_getprocinfo(int dcid, int nr, proc_usr_t *info) {
  return mnx_getprocinfo(dcid, nr, info);
}
static inline int dvk_proc_dump(int dcid) { return mnx_proc_dump(dcid); }
static inline int dvk_setpriv(int dcid, int ep, priv_usr_t *priv) {
  return mnx_setpriv(dcid, ep, priv);
}
static inline int dvk_getpriv(int dcid, int ep, priv_usr_t *priv) {
  return mnx_getpriv(dcid, ep, priv);
}

static inline int dvk_send(int dst, message *m) { return mnx_send(dst, m); }
static inline int dvk_send_T(int dst, message *m, long timeout_ms) {
  return mnx_send_T(dst, m, timeout_ms);
}
static inline int dvk_receive(int src, message *m) { return mnx_receive(src, m); }
static inline int dvk_receive_T(int src, message *m, long timeout_ms) {
  return mnx_receive_T(src, m, timeout_ms);
}
static inline int dvk_sendrec(int dst, message *m) { return mnx_sendrec(dst, m); }
static inline int dvk_sendrec_T(int dst, message *m, long timeout_ms) {
  return mnx_sendrec_T(dst, m, timeout_ms);
}
static inline int dvk_reply(int dst, message *m) { return mnx_reply(dst, m); }
static inline int dvk_reply_T(int dst, message *m, long timeout_ms) {
  return mnx_reply_T(dst, m, timeout_ms);
}
static inline int dvk_rcvrqst(message *m) { return mnx_rcvrqst(m); }
static inline int dvk_rcvrqst_T(message *m, long timeout_ms) {
  return mnx_rcvrqst_T(m, timeout_ms);
}
static inline int dvk_relay(int dst, message *m) { return mnx_relay(dst, m); }
static inline int dvk_notify(int dst) { return mnx_notify(dst); }
static inline int dvk_src_notify(int src_nr, int dst) { return mnx_src_notify(src_nr, dst); }
static inline int dvk_wakeup(int dcid, int ep) { return mnx_wakeup(dcid, ep); }

static inline int dvk_vcopy(int src, void *saddr, int dst, void *daddr, long bytes) {
  return mnx_vcopy(src, saddr, dst, daddr, bytes);
}
static inline int dvk_vcopy_T(int src, void *saddr, int dst, void *daddr, long bytes,
                              long timeout_ms) {
  return mnx_vcopy_T(src, saddr, dst, daddr, bytes, timeout_ms);
}
static inline int dvk_hdw_notify(int dcid, int dst) { return mnx_hdw_notify(dcid, dst); }
static inline int dvk_ntfy_value(int src_nr, int dst, int value) {
  return mnx_ntfy_value(src_nr, dst, value);
}
static inline int dvk_add_node(int dcid, int nodeid) { return mnx_add_node(dcid, nodeid); }
static inline int dvk_del_node(int dcid, int nodeid) { return mnx_del_node(dcid, nodeid); }
static inline int dvk_node_up(const char *name, int nodeid, int proxy_nr) {
  return mnx_node_up(name, nodeid, proxy_nr);
}
static inline int dvk_node_down(int nodeid) { return mnx_node_down(nodeid); }
static inline int dvk_getnodeinfo(int nodeid, node_usr_t *info) {
  return mnx_getnodeinfo(nodeid, info);
}
static inline int dvk_rmtbind(int dcid, const char *name, int ep, int nodeid) {
  return mnx_rmtbind(dcid, name, ep, nodeid);
}
static inline int dvk_migr_start(int dcid, int ep) { return mnx_migr_start(dcid, ep); }
static inline int dvk_migr_commit(int pid, int dcid, int ep, int nodeid) {
  return mnx_migr_commit(pid, dcid, ep, nodeid);
}
static inline int dvk_migr_rollback(int dcid, int ep) { return mnx_migr_rollback(dcid, ep); }

/* ---- DVK: EDVS --------------------------------------------------------- */

#define EDVSPERM           EMOLPERM
#define EDVSSRCH           EMOLSRCH
#define EDVSINTR           EMOLINTR
#define EDVSAGAIN          EMOLAGAIN
#define EDVSNOMEM          EMOLNOMEM
#define EDVSFAULT          EMOLFAULT
#define EDVSBUSY           EMOLBUSY
#define EDVSINVAL          EMOLINVAL
#define EDVSRANGE          EMOLRANGE
#define EDVSNOSYS          EMOLNOSYS
#define EDVSTIMEDOUT       EMOLTIMEDOUT
#define EDVSNOTCONN        EMOLNOTCONN
#define EDVSSHUTDOWN       EMOLSHUTDOWN
#define EDVSADDRNOTAVAIL   EMOLADDRNOTAVAIL
#define EDVSMSGSIZE        EMOLMSGSIZE
#define EDVSLOCKED         EMOLLOCKED
#define EDVSBADCALL        EMOLBADCALL
#define EDVSBADSRCDST      EMOLBADSRCDST
#define EDVSCALLDENIED     EMOLCALLDENIED
#define EDVSDEADSRCDST     EMOLDEADSRCDST
#define EDVSNOTREADY       EMOLNOTREADY
#define EDVSBADREQUEST     EMOLBADREQUEST
#define EDVSSRCDIED        EMOLSRCDIED
#define EDVSDSTDIED        EMOLDSTDIED
#define EDVSTRAPDENIED     EMOLTRAPDENIED
#define EDVSDONTREPLY      EMOLDONTREPLY
#define EDVSERRCODE        EMOLERRCODE
#define EDVSBADNODEID      EMOLBADNODEID
#define EDVSBADDCID        EMOLBADVMID
#define EDVSDCNOTRUN       EMOLVMNOTRUN
#define EDVSBADPROC        EMOLBADPROC
#define EDVSBADPID         EMOLBADPID
#define EDVSENDPOINT       EMOLENDPOINT
#define EDVSNOPROXY        EMOLNOPROXY
#define EDVSRMTPROC        EMOLRMTPROC
#define EDVSLCLPROC        EMOLLCLPROC
#define EDVSNOTBIND        EMOLNOTBIND
#define EDVSNODEBUSY       EMOLNODEBUSY
#define EDVSNONODE         EMOLNONODE
#define EDVSDVSBUSY        EMOLDRVSBUSY
#define EDVSDVSINIT        EMOLDRVSINIT
#define EDVSNODCNODE       EMOLNOVMNODE
#define EDVSPROCRUN        EMOLPROCRUN
#define EDVSNOMSG          EMOLNOMSG
#define EDVSDCRUN          EMOLVMRUN
#define EDVSPROCSTS        EMOLPROCSTS
#define EDVSNODEFREE       EMOLNODEFREE
#define EDVSDCNODE         EMOLVMNODE
#define EDVSBADPROXY       EMOLBADPROXY
#define EDVSONCOPY         EMOLONCOPY
#define EDVSENQUEUED       EMOLENQUEUED
#define EDVSOVERRUN        EMOLOVERRUN
#define EDVSBADOWNER       EMOLBADOWNER
#define EDVSMIGRATE        EMOLMIGRATE
#define EDVSPROXYFREE      EMOLPROXYFREE
#define EDVSGRPLEADER      EMOLGRPLEADER
#define EDVSPRIVILEGES     EMOLPRIVILEGES
#define EDVSBINDTYPE       EMOLBINDTYPE
#define EDVSSLOTUSED       EMOLSLOTUSED
#define EDVSBADRANGE       EMOLBADRANGE
#define EDVSBADVALUE       EMOLBADVALUE
#define EDVSBADDIR         EMOLBADDIR
#define EDVSBADFILE        EMOLBADFILE
#define EDVSRSCBUSY        EMOLRSCBUSY
#define EDVSNAMESIZE       EMOLNAMESIZE
#define EDVSALLOCMEM       EMOLALLOCMEM
#define EDVSPROXYID        EMOLPROXYID
#define EDVSREPLPROC       EMOLREPLPROC
#define EDVSALIGN          EMOLALIGN
#define EDVSWOKENUP        EMOLWOKENUP

#endif /* M3IPC_LATER_H */
