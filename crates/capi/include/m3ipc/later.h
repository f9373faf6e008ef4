/*
 * The words of the later releases: DVS for DRVS, DC for VM, the prefix dvk_ for mnx_, and EDVS for
 * EMOL. m3ipc.h includes this file unless M3_NO_SHORT_NAMES is defined.
 *
 * Each function here is inline and makes the call of m3ipc.h behind it: same parameters, same
 * results, same rules for threads and signals. The library has no symbol of these names.
 */
#ifndef M3IPC_LATER_H
#define M3IPC_LATER_H

#include "copy.h"
#include "endpoint.h"
#include "ipc.h"
#include "node.h"
#include "remote.h"
#include "short.h"

/* ---- Numbers ----------------------------------------------------------- */

#define DVS_VERSION M3IPC_VERSION_MAJOR
#define DVS_SUBVER  M3IPC_VERSION_MINOR
#define NR_DCS      NR_VMS
#define MAXDCNAME   MAXVMNAME
#define DC_RUNNING  VM_RUNNING
#define BIT_DC_FREE BIT_VM_FREE
#define DC_FREE     VM_FREE

/* ---- Records ----------------------------------------------------------- */

/* struct m3_drvs_usr, with d_nr_dcs for d_nr_vms. */
struct dvs_usr {
  int d_nr_dcs;
  int d_nr_nodes;
  int d_nr_procs;
  int d_nr_tasks;
  int d_nr_sysprocs;
  int d_max_copybuf;
  int d_max_copylen;
  unsigned long d_dbglvl;
  int d_version;
  int d_subver;
  unsigned long d_flags;
  int d_size_proc;
  char d_name[MAXPROCNAME];
};
typedef struct dvs_usr dvs_usr_t;

#define DVS_USR_FORMAT \
  "d_name=%.16s d_nr_dcs=%d d_nr_nodes=%d d_nr_procs=%d d_nr_tasks=%d d_nr_sysprocs=%d\n"
#define DVS_USR_FIELDS(p) (p)->d_name, (p)->d_nr_dcs, (p)->d_nr_nodes, (p)->d_nr_procs, \
  (p)->d_nr_tasks, (p)->d_nr_sysprocs
#define DVS_MAX_FORMAT DRVS_MAX_FORMAT
#define DVS_MAX_FIELDS(p) DRVS_MAX_FIELDS(p)
#define DVS_VER_FORMAT DRVS_VER_FORMAT
#define DVS_VER_FIELDS(p) DRVS_VER_FIELDS(p)

/* struct m3_vm_usr, with the prefix dc_ for vm_. */
struct dc_usr {
  int dc_dcid;
  int dc_flags;
  int dc_nr_procs;
  int dc_nr_tasks;
  int dc_nr_sysprocs;
  int dc_nr_nodes;
  unsigned long dc_nodes;
  int dc_warn2proc;
  int dc_warnmsg;
  int dc_pid;
  char dc_name[MAXDCNAME];
  m3_cpumask_t dc_cpumask;
  int dc_grace_ms;
  unsigned int dc_mode;
  unsigned int dc_uid;
  unsigned int dc_gid;
  unsigned int dc_members;
  unsigned int dc_copy;
  unsigned int dc_life;
  unsigned int dc_reserved;
};
typedef struct dc_usr dc_usr_t;

#define DC_USR_FORMAT "dc_dcid=%d dc_nr_procs=%d dc_nr_tasks=%d dc_nr_sysprocs=%d " \
  "dc_nr_nodes=%d dc_flags=%X dc_nodes=%lX dc_name=%.16s\n"
#define DC_USR_FIELDS(p) (p)->dc_dcid, (p)->dc_nr_procs, (p)->dc_nr_tasks, \
  (p)->dc_nr_sysprocs, (p)->dc_nr_nodes, (unsigned int)(p)->dc_flags, (p)->dc_nodes, (p)->dc_name
#define DC_USR1_FORMAT "dc_dcid=%d dc_nr_procs=%d dc_nr_tasks=%d dc_nr_sysprocs=%d dc_nr_nodes=%d\n"
#define DC_USR1_FIELDS(p) (p)->dc_dcid, (p)->dc_nr_procs, (p)->dc_nr_tasks, \
  (p)->dc_nr_sysprocs, (p)->dc_nr_nodes
#define DC_USR2_FORMAT "dc_flags=%X dc_nodes=%lX dc_pid=%d dc_name=%.16s\n"
#define DC_USR2_FIELDS(p) (unsigned int)(p)->dc_flags, (p)->dc_nodes, (p)->dc_pid, (p)->dc_name
#define DC_CPU_FORMAT "dc_dcid=%d dc_cpumask=%lX dc_name=%.16s\n"
#define DC_CPU_FIELDS(p) (p)->dc_dcid, (p)->dc_cpumask.bits[0], (p)->dc_name
#define DC_WARN_FORMAT "dc_dcid=%d dc_warn2proc=%d dc_warnmsg=%d\n"
#define DC_WARN_FIELDS(p) (p)->dc_dcid, (p)->dc_warn2proc, (p)->dc_warnmsg

typedef m3_sys_id_t dvk_id_t;
typedef m3_sys_map_t ipc_map_t;
typedef m3_moltimer_t dvktimer_t;

#if defined(__x86_64__) && !defined(__ILP32__)
M3_STATIC_ASSERT(sizeof(struct dvs_usr) == sizeof(struct m3_drvs_usr), dvs_usr_as_drvs_usr);
M3_STATIC_ASSERT(offsetof(struct dvs_usr, d_name) == 60, d_name_at_60);
M3_STATIC_ASSERT(sizeof(struct dc_usr) == sizeof(struct m3_vm_usr), dc_usr_as_vm_usr);
M3_STATIC_ASSERT(offsetof(struct dc_usr, dc_name) == 44, dc_name_at_44);
M3_STATIC_ASSERT(offsetof(struct dc_usr, dc_grace_ms) == 192, dc_grace_at_192);
#endif

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

/* Returns 0: the library opens no device. */
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

/* ---- Codes ------------------------------------------------------------- */

#define EMOLBADDCID        EMOLBADVMID
#define EMOLDCNOTRUN       EMOLVMNOTRUN
#define EMOLDVSBUSY        EMOLDRVSBUSY
#define EMOLDVSINIT        EMOLDRVSINIT
#define EMOLNODCNODE       EMOLNOVMNODE
#define EMOLDCRUN          EMOLVMRUN
#define EMOLDCNODE         EMOLVMNODE

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
