/* Call numbers of MOL-IPC. */
#ifndef M3IPC_COMPAT_MINIX_KIPC_H
#define M3IPC_COMPAT_MINIX_KIPC_H

#include "../../../m3ipc.h"

#define DCINIT       0
#define SEND         1
#define RECEIVE      2
#define NOTIFY       4
#define SENDREC      5
#define RCVRQST      6
#define REPLY        7
#define DCEND        8
#define BIND         9
#define UNBIND       10
#define DCDUMP       11
#define PROCDUMP     12
#define GETPRIV      13
#define SETPRIV      14
#define VCOPY        15
#define GETDCINFO    16
#define GETPROCINFO  17
#define RELAY        19
#define PROXYBIND    20
#define PROXYUNBIND  21
#define GETNODEINFO  22
#define PUT2LCL      23
#define GET2RMT      24
#define ADDNODE      25
#define DELNODE      26
#define DVSINIT      27
#define DVSEND       28
#define GETEP        29
#define GETDVSINFO   30
#define PROXYCONN    31
#define WAIT4BIND    32
#define MIGRATE      33
#define NODEUP       34
#define NODEDOWN     35
#define GETPROXYINFO 36
#define WAKEUPEP     37

#define NR_MOLCALLS  38
#ifndef NR_DVK_CALLS
#define NR_DVK_CALLS 38
#endif

#endif /* M3IPC_COMPAT_MINIX_KIPC_H */
