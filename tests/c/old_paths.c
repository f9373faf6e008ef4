/*
 * old_paths: a program as of MOL-IPC and DVK, with their include paths and their words, and with
 * addresses passed as a long. The test compiles it, in C and in C++, and never runs it.
 *
 *     cc -Wall -Wextra -Werror $(pkg-config --cflags m3ipc-compat) -c old_paths.c
 */
#include "stub_syscall.h"
#include "./kernel/minix/config.h"
#include "./kernel/minix/ipc.h"
#include "./kernel/minix/kipc.h"
#include "./kernel/minix/cmd.h"
#include "./kernel/minix/molerrno.h"
#include "./kernel/minix/moldebug.h"
#include "./minix/const.h"
#include "../stub_syscall.h"
#include "../kernel/minix/com.h"
#include "../kernel/minix/dvs_usr.h"
#include "../kernel/minix/dc_usr.h"
#include "../kernel/minix/drvs_usr.h"
#include "../kernel/minix/vm_usr.h"
#include "../../kernel/minix/proc_usr.h"
#include "../../kernel/minix/proc_sts.h"
#include "../../kernel/minix/timers.h"
#include "../../../kernel/minix/endpoint.h"
#include "../include/com/dvs_config.h"
#include "../include/com/dvk_calls.h"
#include "../include/com/dvs_errno.h"
#include "../include/com/macros.h"
#include "../../include/com/priv_usr.h"
#include "../include/com/stub_dvkcall.h"
#include "../include/dvk/dvk_ioparm.h"

#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
static int dvk_fd = -1; /* in C++ a program defines them itself */
#endif
int local_nodeid;

int main(void) {
  message m, *p = &m;
  dvs_usr_t dvs, *d = &dvs;
  dc_usr_t dcu, *c = &dcu;
  VM_usr_t vmu, *v = &vmu;
  proc_usr_t proc, *q = &proc;
  priv_usr_t priv, *r = &priv;

  memset(p, 0, sizeof m);
  memset(d, 0, sizeof dvs);
  memset(c, 0, sizeof dcu);
  memset(v, 0, sizeof vmu);
  memset(q, 0, sizeof proc);
  memset(r, 0, sizeof priv);
  d->d_nr_dcs = NR_DCS;
  dcu.dc_warn2proc = NONE;

  int ret = mnx_dvs_init(0, (long)d);
  printf(DVS_USR_FORMAT DVS_MAX_FORMAT DVS_VER_FORMAT, DVS_USR_FIELDS(d), DVS_MAX_FIELDS(d),
         DVS_VER_FIELDS(d));
  if (ret < EMOLERRCODE) return 1;
  ret = mnx_dc_init(c);
  printf(DC_USR_FORMAT DC_WARN_FORMAT DC_CPU_FORMAT, DC_USR_FIELDS(c), DC_WARN_FIELDS(c),
         DC_CPU_FIELDS(c));
  ret = mnx_getvminfo(0, v);
  printf(VM_USR_FORMAT, VM_USR_FIELDS(v));

  int ep = mnx_bind(0, FIRST_USER_NR);
  ret = mnx_send(ep, (long)&m);
  ret = mnx_receive_T(ANY, (long)p, TIMEOUT_MOLCALL);
  ret = mnx_getprocinfo(0, 1, q);
  printf(PROC_USR_FORMAT PROC_WAIT_FORMAT PROC_COUNT_FORMAT, PROC_USR_FIELDS(q),
         PROC_WAIT_FIELDS(q), PROC_COUNT_FIELDS(q));
  if (q->p_dcid != 0 || TEST_BIT(q->p_rts_flags, BIT_SLOT_FREE)) return 1;
  ret = mnx_replbind(0, 1, ep);
  if (ret >= EMOLERRCODE) return 1;
  ret = mnx_proxy_conn(1, CONNECT_SPROXY) + mnx_get2rmt((long)p, (long)p) + mnx_put2lcl(p, p);

  ret = dvk_open();
  if (dvk_fd >= 0) return 1;
  local_nodeid = dvk_getdvsinfo(d);
  ret = dvk_delnode(0, local_nodeid) + dvk_getproxyinfo(1, q, q);
  ret = dvk_get2rmt_T(p, p, HELLO_PERIOD) + dvk_put2lcl(p, p);
  ret = dvk_bind_X(SELF_BIND, 0, PROC_NO_PID, FIRST_USER_NR, LOCALNODE);
  if (ret < EDVSERRCODE) return 1;
  ret = dvk_wait4bindep_X(WAIT_BIND, SELF, TIMEOUT_FOREVER);
  ret = dvk_sendrec_T(ep, (long)p, 1000);
  if (ret == EDVSTIMEDOUT || ret == EDVSNOENT) return 1;
  ret = dvk_getpriv(0, ep, r);
  set_sys_bit(r->priv_ipc_to, 3);
  printf(PRIV_USR_FORMAT, PRIV_USR_FIELDS(r));
  MOLDEBUG(DBGPARAMS, "%d\n", DVK_SENDREC + SENDREC);
  printf(MSG1_FORMAT MSG9_FORMAT MSGA_FORMAT, MSG1_FIELDS(p), MSG9_FIELDS(p), MSGA_FIELDS(p));
  return ret;
}
